"""Requests that wait: until this node holds what a token names, or until so many nodes do.

Each is filed under the one change that this node lacks next of what it waits for; then, if it waits for other nodes
too, it is looked at when peers have spoken. So a turn costs what has come, not what waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from crdtsync.causality import VersionVector, Writer
from crdtsync.core.crdt.timer_heap import Timeline
from crdtsync.errors import CrdtSyncError, QuotaExceeded

Topic = tuple[str, Writer]
"""A writer in a space."""


LATER = object()
"""The result of a handler of a request if the reply comes by itself, later."""


class WaitResult:
    """A waiting request's result, which may itself be None."""

    def __init__(self, result: object) -> None:
        self.result = result


@dataclass(slots=True, eq=False)
class Wait:
    """``needed``: what this node must hold, by space; then ``check`` returns the result once it is there; None: not
    yet. ``expire`` makes the error when time runs out, or files another wait.

    ``stands``: what it belongs to is on disk, so that a later commit that fails does not concern it. ``number``: those
    that are done at once are answered in the order in which they were asked.
    """

    conn: int
    request: int
    deadline_s: float
    needed: Mapping[str, VersionVector]
    check: Callable[[], object | None]
    expire: Callable[[], object]
    stands: bool = False
    topic: Topic | None = None
    number: int = 0


class Waits:
    """All waiting requests, bounded per agent connection. ``applied``: how much of a writer this node holds."""

    PER_AGENT_MAX = 1024
    """Waiting requests of an agent's connection."""

    def __init__(self, applied: Callable[[str, Writer], int]) -> None:
        self._applied = applied
        self._number_last = 0
        self._by_conn: dict[int, dict[Wait, None]] = {}
        self._deadlines: Timeline[Wait] = Timeline()
        self._by_topic: dict[Topic, Timeline[Wait]] = {}
        self._unmet: dict[Wait, None] = {}
        self._ready: dict[Wait, None] = {}

    def __len__(self) -> int:
        return len(self._deadlines)

    def add(self, wait: Wait) -> bool:
        """False: this agent has too many requests waiting already."""
        if self.is_full(wait.conn):
            return False
        self._number_last += 1
        wait.number = self._number_last
        self._by_conn.setdefault(wait.conn, {})[wait] = None
        self._deadlines.add(wait, wait.deadline_s)
        self._file(wait)
        return True

    def count(self, conn: int) -> int:
        """How many requests of this agent wait."""
        return len(self._by_conn.get(conn, ()))

    def is_full(self, conn: int) -> bool:
        """Whether this agent has as many requests waiting as it may have."""
        return self.count(conn) >= self.PER_AGENT_MAX

    def drop(self, conn: int) -> None:
        """Forget what a closed connection was waiting for."""
        for wait in list(self._by_conn.get(conn, ())):
            self._remove(wait)

    def take_unsettled(self) -> list[Wait]:
        """The waiting requests that a failed commit undoes; the others go on waiting."""
        every = list(self._deadlines)
        undone = [wait for wait in every if not wait.stands]
        for wait in undone:
            self._remove(wait)
        for wait in self._deadlines:  # this node may hold less than it did
            self._unfile(wait)
            self._file(wait)
        return undone

    def take_of(self, space: str) -> list[Wait]:
        """The waiting requests that need something of a space which is no longer here."""
        undone = [wait for wait in self._deadlines if space in wait.needed]
        for wait in undone:
            self._remove(wait)
        return undone

    def recheck(self) -> None:
        """Other nodes may hold more than before, or a text is ready for edits."""
        self._ready.update(self._unmet)
        self._unmet.clear()

    def settle(self, now_s: float) -> Iterator[tuple[Wait, object]]:
        """Those that are done, with their result, and those whose time ran out, with their error.

        A caller that has had enough for one turn stops: the rest is there in the next.
        """
        for topic in list(self._by_topic):
            self._advance(topic)
        for wait in sorted(
            self._ready, key=_number
        ):  # a request that goes on may find something else to wait for: that is for later
            result = _result(wait)
            if result is None:
                del self._ready[wait]
                self._unmet[wait] = None
            else:
                self._remove(wait)
                yield wait, result
        while (late := self._deadlines.take(now_s)) is not None:
            self._remove(late)
            yield late, late.expire()

    @property
    def is_settling(self) -> bool:
        """Whether :meth:`settle` has something to do at once."""
        return bool(self._ready)

    def deadline_s(self) -> float | None:
        """When :meth:`settle` has something to do by itself."""
        return 0.0 if self._ready else self._deadlines.next_due()

    def _advance(self, topic: Topic) -> None:
        """File anew what waited for changes that have come."""
        line = self._by_topic[topic]
        reached = self._applied(*topic)
        while (wait := line.take(reached)) is not None:
            self._file(wait)
        if not line:
            del self._by_topic[topic]

    def _file(self, wait: Wait) -> None:
        for space, vector in wait.needed.items():
            for writer, seq in vector.items():
                if self._applied(space, writer) < seq:
                    wait.topic = (space, writer)
                    self._by_topic.setdefault(wait.topic, Timeline()).add(wait, seq)
                    return
        wait.topic = None
        self._ready[wait] = None

    def _unfile(self, wait: Wait) -> None:
        self._ready.pop(wait, None)
        self._unmet.pop(wait, None)
        line = None if wait.topic is None else self._by_topic.get(wait.topic)
        if wait.topic is not None and line is not None and line.discard(wait) and not line:
            del self._by_topic[wait.topic]

    def _remove(self, wait: Wait) -> None:
        self._deadlines.discard(wait)
        self._unfile(wait)
        of_conn = self._by_conn.get(wait.conn, {})
        of_conn.pop(wait, None)
        if not of_conn:
            self._by_conn.pop(wait.conn, None)


def _number(wait: Wait) -> int:
    return wait.number


def _result(wait: Wait) -> object | None:
    try:
        return wait.check()
    except CrdtSyncError as error:
        return error


def too_many_waits() -> QuotaExceeded:
    """The refusal of one request more than a connection may have waiting."""
    return QuotaExceeded(
        f"this connection has {Waits.PER_AGENT_MAX:,} requests waiting already: let some of them end first"
    )
