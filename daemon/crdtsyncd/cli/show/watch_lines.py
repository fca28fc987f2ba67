"""An event of a watch for people: one line for each key, cut to the width of the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsyncd.cli.data import json_values

if TYPE_CHECKING:
    from crdtsync.client import Entry, Event

_WORDS = {
    "lagged": "too slow to be told all that happened: what follows is the newest value of each key",
    "reset": "history does not reach back: forget what was told, and take what follows",
}


def told(event: Event, width: int) -> list[str]:
    """The lines that say what ``event`` says."""
    if event.events:
        head = f"{_when(event)} batch of {len(event.events)}{_who(event)}"
        return [_cut(head, width), *(line for part in event.events for line in told(part, width))]
    if event.key is None:
        return [f"{_when(event)} {_WORDS.get(event.event, 'these are all; now what comes')}"]
    what = event.op if event.event in ("set", "snapshot") and event.op not in (None, "state") else event.event
    shown = "" if event.value is None or isinstance(event.value, bytes) else f" {json_values.dumps(event.value)}"
    if event.is_cut:
        shown = " (too large for an event: read it)"
    lines = [_cut(f"{_when(event)} {what:<8} {event.key}{shown}", width - len(_who(event))) + _who(event)]
    lines += [_cut(f"{'':17} beside {_beside(other)}", width) for other in event.siblings]
    if event.siblings_more:
        lines.append(f"{'':17} beside {event.siblings_more:,} more: see crdtsync get --siblings")
    return lines


def _beside(other: Entry) -> str:
    return "a value too large for an event" if other.is_cut else json_values.dumps(other.value)


def _when(event: Event) -> str:
    return f"{event.time:%H:%M:%S}" if event.time is not None else " " * 8


def _who(event: Event) -> str:
    return f"  by {event.agent} on {event.node}" if event.agent else ""


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: max(width - 1, 20)] + "…"
