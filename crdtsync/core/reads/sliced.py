"""Reads that look at more than one turn has time for: a slice a turn, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from crdtsync.core.access.rules import Grant
from crdtsync.core.replica.replica import Replica
from crdtsync.errors import CrdtSyncError
from crdtsync.named_tuple import NamedTuple


class LongRead(Protocol):
    """One such read."""

    replica: Replica
    rights: Grant | None
    """The bounds of what it may show."""

    def begin(self, replica: Replica) -> None:
        """Begin again, with a replica that was read anew."""

    def advance(self) -> bool:
        """Do a slice more; True: that was all."""

    def answer(self, now_ms: int) -> object:
        """The reply."""


class _Running(NamedTuple):
    conn: int
    request: int
    read: LongRead


class LongReads:
    """All of a node that are under way, bounded per agent connection; ``answer`` is given what is done, or
    why it cannot be.
    """

    PER_AGENT_MAX = 8
    """Requests of an agent's connection that take several turns."""

    def __init__(self, answer: Callable[[int, int, object], None]) -> None:
        self._answer = answer
        self._running: list[_Running] = []

    def __len__(self) -> int:
        return len(self._running)

    def add(self, conn: int, request: int, read: LongRead) -> bool:
        """False: this agent has as many under way as it may have."""
        if sum(running.conn == conn for running in self._running) >= self.PER_AGENT_MAX:
            return False
        self._running.append(_Running(conn, request, read))
        return True

    def drop(self, conn: int) -> None:
        """Forget what a closed connection had asked for."""
        self._running = [running for running in self._running if running.conn != conn]

    def of_conn(self, conn: int) -> list[tuple[int, LongRead]]:
        """Those of a connection, with their requests."""
        return [(one.request, one.read) for one in self._running if one.conn == conn]

    def end(self, conn: int, request: int) -> None:
        """End one of them."""
        self._running = [one for one in self._running if (one.conn, one.request) != (conn, request)]

    def reload(self, replicas: Mapping[str, Replica]) -> list[tuple[int, int]]:
        """The replicas have been read anew: begin again. Returns connections and requests whose space is gone."""
        running, self._running = self._running, []
        for one in running:
            replica = replicas.get(one.read.replica.name)
            if replica is not None:
                one.read.begin(replica)
                self._running.append(one)
        return [(one.conn, one.request) for one in running if one not in self._running]

    def run(self, now_ms: int) -> None:
        """A slice of the one whose turn it is."""
        if not self._running:
            return
        running = self._running.pop(0)
        conn, request, read = running
        try:
            if read.advance():
                self._answer(conn, request, read.answer(now_ms))
            else:
                self._running.append(running)
        except CrdtSyncError as error:
            self._answer(conn, request, error)
        except Exception:
            self._answer(conn, request, None)  # the node makes a refusal of what a failed turn has answered
            raise
