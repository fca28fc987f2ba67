"""A frame on a terminal, fitted to its size: what matters least goes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crdtsyncd.top.sample import Frame
from crdtsyncd.wording import ago, byte_size, counted, moment, span
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from crdtsync.visible import in_line

WIDE_CHARS = 110
"""From this width on keys and conflicts stand side by side."""
ALARMS_LINES_MAX = 4
PEERS_LINES_MAX = 12
_COLOURS = {"connected": "green", "indirect": "green", "connecting": "yellow", "ready": "green", "read-only": "yellow"}
_TROUBLE = {"connected": 1, "indirect": 2}
"""Peers in other states come first."""
_NEAR_PERCENT = 70
_RATES = ("writes", "reads", "received", "conflicts", "refusals", "commits")
_SIZES_CHARS_MIN = 60
"""Below this width the sizes of the log and the history of spaces, and round trips, are left out."""


def draw(frame: Frame, width: int, height: int, hint: str = "") -> RenderableType:
    """The whole screen; ``hint``: what whoever sits before it can do."""
    status = frame.status
    head = [_title(status, width, hint), *_rates(frame, width), *_store(status, width)]
    parts: list[RenderableType] = [*head]
    alarms = _alarms(status["alarms"])
    full = _full(status["usage"])
    parts += [*alarms, *([full] if full is not None else []), Text()]
    spaces = _spaces(status["spaces"], width)
    peers = _peers(status["peers"], width)
    parts += [spaces, Text(), peers]
    used = len(head) + len(alarms) + (full is not None) + 3 + spaces.row_count + max(1, peers.row_count) + 2
    rows_max = height - used - 1
    if rows_max >= 2:
        parts += [Text(), _keys(frame, width, rows_max - 1)]
    return Group(*parts)


def _title(status: Mapping[str, Any], width: int, hint: str) -> Text:
    node = status["node"]
    left = Text(no_wrap=True, overflow="ellipsis")
    left.append(node["name"], style="bold")
    left.append(f"  {node['state']}", style=_COLOURS.get(node["state"], "red"))
    left.append(f"  up {span(node['uptime_s'])}")
    version = f"  version {node['version']}"
    if len(left) + len(version) + len(hint) + 2 <= width:
        left.append(version)
    gap = width - len(left) - len(hint)
    if hint and gap >= 2:
        left.append(" " * gap + hint, style="dim")
    return left


def _fitted(parts: Sequence[Text], width: int) -> list[Text]:
    """The parts on as few lines as they need, none of them broken."""
    lines: list[Text] = []
    for part in parts:
        if lines and len(lines[-1]) + 2 + len(part) <= width:
            lines[-1].append("  ").append_text(part)
        else:
            lines.append(Text(no_wrap=True, overflow="ellipsis").append_text(part))
    return lines


def _rates(frame: Frame, width: int) -> list[Text]:
    parts = []
    for label in _RATES:
        rate = frame.rates[label]
        style = "yellow bold" if rate and label in ("conflicts", "refusals") else ("bold" if rate else "dim")
        figure = f"{rate:,.0f}/s" if rate >= 10 or not rate else f"{rate:.1f}/s"
        parts.append(Text.assemble((f"{label} ", "dim"), (figure, style)))
    return _fitted(parts, width)


def _store(status: Mapping[str, Any], width: int) -> list[Text]:
    store = status["store"]
    growth = store.get("growth_bytes_per_hour")
    parts = [
        f"store {byte_size(store['bytes'])}",
        f"{byte_size(store['free_bytes'])} free",
        "" if growth is None else f"{'+' if growth >= 0 else '-'}{byte_size(abs(growth))}/h",
        f"commit {store['last_commit_ms']:.1f} ms",
        counted(len(status["agents"]), "agent"),
    ]
    return _fitted([Text(part, style="dim") for part in parts if part], width)


def _alarms(alarms: Sequence[Mapping[str, Any]]) -> list[Text]:
    lines = [f"ALARM {alarm['code']}: {alarm['message']}" for alarm in alarms]
    if len(lines) > ALARMS_LINES_MAX:
        lines[ALARMS_LINES_MAX - 1 :] = [f"and {len(lines) - ALARMS_LINES_MAX + 1} alarms more"]
    return [Text(in_line(line), style="red bold", no_wrap=True, overflow="ellipsis") for line in lines]


def _full(usages: Sequence[Mapping[str, Any]]) -> Text | None:
    near = [usage for usage in usages if usage["percent"] >= _NEAR_PERCENT and usage["kind"] != "cap"]
    if not near:
        return None
    shown = ", ".join(f"{usage['name']} {usage['percent']:.0f} %" for usage in near)
    return Text(f"nearly full: {shown}", style="yellow", no_wrap=True, overflow="ellipsis")


def _table() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")


def _spaces(spaces: Sequence[Mapping[str, Any]], width: int) -> Table:
    table = _table()
    table.add_column("SPACE", no_wrap=True, overflow="ellipsis", max_width=max(10, width // 4))
    has_sizes = width >= _SIZES_CHARS_MIN
    for title in ("KEYS", "CONFLICTS", "WAITING", *(("LOG", "HISTORY") if has_sizes else ())):
        table.add_column(title, justify="right", no_wrap=True)
    for space in spaces:
        conflicts = Text(f"{space['siblings']:,}", style="yellow bold" if space["siblings"] else "")
        sizes = [byte_size(space["log_bytes"]), byte_size(space["history_bytes"])] if has_sizes else []
        waiting = f"{space['pending_changes']:,}"
        table.add_row(space["name"], f"{space['keys']:,}", conflicts, waiting, *sizes)
    return table


def _peers(peers: Sequence[Mapping[str, Any]], width: int) -> Table:
    """A row for each peer; the ones in trouble first, so that they are not those that are left out."""
    table = _table()
    is_wide = width >= WIDE_CHARS
    table.add_column("PEER", no_wrap=True, overflow="ellipsis", max_width=max(10, width // 4))
    table.add_column("STATE", no_wrap=True)
    has_times = width >= _SIZES_CHARS_MIN
    for title in ("RTT", "BEHIND", "AHEAD") if has_times else ("BEHIND", "AHEAD"):
        table.add_column(title, justify="right", no_wrap=True)
    if is_wide:
        table.add_column("SEEN", no_wrap=True)
        table.add_column("LAST ERROR", no_wrap=True, overflow="ellipsis", max_width=max(10, width - 80))
    ranked = sorted(peers, key=lambda peer: (_TROUBLE.get(peer["state"], 0), str(peer.get("name"))))
    for peer in ranked[:PEERS_LINES_MAX]:
        cells = [
            Text(in_line(peer.get("name") or peer.get("url") or "?")),
            Text(peer["state"], style=_COLOURS.get(peer["state"], "red")),
            *([Text("" if peer.get("rtt_ms") is None else f"{peer['rtt_ms']:.1f} ms")] if has_times else []),
            _lag(peer.get("behind")),
            _lag(peer.get("ahead")),
        ]
        if is_wide:
            seen = "now" if peer["state"] in _TROUBLE else ago(moment(peer.get("last_seen")))
            cells += [Text(seen, style="dim"), Text(in_line(peer.get("last_error") or ""), style="dim")]
        table.add_row(*cells)
    if not peers:
        table.add_row(Text("no peers", style="dim"), *[""] * (len(table.columns) - 1))
    elif len(peers) > PEERS_LINES_MAX:
        table.add_row(Text(f"and {len(peers) - PEERS_LINES_MAX} more", style="dim"), *[""] * (len(table.columns) - 1))
    return table


def _lag(lag: Mapping[str, int] | None) -> Text:
    count = sum((lag or {}).values())
    return Text(f"{count:,}", style="yellow bold" if count else "dim")


def _keys(frame: Frame, width: int, rows_max: int) -> RenderableType:
    """The keys written most, and those with several values: side by side, or the conflicts below."""
    hot = [(in_line(key), Text(f"{rate:,.1f}", style="bold")) for key, rate in frame.hot]
    conflicts = [(in_line(key), Text(f"{values:,}", style="yellow bold")) for key, values in frame.conflicts]
    if width >= WIDE_CHARS:
        both = Table.grid(padding=(0, 4, 0, 0))
        both.add_row(
            _ranking("HOTTEST KEYS", "WRITES/s", hot[:rows_max], width // 2 - 16),
            _ranking("CONFLICTS", "VALUES", conflicts[:rows_max], width // 2 - 16),
        )
        return both
    room = rows_max - min(len(conflicts), rows_max // 3) - 2 if conflicts else rows_max
    parts: list[RenderableType] = [_ranking("HOTTEST KEYS", "WRITES/s", hot[: max(1, room)], width - 14)]
    if conflicts and rows_max - room > 2:
        parts += [Text(), _ranking("CONFLICTS", "VALUES", conflicts[: rows_max - room - 2], width - 14)]
    return Group(*parts)


def _ranking(title: str, unit: str, rows: Sequence[tuple[str, Text]], key_width: int) -> Table:
    table = _table()
    table.add_column(title, no_wrap=True, overflow="ellipsis", max_width=max(12, key_width), min_width=len(title))
    table.add_column(unit, justify="right", no_wrap=True)
    for key, figure in rows:
        table.add_row(Text(key), figure)
    if not rows:
        table.add_row(Text("none", style="dim"), "")
    return table
