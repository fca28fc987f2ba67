"""A connection between two hosts, which delivers when it is told to."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from crdtsync.core.interface import PeerClosed, PeerFrame, PeerOpened

if TYPE_CHECKING:
    from tests.fleet.fleet import Fleet
    from tests.fleet.host import Host


class Wire:
    """A connection between two machines; frames wait until they are delivered."""

    def __init__(self, fleet: Fleet, first: Host, second: Host) -> None:
        self.fleet = fleet
        self.ends = (first, second)
        self.conns = (fleet.new_conn(), fleet.new_conn())
        self.waiting: tuple[deque[bytes], deque[bytes]] = (deque(), deque())
        self.reason: str | None = None
        fleet.wires.append(self)
        for at in (0, 1):
            self.ends[at].wires[self.conns[at]] = self
            self.ends[at].step(PeerOpened(self.conns[at], f"ws://{self.ends[1 - at].name}", at == 0))

    def put(self, sender: Host, data: bytes) -> None:
        if self.reason is None:
            other = 1 - self.ends.index(sender)
            for hear in self.fleet.hearing:
                hear(sender, self.ends[other], data)
            self.waiting[other].append(data)

    def deliver(self, to: Host, count: int = 1_000_000) -> int:
        at = self.ends.index(to)
        done = 0
        while self.waiting[at] and done < count:
            to.step(PeerFrame(self.conns[at], self.waiting[at].popleft()))
            done += 1
        return done

    def close(self, reason: str = "cut") -> None:
        if self.reason is not None:
            return
        self.reason = reason
        if self in self.fleet.wires:
            self.fleet.wires.remove(self)
        for at in (0, 1):
            self.waiting[at].clear()
            if self.ends[at].wires.pop(self.conns[at], None) is not None:
                self.ends[at].step(PeerClosed(self.conns[at], reason))
