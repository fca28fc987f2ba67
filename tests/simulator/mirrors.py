"""Mirrors: copies of a host's keys that are fed by a state watch, broken off and gone on with anywhere, also at another
host.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from crdtsync.causality import covers
from crdtsync.client.mirror.state import MirrorState
from crdtsync.client.session.read_memory import ReadMemory
from crdtsync.client.values.encoding import plain
from crdtsync.core.interface import AgentClosed, AgentFlow, AgentFrame, AgentOpened
from crdtsync.core.kinds.values import describe_key
from crdtsync.core.reads.operations import READS, Reader
from crdtsync.core.watch.prefix_index import is_told
from crdtsync.errors import Unresolved
from crdtsync.wire.codec import pack
from crdtsync.wire.tokens import decode_token
from tests.simulator.model import require

if TYPE_CHECKING:
    from tests.simulator.agents import Request
    from tests.simulator.hosts import Host
    from tests.simulator.world import World

_HEAD_BYTES = 4
LIMIT = 1 << 40


def looked_up(read: Callable[[], Any]) -> Any:
    """A value, or that somebody has to choose it."""
    try:
        return read()
    except Unresolved:
        return Unresolved


class MirrorWatcher:
    """Mirrors everything, at one host after the other. Each state that it shows must be the one that its host had at
    that moment, and include what it showed before.
    """

    def __init__(self, world: World, home: Host) -> None:
        self.world = world
        self.home = home
        self.conn: int | None = None
        self.pending: dict[int, Request] = {}
        self.state = MirrorState("default", ReadMemory(), "", {}, LIMIT, LIMIT)
        self.vector: dict[Any, int] = {}
        self.breaks = 0
        world.watchers.append(self)
        self.attach()

    def attach(self) -> None:
        """Connect, and go on after what is shown."""
        self.conn = self.world.new_conn()
        self.home.agents[self.conn] = self
        hello = {"protocol": 1, "client": self.world.random.randbytes(16), "agent": "mirror"}
        self.world.step(self.home, AgentOpened(self.conn, 1000, 1))
        self.world.step(self.home, AgentFrame(self.conn, pack([1, "hello", hello])))
        self.world.step(self.home, AgentFrame(self.conn, self.state.request()[_HEAD_BYTES:]))

    def lost(self) -> None:
        self.conn = None

    def start_over(self) -> None:
        """Forget all that it was told, and begin anew."""
        self.state = MirrorState("default", ReadMemory(), "", {}, LIMIT, LIMIT)
        self.vector = {}
        self.reconnect()

    def flow(self, blocked: bool) -> None:
        if self.conn is not None and self.home.node is not None:
            self.world.step(self.home, AgentFlow(self.conn, blocked))
            if self.state.may_confirm:
                self._ask()

    def reconnect(self) -> None:
        """The connection breaks; every second time it goes on at the next host, which may lack what is shown."""
        if self.conn is None or self.home.node is None:
            return
        self._leave()
        self.breaks += 1
        if self.breaks % 2:
            homes = self.world.staying()
            self.home = homes[(homes.index(self.home) + 1) % len(homes)]
        if self.home.node is not None:
            self.attach()

    def _leave(self) -> None:
        assert self.conn is not None
        self.home.agents.pop(self.conn, None)
        self.world.step(self.home, AgentClosed(self.conn))
        self.conn = None

    def received(self, message: list[Any]) -> None:
        number, status, content = message
        if status == 1:
            require(content["code"] == "timeout", "a mirror failed:", content)
            self.world.counts["mirror waited"] += 1
            self._leave()
            self.attach()
            return
        for event in content if status == 2 else ():
            self.world.counts[f"mirror told {event['event']}"] += 1
        before = self.state.token
        self.state.take((number, status, content))
        if self.state.token != before:
            self._check_shown(is_news=status == 2)
        if self.state.wants_confirmation:
            self.world.counts["mirror asked again"] += 1
            self._ask()

    def _ask(self) -> None:
        assert self.conn is not None
        self.world.step(self.home, AgentFrame(self.conn, self.state.confirmation()[_HEAD_BYTES:]))

    def _check_shown(self, is_news: bool) -> None:
        """What is shown never goes back, and is what the host held at that moment, whole. (Later points that made no
        difference to it may be told by one host and not by the next.)
        """
        vector = decode_token(self.state.token)["default"][1]
        require(covers(vector, self.vector), f"a mirror at {self.home.name} shows", vector, "after", self.vector)
        if is_news:
            self.vector = vector
        is_now = vector == self.home.replica.vector
        self.world.counts["mirror compared" if is_now else "mirror of before"] += 1
        if is_now:
            self._compare()

    def check(self) -> None:
        """In the end it shows what there is. (Its token may be older, by changes that made no difference.)"""
        self._compare()

    def _compare(self) -> None:
        entries, node = self.home.replica.entries, self.home.running
        pending = {key for key in entries._expiring if self._is_pending(key)}  # hidden in a later turn
        shown = self.state.snapshot()
        held, told = {*filter(lambda key: is_told(key, ""), entries.keys())} - pending, {*shown} - pending
        require(told == held, f"a mirror at {self.home.name} shows the keys", told, "and there are", held)
        for key in held:
            wanted = describe_key(self.home.replica, key, entries.live(key, node.now_ms), self.home.replica.node_of)
            assert wanted is not None
            found = shown.entry(key)
            assert found is not None
            for what, here, there in (
                ("value", found.value, plain(wanted["value"])),
                ("value by look-up", looked_up(partial(shown.__getitem__, key)), self._get(key)),
                ("kind", found.kind, wanted["kind"]),
                ("dot", found.dot, wanted["dot"]),
                ("siblings", [one.dot for one in found.siblings], [one["dot"] for one in wanted["siblings"]]),
            ):
                is_right = repr(here) == repr(there)
                require(is_right, f"a mirror at {self.home.name} shows the {what} of {key} as", here, "not", there)

    def _get(self, key: str) -> Any:
        reader = Reader(self.home.replica, self.home.running.storage, self.home.running.now_ms, str)
        read: Callable[..., Any] = READS["get"]
        return looked_up(lambda: plain(read(reader, {"key": key})["value"]))

    def _is_pending(self, key: str) -> bool:
        """Whether one of its values has expired and is not hidden yet, or is shown again.

        A daemon that started after its clock was set back does not know that it ever hid something.
        """
        latest_ms = self.home.latest_ms
        held = self.home.replica.entries.held(key)
        return any(entry.is_expired(latest_ms) != entry.hidden for entry in held)
