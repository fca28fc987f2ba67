"""The live view on a terminal: nodes, alarms, newest keys, and what to try; on a screen of its own."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

from crdtsyncd import terminal
from crdtsyncd.devfleet.hints import commands
from crdtsyncd.devfleet.observer import POLL_S, KeyRecord, is_answering, newest
from crdtsyncd.devfleet.state import MemberState, state_of
from crdtsyncd.wording import span
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from crdtsync.visible import in_line

if TYPE_CHECKING:
    from crdtsyncd.devfleet.observer import Observer

LAG_COLUMNS_WIDTH_MIN = 9
NARROW_CHARS = 76
KEYS_LINES_MIN = 5
"""With less room for keys the commands to try are left out."""
NOTES_LINES_MAX = 5

_COLOURS = {"ready": "green", "read-only": "yellow", "starting": "yellow", "silent": "yellow"}


async def show(observers: list[Observer]) -> None:
    """Redraw the screen until cancelled.

    :raises OSError: the terminal is gone.
    """
    console = terminal.console(highlight=False)
    started_s = time.monotonic()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            if not console.is_terminal:
                raise BrokenPipeError("the terminal is gone")
            live.update(draw(observers, time.monotonic() - started_s, *console.size), refresh=True)
            await asyncio.sleep(POLL_S)


def draw(observers: list[Observer], uptime_s: float, width: int, height: int) -> RenderableType:
    """The whole screen, fitted to its size: what matters least goes first."""
    states = [state_of(observer) for observer in observers]
    parts: list[RenderableType] = [_title(states, uptime_s, width), Text(), _nodes(states, width)]
    free = height - len(states) - 3
    notes = _notes(states, min(NOTES_LINES_MAX, free - 1))
    if notes:
        parts += [Text(), *notes]
        free -= len(notes) + 1
    hints = _hints(observers, width)
    if free - len(hints) - 2 < KEYS_LINES_MIN:
        hints = []
    rows_max = free - (len(hints) + 1 if hints else 0) - 2  # but the gap and the heading
    records = newest(observers, max(0, rows_max))
    if records:
        parts += [Text(), _keys(records, observers, width)]
    elif rows_max > 0:
        parts += [Text(), Text("no keys yet", style="dim")]
    if hints:
        parts += [Text()] * (rows_max - len(records) + 1) + hints
    return Group(*parts)


def _title(states: list[MemberState], uptime_s: float, width: int) -> Text:
    up = sum(state.is_up for state in states)
    left = f"crdtsync cluster, {up} of {len(states)} nodes up, {span(uptime_s)}"
    right = "Ctrl-C stops it"
    gap = width - len(left) - len(right)
    text = Text(left, style="bold", no_wrap=True, overflow="ellipsis")
    if gap >= 2:
        text.append(" " * gap + right, style="not bold dim")
    return text


def _table() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=False)


def _nodes(states: list[MemberState], width: int) -> Table:
    names = [state.name for state in states]
    table = _table()
    table.add_column("NODE", no_wrap=True)
    table.add_column("STATE", no_wrap=True)
    for title in ("PID", "KEYS", "CHANGES", "CONFLICTS"):
        table.add_column(title if width >= NARROW_CHARS else title[:5], justify="right", no_wrap=True)
    by_peer = 52 + LAG_COLUMNS_WIDTH_MIN * len(names) <= width
    for name in names if by_peer else ["PEERS"]:
        table.add_column(f"→{name}" if by_peer else "PEERS", justify="right", no_wrap=True)
    for state in states:
        table.add_row(*_node_cells(state), *(_lags(state, names) if by_peer else [_lag_summary(state, names)]))
    return table


def _node_cells(state: MemberState) -> list[Text]:
    colour = _COLOURS.get(state.condition, "red")
    figures = [f"{state.keys:,}", f"{state.changes:,}"] if state.is_up else ["", ""]
    conflicts = Text(f"{state.conflicts:,}" if state.is_up else "", style="yellow bold" if state.conflicts else "")
    pid = "" if state.pid is None else str(state.pid)
    return [Text(state.name, style="bold"), Text(state.condition, style=colour), *map(Text, [pid, *figures]), conflicts]


def _lags(state: MemberState, names: list[str]) -> list[Text]:
    return [Text("") if name == state.name or state.lags is None else _lag(state.lags.get(name)) for name in names]


def _lag(lag: int | None) -> Text:
    if lag is None:
        return Text("no link", style="red")
    return Text(f"lag {lag:,}", style="yellow" if lag else "dim")


def _lag_summary(state: MemberState, names: list[str]) -> Text:
    if state.lags is None:
        return Text("")
    linked = [lag for lag in state.lags.values() if lag is not None]
    lag = max(linked, default=0)
    style = "red" if len(linked) < len(names) - 1 else ("yellow" if lag else "dim")
    return Text(f"{len(linked)}/{len(names) - 1} lag {lag:,}", style=style)


def _notes(states: list[MemberState], lines_max: int) -> list[RenderableType]:
    """Why a node is down, and alarms: a line each."""
    notes = [(_fault(state), "red") for state in states if state.fault and not state.is_up]
    notes += [(f"{state.name}: ALARM {alarm}", "red bold") for state in states for alarm in state.alarms]
    if len(notes) > lines_max:
        left_out = len(notes) - lines_max + 1
        notes[max(0, lines_max - 1) :] = [(f"and {left_out} more", "red")]
    return [Text(note, style=style, no_wrap=True, overflow="ellipsis") for note, style in notes[: max(0, lines_max)]]


def _fault(state: MemberState) -> str:
    if state.condition != "down":
        return f"{state.name}: {state.fault}"
    left_s = max(1, math.ceil(state.restart_at_s - time.monotonic()))
    return f"{state.name}: back in {left_s} s; {state.fault}"


def _keys(records: list[KeyRecord], observers: list[Observer], width: int) -> Table:
    """One row a key; the value gets what room the others leave."""
    table = _table()
    is_wide = width >= NARROW_CHARS
    table.add_column("KEY", no_wrap=True, overflow="ellipsis", max_width=max(10, width // 4))
    table.add_column("VALUE", no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("AGENT", no_wrap=True, overflow="ellipsis", max_width=max(8, width // 6))
    table.add_column("NODE", no_wrap=True)
    table.add_column("UTC", no_wrap=True)
    if is_wide:
        table.add_column("HELD", no_wrap=True)
    table.expand = True
    for record in records:
        cells = [
            Text(in_line(record.key), style="bold"),
            Text(record.shown, style="yellow bold" if record.is_conflict else ""),
            Text(record.agent),
            Text(record.node),
            Text(f"{record.time:%H:%M:%S}", style="dim"),
        ]
        table.add_row(*cells, *([_held(record, observers)] if is_wide else []))
    return table


def _held(record: KeyRecord, observers: list[Observer]) -> Text:
    """A mark for each node: it shows the same (●), something else or nothing (○), or does not answer (·)."""
    marks = Text()
    for observer in observers:
        if not is_answering(observer):
            marks.append("·", style="red")
            continue
        held = observer.records.get(record.key)
        same = held is not None and held.stamp == record.stamp
        marks.append("●" if same else "○", style="green" if same else "yellow")
    return marks


def _hints(observers: list[Observer], width: int) -> list[RenderableType]:
    lines = commands([observer.member.place for observer in observers], width - 2)
    heading = Text("In another terminal, in this directory:", style="dim")
    return [heading, *(Text(f"  {line}", overflow="fold", style="cyan") for line in lines)]
