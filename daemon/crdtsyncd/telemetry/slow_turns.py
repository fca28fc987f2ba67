"""Tells the log of each turn that held the event loop for too long: in which stages, and what was in it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable

import msgpack
from crdtsyncd.telemetry.log_rate_limit import LineBounds, Log
from crdtsyncd.telemetry.turn_times import SLOW_TURN_S, UNMEASURED, Hold

from crdtsync.core.interface import AgentFrame, Event, PeerFrame, Ready
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.wire.peer.messages import message_name

LINES_PER_MINUTE_MAX = 10
"""Lines about one kind of turn."""
AGENTS_NAMED_MAX = 5
NAMES_MAX = 10
"""So many operations, messages and tables are named at most; those with most bytes or rows."""
HEAD_BYTES = 64
"""An operation's name stands in the beginning of a request."""
HELD_TURNS_MIN = 3
"""So many turns took too long between one look and the next, in two looks on end, before that is said."""
_UNKNOWN = "?"


class SlowTurns:
    """``agent`` gives the name of the agent on a connection; empty if it is gone."""

    def __init__(self, log: Log, agent: Callable[[int], str], clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._agent = agent
        self._clock = clock
        self._bounds = LineBounds(LINES_PER_MINUTE_MAX, LINES_PER_MINUTE_MAX * 5)
        self._slowest_left_out_s = 0.0
        self._causes: Counter[str] = Counter()
        self._longest_s = 0.0
        self._looks = 0

    def tell(self, hold: Hold) -> None:
        """Log it, unless many were just now."""
        if hold.cpu_s_max > SLOW_TURN_S and hold.kind != UNMEASURED:
            self._longest_s = max(self._longest_s, hold.cpu_s_max)
            self._causes[self._cause(hold)] += 1
        left_out = self._bounds.left_out(hold.kind, "", self._clock())
        if left_out is None:
            self._slowest_left_out_s = max(self._slowest_left_out_s, hold.held_s)
            return
        more: dict[str, object] = {}
        if left_out:
            more = {"left_out": left_out, "left_out_ms_max": _ms(self._slowest_left_out_s)}
            self._slowest_left_out_s = 0.0
        self._log("slow_turn", level="warning", kind=hold.kind, ms=_ms(hold.held_s), **self._described(hold), **more)

    def look(self) -> str:
        """The work that has held the loop again and again since the last look but one; empty: none."""
        count, longest_s = self._causes.total(), self._longest_s
        causes = ", ".join(cause for cause, _ in self._causes.most_common(AGENTS_NAMED_MAX))
        self._causes.clear()
        self._longest_s = 0.0
        self._looks = self._looks + 1 if count >= HELD_TURNS_MIN else 0
        if self._looks < 2:
            return ""
        return f"turns took up to {_ms(longest_s):g} ms of processor time, {count} of them lately: {causes}"

    def _cause(self, hold: Hold) -> str:
        """The cause of a long turn, in words: what took most bytes of it, or else what ran in the background."""
        requests, agents, messages, _ = self._of_events(hold.events)
        for what, sizes in (("", requests), ("messages ", messages)):
            if sizes:
                name = next(iter(_most(sizes)))
                return f"{what}{name}" + (f" of agent {agents[0]}" if agents and not what else "")
        work = max(hold.work, key=lambda name: hold.work[name], default="")
        return f"work of its own ({work})" if work else "timers"

    def _described(self, hold: Hold) -> dict[str, object]:
        fields: dict[str, object] = {"cpu_ms_max": _ms(hold.cpu_s_max)}
        fields |= {f"{stage}_ms": _ms(took_s) for stage, took_s in hold.stages.items()}
        requests, agents, messages, others = self._of_events(hold.events)
        ready = hold.ready
        found = {
            "work_ms": {name: _ms(took_s) for name, took_s in hold.work.items()},
            "requests": _most(requests),
            "agents": agents,
            "messages": _most(messages),
            "other_events": others,
            "wrote_rows": {} if ready is None else _rows(ready.persist),
            "sent": {} if ready is None else _most(_sent(ready)),
        }
        return {**fields, **{name: value for name, value in found.items() if value}}

    def _of_events(self, events: Iterable[Event]) -> tuple[_Sizes, list[str], _Sizes, dict[str, int]]:
        """Requests by operation, the agents who asked, messages of peers by type, and other events by class."""
        requests: _Sizes = {}
        messages: _Sizes = {}
        others: dict[str, int] = {}
        asked: dict[int, int] = {}
        for event in events:
            if isinstance(event, AgentFrame):
                _add(requests, operation_of(event.payload), len(event.payload))
                asked[event.conn] = asked.get(event.conn, 0) + len(event.payload)
            elif isinstance(event, PeerFrame):
                _add(messages, message_name(event.data), len(event.data))
            else:
                name = type(event).__name__
                others[name] = others.get(name, 0) + 1
        ranked = sorted(asked, key=lambda conn: -asked[conn])
        names = dict.fromkeys(self._agent(conn) or f"connection {conn}" for conn in ranked)
        return requests, [*names][:AGENTS_NAMED_MAX], messages, others


_Sizes = dict[str, list[int]]
"""How many there were by name, and how many bytes."""


def operation_of(payload: bytes) -> str:
    """The operation that a request asks for, found without reading all of it."""
    unpacker = msgpack.Unpacker()
    unpacker.feed(payload[:HEAD_BYTES])
    try:
        if unpacker.read_array_header() == 3:
            unpacker.skip()
            name = unpacker.unpack()
            return name[:32] if isinstance(name, str) else _UNKNOWN
    except (ValueError, msgpack.UnpackException):
        pass
    return _UNKNOWN


def _add(sizes: _Sizes, name: str, size_bytes: int) -> None:
    entry = sizes.setdefault(name, [0, 0])
    entry[0] += 1
    entry[1] += size_bytes


def _most(sizes: _Sizes) -> dict[str, dict[str, int]]:
    ranked = sorted(sizes.items(), key=lambda item: (-item[1][1], item[0]))[:NAMES_MAX]
    return {name: {"count": count, "bytes": size_bytes} for name, (count, size_bytes) in ranked}


def _rows(batch: WriteBatch) -> dict[str, int]:
    """How many rows of each table the commit has written, trimmed or dropped."""
    counts = {name: len(getattr(batch, name)) for name in WriteBatch.__slots__ if name != "own_changes"}
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:NAMES_MAX]
    return {name: count for name, count in ranked if count}


def _sent(ready: Ready) -> _Sizes:
    sizes: _Sizes = {}
    for _, data in ready.sends:
        _add(sizes, message_name(data), len(data))
    for reply in ready.replies:
        _add(sizes, "events" if reply.request is None else "replies", len(reply.data))
    return sizes


def _ms(duration_s: float) -> float:
    return round(duration_s * 1000, 1)
