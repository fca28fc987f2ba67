"""The short way of plain writes does what the long one does: to the byte, on disk, to agents and to peers."""

from __future__ import annotations

import shutil
from random import Random
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.causality import Dot, Hlc, Writer
from crdtsync.core.agents import fast_paths
from crdtsync.core.interface import AgentFlow, AgentFrame, AgentOpened, PeerFrame, PeerOpened
from crdtsync.core.replica.replica import Replica
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.core.watch.events import live_event
from crdtsync.wire.change import NO_HASH, Change, Dep, Op, value_hash
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.framing import FrameReader
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX, VALUE_BYTES_MAX, VALUE_CONTAINERS_MAX
from crdtsync.wire.peer.changes import Changes
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.tokens import encode_token
from tests.examples import examples
from tests.fleet.clock import START_MS
from tests.fleet.fleet import CODEC, Fleet, fleet_of
from tests.fleet.host import Host

AGENTS = ("ann", "ben")
PEER_CONN = 9
KEYS = ("a", "b", "plain/key", "ü", "_schema/a", "", "x" * 1024, "x" * 1025, "new\nline")
VALUES = (
    *map(pack, ("text", 7, True, None, b"bytes", 1.5, [1, {"a": 2}], {"m": {}})),
    b"", b"\x01\x02", b"\xc1", pack(float("nan")), pack({1: 2}), pack("x" * 20_000), bytes(VALUE_BYTES_MAX + 1),
)  # fmt: skip

keys = st.sampled_from(KEYS[:3]) | st.sampled_from(KEYS)
values = st.sampled_from(VALUES[:5]) | st.sampled_from(VALUES)
seen = st.sampled_from(["none", "none", "told", "told", "stale", "other", "?", "v1.broken"])
options = st.sampled_from(
    [{}, {}, {}, {}, {"ttl": 300}, {"confidence": 0.5}, {"meta": pack("m")}, {"if_absent": True}, {"strict": True},
     {"agent": "carl"}, {"agent": ""}, {"space": "default"}, {"space": "nowhere"}, {"space": "_cluster"},
     {"again": True}, {"w": 1}, {"timeout": 5}]
)  # fmt: skip
of_part = st.sampled_from(
    [{}, {}, {"if_absent": True}, {"if_absent": False}, {"meta": pack("m")}, {"seen": "?"}, {"agent": "carl"}]
)
MADE = ("", "blind", "attrs", "set", "two", "delete", "early", "gap", "fork", "ahead", "repeated", "torn", "newer",
        "space", "epoch")  # fmt: skip
"""How a change of a peer, or its message, is not as most are."""
made = st.just("") | st.sampled_from(MADE)
steps = st.one_of(
    st.tuples(st.just("set"), st.sampled_from(AGENTS), keys, values, seen, options),
    st.tuples(st.just("set"), st.sampled_from(AGENTS), st.just("a"), values, seen, st.just({})),
    st.tuples(st.just("set"), st.sampled_from(AGENTS), st.just("a"), st.just(VALUES[0]), seen, st.just({})),
    st.tuples(st.sampled_from(["get", "entry", "history", "delete"]), st.sampled_from(AGENTS), keys),
    st.tuples(st.just("incr"), st.sampled_from(AGENTS), keys),
    st.tuples(st.just("batch"), st.sampled_from(AGENTS), keys),
    *[
        st.tuples(st.just("batch_of"), st.sampled_from(AGENTS), st.lists(part, min_size=1, max_size=4), of_batch)
        for part, of_batch in (
            (st.tuples(st.just("new"), st.sampled_from(VALUES[:8]), st.just({})), st.just({})),
            (st.tuples(keys | st.just("new"), values, of_part), options),
        )
    ],
    st.tuples(
        st.just("peer"),
        keys,
        st.sampled_from(["held", "held", "nothing", "first", "gone"]),
        made,
        st.sampled_from([1, 1, 1, 3]),
    ),
    st.tuples(st.just("peer"), st.just("a"), st.just("held"), st.just(""), st.just(1)),
    st.tuples(st.just("schema"), st.sampled_from(AGENTS), st.sampled_from(["max", "all", ""])),
    st.tuples(st.just("watch"), st.sampled_from(AGENTS), st.sampled_from(["", "a", "pl"]), st.booleans()),
    st.tuples(st.just("wait"), st.sampled_from(AGENTS)),
    st.tuples(st.just("flow"), st.sampled_from(AGENTS), st.booleans()),
    st.tuples(st.just("turn")),
    st.tuples(st.just("turn")),
    st.tuples(st.just("time"), st.sampled_from([0, 1, 250, 400])),
)


