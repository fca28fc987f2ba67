"""``explain``: why this node has of a key what it has, or lacks it, on one screen."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.params import KEY
from crdtsyncd.cli.show import output
from crdtsyncd.wording import ago, rfc3339

# Any: the object that the daemon answers, see docs/reference/agent-protocol.md.
Fields = dict[str, Any]

LINES_MAX = 23
"""Lines of a terminal of 24, one of which the prompt takes."""
WIDTH_MAX = 100
VALUE_CHARS_MAX = 48
NODES_SHOWN_MAX = 6
_LABEL = 9


@state_command("explain")
@click.argument("key", type=KEY)
def explain(settings: Settings, key: str) -> None:
    """Show why this node has of a key what it has, or lacks it.

    Which change wrote it, from whom, over which peer it came and who else has it; of a key that is gone, who removed
    it; and what may be missing here: a change that waits for another one, a peer that is cut off or ahead, a space that
    this node does not hold. Nothing is asked of other nodes. With --json one object with all of it.

    \b
    Examples:
      crdtsync explain plan/goal
      crdtsync explain plan/goal --json | jq '.reasons[].code'
    """
    space = settings.space or os.environ.get("CRDTSYNC_SPACE") or "default"
    with connect(replace(settings, space="default")) as client:  # the space may be one that this node does not hold
        found = client.explain(key, space=space)
    if settings.json:
        output.line(json_values.dumps(_with_times(found)))
    else:
        _show(found)


def _with_times(part: Any) -> Any:  # Any: whatever the answer is made of
    if isinstance(part, dict):
        return {name: _with_times(field) for name, field in part.items()}
    if isinstance(part, list):
        return [_with_times(item) for item in part]
    return rfc3339(part) if isinstance(part, datetime) else part


def _show(found: Fields) -> None:
    width = min(WIDTH_MAX, shutil.get_terminal_size().columns) if sys.stdout.isatty() else WIDTH_MAX
    lines: list[str] = []
    for label, text in _rows(found):
        lines += _wrapped(label, text, width)
    if sys.stdout.isatty() and len(lines) > LINES_MAX:
        lines[LINES_MAX - 1 :] = [f"{'':{_LABEL}}… the rest is in --json"]
    for line in lines:
        output.line(line)


def _wrapped(label: str, text: str, width: int) -> list[str]:
    shown = "".join(character if character.isprintable() else " " for character in text)
    return textwrap.wrap(
        shown, width, initial_indent=f"{label:{_LABEL}}", subsequent_indent=" " * _LABEL, break_on_hyphens=False
    ) or [label]


def _rows(found: Fields) -> Iterator[tuple[str, str]]:
    space = "" if found["space"] == "default" else f" of space {found['space']}"
    yield "key", f"{found['key']}{space}, on {found['node']}"
    yield "state", f"{found['state']}: {found['summary']}"
    policy = found["policy"]
    if policy is not None and (found["values_total"] > 1 or policy["pattern"]):
        yield "policy", f"{policy['name']}" + (f" ({policy['why']})" if policy["why"] else "")
    for value in found["values"]:
        yield from _value(value, is_alone=found["values_total"] == 1)
    more = found["values_total"] - len(found["values"])
    if more:
        yield "", f"and {more:,} more: crdtsync get --siblings shows all"
    if found["removed"] is not None:
        yield from _removed(found["removed"])
    for reason in found["reasons"]:
        yield reason["code"] if len(reason["code"]) < _LABEL else "!", _reason(reason)
    if not found["reasons"] and found["values"]:
        yield "missing", "nothing that this node knows of"


def _reason(reason: Fields) -> str:
    code: str = reason["code"]
    message: str = reason["message"]
    return message if len(code) < _LABEL else f"{code}: {message}"


def _value(value: Fields, *, is_alone: bool) -> Iterator[tuple[str, str]]:
    shown = json_values.dumps(value["value"]) if value["value"] is not None else f"a {value['kind']}"
    cut = shown if len(shown) <= VALUE_CHARS_MAX else f"{shown[: VALUE_CHARS_MAX - 1]}…"
    field = f"field {value['field']}: " if value.get("field") else ""
    first = "" if is_alone else ", shown first" if value["first"] else ""
    expires = f", until {rfc3339(value['expires'])}" if value["expires"] else ""
    yield "value", f"{field}{cut} by {value['agent']}@{value['node']} {_ago(value['time'])}{first}{expires}"
    yield "  change", f"{value['dot']}, {_came(value)}"
    held, lacking = value["held_by"], value["not_held_by"]
    if is_alone and (held or lacking):
        yield "  held by", f" {_names(held)}" if held else " no other node, as far as this one knows"


def _came(value: Fields) -> str:
    if value["came"] == "made_here":
        return "made on this node"
    if value["came"] == "earlier":
        return "came before this daemon was started, or so long ago that it forgot how"
    how = " in a snapshot" if value["came"] == "snapshot" else ""
    return f"came over {value['over']}{how} {_ago(value['received'])}"


def _removed(removed: Fields) -> Iterator[tuple[str, str]]:
    written, by = removed["written"], removed["by"]
    yield "was", f"written by {written['agent']}@{written['node']} {_ago(written['time'])} ({removed['dot']})"
    if by is not None:
        yield "removed", f"by {by['agent']}@{by['node']} {_ago(by['time'])}: {by['op']} ({by['dot']}), {_came(by)}"


def _names(nodes: list[str]) -> str:
    more = len(nodes) - NODES_SHOWN_MAX
    return ", ".join(nodes[:NODES_SHOWN_MAX]) + (f" and {more:,} more" if more > 0 else "")


def _ago(time: datetime | None) -> str:
    return "" if time is None else ago(rfc3339(time))