class Twin:
    """A machine on a copy of another one's files, or that one itself."""

    def __init__(self, fleet: Fleet, directory: str, *, is_short: bool) -> None:
        self.machine = Host(fleet, "a", fleet.directory / directory)
        node = self.machine.node
        node.dispatcher.is_short = node.dispatcher.watches.changes.is_short = is_short
        for replica in node.replicas.values():
            replica._random = Random(5)
        self.told: dict[tuple[int, int], Any] = {}
        self.requests = 1
        for conn, name in enumerate(AGENTS, 1):
            self.machine.step(AgentOpened(conn, 1000, 4242))
            hello = {"protocol": 1, "client": name.encode().ljust(16, b"."), "agent": name, "points": True}
            self.machine.step(AgentFrame(conn, pack([1, "hello", hello])))
        self.machine.step(PeerOpened(PEER_CONN, "ws://stranger", dialled=False))
        hello_of_peer = Hello("stranger", "stranger", node.identity.cluster, b"d" * 16, {"default": (0, {})}, START_MS)
        self.machine.step(PeerFrame(PEER_CONN, hello_of_peer.encode()))

    def turn(self) -> dict[str, Any]:
        """All that came of one turn."""
        node = self.machine.node
        replica, link = node.replicas["default"], node.sync.links[PEER_CONN]
        here = link.spaces["default"]
        ready = node.ready()
        self.machine.store.commit(ready.persist)
        node.advance()
        for reply in ready.replies:
            for request, status, content in map(unpack, FrameReader(AGENT_FRAME_BYTES_MAX).feed(reply.data)):
                if status == 0:
                    self.told[reply.conn, request] = content
        return {
            **{name: getattr(ready.persist, name) for name in WriteBatch.__slots__},
            "replies": ready.replies,
            "sends": ready.sends,
            "closes": (ready.agent_closes, ready.peer_closes),
            "digest": node.replicas["default"].entries.digest,
            "clock": node.replicas["default"].clock.last,
            "counts": node.counts.described(),
            "arrivals": {writer: list(runs) for writer, runs in replica.arrivals._runs.items()},
            "peer": (node.sync.peers["stranger"].last_seen_ms, node.sync.intake.count, link.received_bytes),
            "known": (here.known, here.ack_writers, link.busy, link.unsettled, link.ack_due_s, link.wants),
            "heads": (replica.vector, replica.hashes, replica.since_own, replica.writer, len(replica.gate)),
            "relayed": dict(node.sync.mesh.relaying._from),
            "requests": node.dispatcher.requests,
            "due": node.deadline_s(),
            "held": [
                [(e.row, e.dot, e.hlc, e.agent, e.value, e.attrs) for e in node.replicas["default"].entries.held(key)]
                for key in KEYS
            ],
        }

    def ask(self, agent: str, operation: str, args: dict[str, Any]) -> int:
        """Send a request; its number."""
        self.requests += 1
        conn = AGENTS.index(agent) + 1
        self.machine.step(AgentFrame(conn, pack([self.requests, operation, args])))
        return self.requests


class Story:
    """What happens to both twins."""

    def __init__(self, fleet: Fleet) -> None:
        original = Host(fleet, "a", fleet.directory / "long")
        original.store.close()
        shutil.copytree(fleet.directory / "long", fleet.directory / "short")
        self.fleet = fleet
        self.long = Twin(fleet, "long", is_short=False)
        self.short = Twin(fleet, "short", is_short=True)
        self.asked: dict[tuple[str, str], list[int]] = {}  # by agent and key, the requests that are told a version
        self.number = 0
        self.changes: list[Change] = []
        self.turn()

    def turn(self) -> None:
        long, short = self.long.turn(), self.short.turn()
        for name, told in long.items():
            assert short[name] == told, name

    def ask(self, agent: str, operation: str, key: str, /, **args: Any) -> None:
        numbers = {twin.ask(agent, operation, args) for twin in (self.long, self.short)}
        self.asked.setdefault((agent, key), []).append(*numbers)

    def write(self, agent: str, operation: str, key: str, /, **args: Any) -> None:
        self.number += 1
        self.ask(agent, operation, key, **{"n": self.number} | args)

    def version(self, agent: str, key: str, which: str) -> str | None:
        """What an agent says that it had seen of a key."""
        if which == "none":
            return None
        owner = AGENTS[1 - AGENTS.index(agent)] if which == "other" else agent
        conn = AGENTS.index(owner) + 1
        told = [self.long.told.get((conn, number)) for number in self.asked.get((owner, key), ())]
        versions = [found["version"] for found in told if isinstance(found, dict) and found.get("version")]
        if which in ("?", "v1.broken") or not versions:
            return which if which in ("?", "v1.broken") else None
        return str(versions[0] if which == "stale" else versions[-1])

    def set(self, agent: str, key: str, value: bytes, seen: str, option: dict[str, Any]) -> None:
        version = self.version(agent, key, seen)
        known = {} if version is None else {"seen": version}
        if "again" in option and self.number:
            option = {"again": True, "n": self.number}
        self.write(agent, "set", key, key=key, value=value, **known, **option)

    def get(self, agent: str, key: str) -> None:
        self.ask(agent, "get", key, key=key)

    def entry(self, agent: str, key: str) -> None:
        self.ask(agent, "entry", key, key=key)

    def history(self, agent: str, key: str) -> None:
        self.ask(agent, "history", key, key=key)

    def delete(self, agent: str, key: str) -> None:
        self.write(agent, "delete", key, key=key)

    def incr(self, agent: str, key: str) -> None:
        self.write(agent, "incr", key, key=key, by=1)

    def batch(self, agent: str, key: str) -> None:
        ops = [["set", {"key": key, "value": VALUES[0]}], ["set", {"key": "b", "value": VALUES[1]}]]
        self.write(agent, "batch", key, ops=ops)

    def batch_of(self, agent: str, parts: list[tuple[str, bytes, dict[str, Any]]], option: dict[str, Any]) -> None:
        """A batch of these keys; of those named "new" nobody has written any."""
        if "again" in option and self.number:
            option = {"again": True, "n": self.number}
        ops = [
            ["set", {"key": f"new/{self.number}/{n}" if key == "new" else key, "value": value, **more}]
            for n, (key, value, more) in enumerate(parts)
        ]
        self.write(agent, "batch", "new", ops=ops, **option)

    def watch(self, agent: str, prefix: str, states: bool) -> None:
        self.ask(agent, "watch", "", prefix=prefix, states=states)

    def wait(self, agent: str) -> None:
        """For what the other node will write next."""
        token = encode_token([("default", 0, {Writer(77): len(self.changes) + 1})])
        self.ask(agent, "wait", "", token=token, timeout=300)

    def flow(self, agent: str, blocked: bool) -> None:
        for twin in (self.long, self.short):
            twin.machine.step(AgentFlow(AGENTS.index(agent) + 1, blocked))

    def schema(self, agent: str, policy: str) -> None:
        if policy:
            self.write(agent, "schema_set", "", pattern="a", policy=policy)
        else:
            self.write(agent, "delete", "", key="b")

    def peer(self, key: str, replaces: str, made: str, together: int) -> None:
        """Another node writes: a sibling, or what takes the place of what is held; several times in one message.

        ``made``: how its last change is not as most are.
        """
        if not key or len(key) > 1024 or "\n" in key:
            return
        how = [""] * (together - 1) + [made]
        sent = [self._change_of_peer(key, replaces, each).body for each in how]
        data = Changes("nowhere" if made == "space" else "default", int(made == "epoch"), sent).encode()
        data = data[:-1] if made == "torn" else pack([*unpack(data), "newer"]) if made == "newer" else data
        for twin in (self.long, self.short):
            twin.machine.step(PeerFrame(PEER_CONN, data))
            if made == "repeated":
                twin.machine.step(PeerFrame(PEER_CONN, data))

    def _change_of_peer(self, key: str, replaces: str, made: str) -> Change:
        last = self.changes[-1] if self.changes else None
        replica = self.long.machine.replica
        held = replica.entries.held(key)
        dots = [entry.dot for entry in held if entry.kind == Kind.REGISTER]
        removes = {"nothing": [], "held": dots, "first": dots[:1], "gone": [*dots, Dot(Writer(77), 1, 5)]}[replaces]
        value = VALUES[len(self.changes) % 4]
        kind = Kind.SET if made == "set" else Kind.REGISTER
        attrs = {"x": 1} if made == "attrs" else None
        op = Op(key, "=x" if made == "set" else None, kind, value, value_hash(value), tuple(removes), attrs,
                made == "blind")  # fmt: skip
        if made == "delete":
            op = Op(key, None, Kind.REGISTER, None, None, tuple(dots), None)
        ops = (op, op._replace(key="b", removes=())) if made == "two" else (op,)
        others = [writer for writer in sorted(replica.tips()) if writer != 77]
        deps = tuple([Dep(writer, replica.vector[writer], replica.hashes[writer][:8]) for writer in others])
        if made == "early":
            deps = (Dep(Writer(78), 1, bytes(8)),)
        hlc = (self.fleet.now.wall_ms << 16) + 7 + len(self.changes) + ((48 * 3600_000 << 16) if made == "ahead" else 0)
        seq = len(self.changes) + 1
        prev_hash = last.hash if last else NO_HASH
        if made == "fork":
            prev_hash = bytes(15) + b"x"
        origin, idempotency = None if last else ("stranger", "stranger"), b"i" * (seq % 3) or None
        seq += made == "gap"
        change = Change(Writer(77), seq, deps, prev_hash, Hlc(hlc), "far", idempotency, ops, origin)
        CODEC.encode(change)
        if made not in ("early", "gap", "fork", "torn", "space", "epoch"):
            self.changes.append(change)
        return change

    def time(self, passed_ms: int) -> None:
        self.fleet.pass_time(passed_ms / 1000)


mostly_of_peers = st.one_of(
    st.tuples(st.just("peer"), st.sampled_from(KEYS[:2]), st.sampled_from(["held", "held", "nothing"]), made,
              st.sampled_from([1, 1, 3])),
    st.tuples(st.just("set"), st.just("ann"), st.sampled_from(KEYS[:2]), st.just(VALUES[0]), st.just("none"),
              st.just({})),
    st.tuples(st.just("turn")),
)  # fmt: skip


@examples(60)
@given(story=st.lists(steps, min_size=1, max_size=30))
def test_the_short_way_leads_where_the_long_one_does(story: list[tuple[Any, ...]]) -> None:
    tell(story)


@examples(40)
@given(story=st.lists(mostly_of_peers, min_size=4, max_size=16))
def test_the_short_way_of_what_peers_write_leads_where_the_long_one_does(story: list[tuple[Any, ...]]) -> None:
    tell([("peer", "a", "nothing", "", 1), ("watch", "ann", "", False), *story])


@pytest.mark.parametrize("replaces", ["held", "nothing", "gone"])
@pytest.mark.parametrize("made", MADE)
def test_changes_of_peers_that_are_not_plain(made: str, replaces: str) -> None:
    story: list[tuple[Any, ...]] = [("peer", "a", "nothing", "", 1), ("watch", "ann", "", False), ("turn",), ("turn",)]
    odd: tuple[Any, ...] = ("peer", "a", replaces, made, 1)
    own: tuple[Any, ...] = ("set", "ann", "a", VALUES[0], "none", {})
    plain = [("peer", "b", "held", "", 1)] * 2
    tell([*story, odd, ("peer", "a", "held", "", 1), ("turn",), odd, ("turn",), own, ("turn",), odd, *plain])


@pytest.mark.parametrize(
    "value, count, is_short",
    [
        (pack("x" * 4000), 100, True),
        (pack("x" * (VALUE_BYTES_MAX - 5)), 3, True),
        (pack("x" * (VALUE_BYTES_MAX - 5)), 4, False),  # the change is too large
        (pack("x" * VALUE_BYTES_MAX), 1, False),
        (pack([[]] * 60_000), 1, True),
        (pack([[]] * 60_000), 2, False),  # too many parts for one request
        (pack([[]] * VALUE_CONTAINERS_MAX), 1, False),
        (pack("x" * 4000)[:-1], 1, False),
    ],
)
def test_large_batches_of_new_keys_take_the_short_way_as_far_as_they_fit(value: bytes, count: int, is_short: bool):
    """Of 1,000 new keys with values of 4 kB the long way took a third of a turn of 106 ms."""
    ways: list[bool] = []
    new_keys = fast_paths._new_keys

    def counting(*arguments: Any) -> list[Any]:
        ways.append(bool(ops := new_keys(*arguments)))
        return ops

    with mock.patch.object(fast_paths, "_new_keys", counting):
        tell(
            [
                ("set", "ann", "a", VALUES[0], "none", {}),
                ("turn",),
                ("batch_of", "ann", [("new", value, {})] * count, {}),
            ]
        )
    assert ways[-1:] == [is_short]


def tell(story: list[tuple[Any, ...]]) -> None:
    with fleet_of() as fleet:
        told = Story(fleet)
        try:
            for name, *arguments in story:
                getattr(told, name)(*arguments)
            told.turn()
        finally:
            for twin in (told.long, told.short):
                twin.machine.store.close()


def test_plain_writes_do_take_the_short_way() -> None:
    """Else the test above could not fail."""
    with fleet_of() as fleet:
        told = Story(fleet)
        replica = told.short.machine.replica
        try:
            told.set("ann", "a", VALUES[0], "none", {})  # the first change of a writer says more than others
            told.turn()
            long_way = AssertionError("the long way")
            commit = Replica.commit

            def of_the_twin(self: Replica, *arguments: Any) -> Any:
                assert self is not replica, long_way
                return commit(self, *arguments)

            with (
                mock.patch.object(Replica, "commit", of_the_twin),
                mock.patch.object(told.short.machine.node.dispatcher, "settle", side_effect=long_way),
            ):
                for seen in ("none", "told", "none"):
                    told.set("ann", "a", VALUES[0], seen, {})
                    told.turn()
                told.set("ben", "b", VALUES[3], "none", {})
                told.set("ben", "ü", VALUES[3], "none", {"agent": "carl", "space": "default"})
                told.turn()
            assert [*replica.vector.values()] == [6]
            with (
                mock.patch.object(told.short.machine.node.dispatcher, "handle", side_effect=long_way),
                mock.patch.object(told.short.machine.node.dispatcher, "settle", side_effect=long_way),
            ):
                parts = [("new", VALUES[0], {}), ("new", VALUES[3], {"if_absent": True})]
                told.batch_of("ann", parts, {})
                told.batch_of("ben", parts, {"agent": "carl", "space": "default"})
                told.turn()
            assert [*replica.vector.values()] == [8]
        finally:
            for twin in (told.long, told.short):
                twin.machine.store.close()


def test_plain_changes_of_peers_do_take_the_short_way_to_watchers() -> None:
    """Likewise."""
    with fleet_of() as fleet:
        told = Story(fleet)
        try:
            told.peer("a", "nothing", "", 1)
            told.watch("ann", "", states=False)
            told.turn()
            told.turn()
            for key, replaces, made, together in (
                ("a", "held", "", 1), ("a", "held", "blind", 1), ("b", "nothing", "ahead", 1), ("a", "nothing", "", 3)
            ):  # fmt: skip
                told.peer(key, replaces, made, together)
                with mock.patch("crdtsync.core.watch.change_watch.live_event", wraps=live_event) as general:
                    told.turn()
                of_both = 2 * together if together > 1 else together
                assert general.call_count == of_both, "one twin knows no short way"
        finally:
            for twin in (told.long, told.short):
                twin.machine.store.close()
