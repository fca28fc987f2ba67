"""Who sends what to whom: own changes at once, foreign ones where they are lacking, nothing to who has it."""

# Writers are plain numbers here.
# mypy: disable-error-code="arg-type,dict-item,operator,var-annotated"

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.causality import Hlc
from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.core.interface import DiskSpace, PeerClosed
from crdtsync.core.peers import connections
from crdtsync.core.peers.liveness import PROBE_INTERVAL_S
from crdtsync.core.sync import acks, change_feed
from crdtsync.core.sync import protocol as sync
from crdtsync.core.sync.acks import cut_of, digest_of
from crdtsync.wire.change import Change, Codec, Dep, Op, value_hash
from crdtsync.wire.codec import pack
from crdtsync.wire.limits import PROTOCOL_VERSION
from crdtsync.wire.peer.changes import Ack, Changes, SpaceAck, Stop, Want
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.meshing import Links
from crdtsync.wire.peer.messages import decode_message
from crdtsync.wire.peer.probes import PROBES, Probe, Probed
from tests.fleet.clock import START_MS
from tests.fleet.fleet import CODEC, fleet_of
from tests.fleet.stranger import Stranger


def change_of(writer, seq, deps=(), prev_hash=bytes(16), value=b"\x01", key="k", codec=CODEC, hlc=START_MS << 16):
    op = Op(key, None, 0, value, value_hash(value), (), None)
    origin = (f"node-{writer}", "forged") if seq == 1 else None
    return codec.encode(Change(writer, seq, deps, prev_hash, Hlc(hlc), "x", None, (op,), origin))


def chain(writer, count, first=(), **others):
    """So many changes of one writer."""
    made: list[Change] = []
    for seq in range(1, count + 1):
        made.append(change_of(writer, seq, first if seq == 1 else (), made[-1].hash if made else bytes(16), **others))
    return made


@pytest.fixture
def fleet():
    with fleet_of("a") as fleet:
        yield fleet


def bodies(messages):
    return [body for message in messages for body in message.bodies]


# -- the usual -------------------------------------------------------------------------------------------------------


def test_own_changes_go_out_with_the_turn_that_commits_them(pair):
    ann = pair["a"].agent()
    ann.set("k", 1)
    pair.wires[0].deliver(pair["b"])
    pair["b"].turn()
    assert pair["b"].agent().get("k") == 1


def test_what_was_written_before_the_connection_is_caught_up(apart):
    ann = apart["a"].agent()
    for n in range(600):
        ann.write("set", key=f"k{n}", value=pack(n))
    apart["a"].turn()
    apart.link("b", "a")
    apart.sync()
    assert apart["b"].replica.vector == apart["a"].replica.vector
    assert apart["b"].replica.entries.digest == apart["a"].replica.entries.digest


def test_nothing_is_sent_twice_to_a_peer_that_has_it(trio):
    """Each change goes once to each of the others: no echo, no relay beside the origin."""
    sizes = count_frames(trio)
    for name in "abc":
        trio[name].agent().set(f"k/{name}", name)
    trio.run(5)
    assert sizes[0] == 3 * 2


def test_what_is_written_while_two_nodes_introduce_themselves_is_acknowledged_too(apart):
    wire = apart.link("a", "b")
    apart["a"].agent().set("k", 1)  # after a's hello has left, before b's has come
    apart.sync()
    known = apart["b"].node.sync.peers[apart["a"].node.identity.node]
    assert wire.reason is None
    assert known.holds("default", apart["a"].replica.vector)


def count_frames(fleet):
    counted = [0]
    for wire in fleet.wires:
        original = wire.put

        def counting(sender, data, original=original):
            message = decode_message(data)
            counted[0] += len(message.bodies) if isinstance(message, Changes) else 0
            original(sender, data)

        wire.put = counting
    return counted


def test_along_a_chain_changes_are_relayed_at_once(apart):
    apart.link("a", "b")
    apart.link("b", "c")
    apart.sync()
    apart["a"].agent().set("k", 1)
    apart.sync()  # no time passes
    assert apart["c"].agent().get("k") == 1


def test_a_foreign_change_is_left_to_its_origin_and_relayed_after_a_delay(trio):
    """a and c are connected, but nothing comes through any more: b brings it."""
    dead = next(wire for wire in trio.wires if {end.name for end in wire.ends} == {"a", "c"})
    trio.wires.remove(dead)  # never delivered again, and nobody has noticed
    trio["a"].agent().set("k", 1)
    trio.sync()
    assert trio["c"].agent().get("k") is None
    trio.run(3)
    assert trio["c"].agent().get("k") == 1


def test_a_steady_stream_of_other_changes_does_not_keep_the_relay_from_helping():
    """b waits for a to bring c what a wrote; that c goes on acknowledging what d writes is no reason to wait on."""
    with fleet_of("a", "b", "c", "d") as fleet:
        for first, second in ("ab", "ac", "bc", "cd"):
            fleet.link(first, second)
        fleet.sync()
        dead = next(wire for wire in fleet.wires if {end.name for end in wire.ends} == {"a", "c"})
        fleet.wires.remove(dead)
        dan, cat = fleet["d"].agent(), fleet["c"].agent()
        fleet["a"].agent().set("k", 1)
        for n in range(60):
            dan.set("busy", n)
            fleet.run(0.5, 0.25)
        assert cat.get("k") == 1


def test_changes_of_this_nodes_earlier_writer_are_not_left_to_others(apart, monkeypatch):
    """After a restart that took a new writer, the old one's changes are still this node's to send."""
    monkeypatch.setattr(change_feed, "SLICE_BYTES_MAX", 1_000)
    a = apart["a"]
    ann = a.agent()
    for n in range(100):
        ann.set(f"k{n}", bytes(100))
    a.node.replicas["default"].writer = None
    ann.set("k", "by the new writer")
    apart.link("a", "b")
    apart.sync()  # no time passes
    assert apart["b"].replica.vector == a.replica.vector


def test_a_slow_peer_costs_a_cursor_and_not_a_queue(fleet, monkeypatch):
    """Without acknowledgements the sending stops at the credit; with them it goes on from there."""
    monkeypatch.setattr(change_feed, "CREDIT_BYTES_MAX", 10_000)
    monkeypatch.setattr(change_feed, "SLICE_BYTES_MAX", 2_000)
    a = fleet["a"]
    slow = Stranger(a)
    ann = a.agent()
    for n in range(100):
        ann.set(f"k{n}", bytes(500))
    got = bodies(slow.heard(Changes))
    for _ in range(50):
        a.turn()
    got += bodies(slow.heard(Changes))
    assert sum(map(len, got)) < 10_000 + 2_000 + 600
    for _ in range(100):
        slow.say(Ack(sum(map(len, got)), []))
        got += bodies(slow.heard(Changes))
    assert [CODEC.decode(body).seq for body in got] == [*range(1, 101)]


def test_acknowledging_more_than_was_sent(fleet):
    stranger = Stranger(fleet["a"])
    stranger.say(Ack(10**6, []))
    fleet["a"].turn()
    assert "acknowledges" in stranger.reason


def test_what_is_received_is_acknowledged_when_it_is_on_disk(fleet):
    a = fleet["a"]
    stranger = Stranger(a)
    stranger.heard()
    changes = chain(77, 3)
    stranger.say(Changes("default", 0, [change.body for change in changes]))
    assert not stranger.waiting  # nothing before the commit
    a.turn()
    fleet.pass_time(0.1)
    (ack,) = stranger.heard(Ack)
    assert ack.received_bytes == sum(len(change.body) for change in changes)
    (part,) = ack.spaces
    assert part.vector == {77: 3}
    assert part.digest == digest_of(a.replica)


def test_two_nodes_with_equal_vectors_and_other_state_raise_an_alarm(fleet):
    a = fleet["a"]
    stranger = Stranger(a)
    stranger.send(*chain(77, 1))
    stranger.say(Ack(0, [SpaceAck("default", 0, {77: 1}, cut_of(a.replica.vector), b"x" * 16)]))
    assert a.alarms == {"divergence"}


def test_equal_digests_raise_none(fleet):
    a = fleet["a"]
    stranger = Stranger(a)
    stranger.send(*chain(77, 1))
    stranger.say(Ack(0, [SpaceAck("default", 0, {77: 1}, cut_of(a.replica.vector), digest_of(a.replica))]))
    stranger.say(Ack(0, [SpaceAck("default", 0, {77: 1}, b"another cut", b"x" * 16)]))
    assert a.alarms == set()


# -- early, repeated, dropped ----------------------------------------------------------------------------------------


def test_what_comes_early_waits(fleet):
    a = fleet["a"]
    stranger = Stranger(a)
    first, second, third = chain(77, 3)
    other = change_of(88, 1, (Dep(77, 2, second.short_hash),))
    stranger.send(third, other)
    assert a.replica.vector == {}
    stranger.send(first)
    assert a.replica.vector == {77: 1}
    stranger.send(second)
    assert a.replica.vector == {77: 3, 88: 1}
    assert len(a.replica.gate) == 0


def test_a_repeat_is_dropped(fleet):
    a = fleet["a"]
    stranger = Stranger(a)
    changes = chain(77, 2)
    stranger.send(*changes)
    stranger.send(*changes, *changes)
    assert a.replica.vector == {77: 2}
    assert a.store.log_stats(1)["log_changes"] == 2


def test_when_there_is_no_room_to_wait_it_is_asked_for_again(fleet, monkeypatch):
    from crdtsync.core.crdt import causal_gate

    monkeypatch.setattr(causal_gate, "WRITER_CHANGES_MAX", 2)
    stranger = Stranger(fleet["a"])
    changes = chain(77, 6)
    stranger.send(*changes[1:])
    stranger.heard()
    fleet.pass_time(1.1)
    assert stranger.heard(Want) == [Want("default", 0, {})]
    stranger.send(*changes)
    assert fleet["a"].replica.vector == {77: 6}


def test_a_want_starts_over_from_its_frontier(fleet):
    a = fleet["a"]
    ann = a.agent()
    for n in range(5):
        ann.set("k", n)
    stranger = Stranger(a)
    first = bodies(stranger.heard(Changes))
    assert len(first) == 5
    third = CODEC.decode(first[2])
    stranger.say(Want("default", 0, {third.writer: (3, third.short_hash)}))
    assert bodies(stranger.heard(Changes)) == first[3:]


def test_a_disk_without_room_drops_what_comes_and_asks_for_it_later(fleet):
    a = fleet["a"]
    stranger = Stranger(a)
    changes = chain(77, 3)
    a.step(DiskSpace("the disk is full"))
    stranger.send(*changes)
    assert a.replica.vector == {}
    stranger.heard()
    a.step(DiskSpace(""))
    assert stranger.heard(Want) == [Want("default", 0, {})]
    stranger.send(*changes)
    assert a.replica.vector == {77: 3}
    assert a.alarms == set()


# -- connections -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["hellos at once", "one after the other"])
def test_of_two_connections_both_sides_keep_the_same_one(apart, order):
    first = apart.link("a", "b")
    if order == "one after the other":
        apart.sync()
    second = apart.link("b", "a")
    apart.sync()
    apart["a"].agent().set("k", 1)
    apart.sync()
    assert [wire.reason is None for wire in (first, second)].count(True) == 1
    assert apart["b"].agent().get("k") == 1


def test_a_node_that_dials_anew_replaces_a_connection_that_is_dead_on_its_side(apart):
    """The daemon that was killed comes back before the other has noticed."""
    apart.link("a", "b")
    apart.sync()
    for conn in list(apart["a"].wires):  # a forgets, b still believes
        wire = apart["a"].wires.pop(conn)
        apart["a"].step(PeerClosed(conn, "lost"))
        apart.wires.remove(wire)
    apart.pass_time(1)
    again = apart.link("a", "b")
    apart.sync()
    apart["b"].agent().set("k", 1)
    apart.sync()
    assert again.reason is None
    assert apart["a"].agent().get("k") == 1


@pytest.mark.parametrize(
    "fields, why",
    [
        ({"cluster": b"other"}, "another cluster"),
        ({"protocol": PROTOCOL_VERSION - 1}, "protocol"),
        ({"node": "itself"}, "the node itself"),
    ],
)
def test_a_hello_that_is_refused(fleet, fields, why):
    a = fleet["a"]
    stranger = Stranger(a, hello=False)
    node = a.node.identity.node if fields.get("node") else "stranger"
    plain = {"cluster": LOOPBACK_CLUSTER, "protocol": PROTOCOL_VERSION} | fields | {"node": node}
    stranger.say(Hello(plain["node"], "x", plain["cluster"], b"d", {}, 0, plain["protocol"]))
    a.turn()
    assert why in stranger.reason
    assert a.agent().set("k", 1)


def test_a_newer_protocol_is_spoken_with(fleet):
    stranger = Stranger(fleet["a"], protocol=PROTOCOL_VERSION + 1, features=("new",))
    assert stranger.reason is None


def test_the_first_message_is_a_hello_and_there_is_one(fleet):
    a = fleet["a"]
    rude = Stranger(a, hello=False)
    rude.say(Links(frozenset()))
    a.turn()
    assert "hello" in rude.reason
    twice = Stranger(a)
    twice.say(Hello("stranger", "x", LOOPBACK_CLUSTER, b"d", {}, 0))
    a.turn()
    assert "second hello" in twice.reason


def test_one_who_never_says_hello(fleet):
    silent = Stranger(fleet["a"], hello=False)
    fleet.pass_time(connections.HELLO_TIMEOUT_S + 1)
    fleet["a"].turn()
    assert "no hello" in silent.reason


# -- forks -----------------------------------------------------------------------------------------------------------


def forked(fleet, **others):
    """A stranger whose writer 77 has another second change than this node holds."""
    a = fleet["a"]
    good = chain(77, 3)
    bad = change_of(77, 2, prev_hash=good[0].hash, value=b"\x02")
    Stranger(a, node="good").send(*good)
    return a, good, bad


def test_a_fork_shows_in_the_hello(fleet):
    a, _, bad = forked(fleet)
    stranger = Stranger(a, spaces={"default": (0, {77: (2, bad.short_hash)})})
    assert a.alarms == {"fork"}
    assert [message.code for message in stranger.heard(Stop)] == ["fork"]
    a.agent().set("k", "not for the fork")
    assert stranger.heard(Changes) == []


def test_the_alarm_of_a_fork_names_the_author_and_over_whom_the_held_change_came(fleet):
    """Somebody may have written under the author's next number: then that is who brought it."""
    a = fleet["a"]
    (first,) = chain(77, 1)
    author = Stranger(a, node="node-77")
    author.send(first)
    Stranger(a, node="forger", name="forger").send(change_of(77, 2, prev_hash=first.hash, value=b"\x02"))
    author.send(change_of(77, 2, prev_hash=first.hash, value=b"\x03"))
    (message,) = [alarm.message for alarm in a.node.alarms.raised()]
    assert "number 2 of writer 77 of forged: " in message
    assert message.endswith("the change that is held here came over forger")


def test_a_fork_far_back_shows_in_the_hello_too(fleet):
    a = fleet["a"]
    good = chain(77, 300)
    Stranger(a, node="good").send(*good[:200])
    a.restart()
    bad = change_of(77, 20, prev_hash=good[18].hash, value=b"\x02")
    Stranger(a, spaces={"default": (0, {77: (20, bad.short_hash)})})
    assert a.alarms == {"fork"}


def test_a_fork_shows_in_a_change_that_continues_it(fleet):
    a, _, bad = forked(fleet)
    stranger = Stranger(a)
    stranger.send(change_of(77, 4, prev_hash=bad.hash))
    assert a.alarms == {"fork"}
    assert a.replica.vector == {77: 3}


def test_a_fork_shows_in_what_others_had_seen(fleet):
    a, _, bad = forked(fleet)
    stranger = Stranger(a)
    stranger.send(change_of(88, 1, (Dep(77, 2, bad.short_hash),)))
    assert a.alarms == {"fork"}
    assert 88 not in a.replica.vector


def test_a_fork_shows_in_a_repeat(fleet):
    a, good, bad = forked(fleet)
    Stranger(a).send(bad)
    assert a.alarms == {"fork"}
    assert a.replica.hashes[77] == good[2].hash


def test_a_forked_change_that_waited_does_not_take_the_good_ones_with_it(fleet):
    """What was applied before it showed must be told and stored as usual."""
    a = fleet["a"]
    watcher = a.agent()
    watcher.ask("watch", prefix="")
    a.turn()
    watcher.told()
    good = chain(77, 2)
    bad = change_of(77, 2, prev_hash=b"x" * 16)
    stranger = Stranger(a)
    stranger.send(bad)
    stranger.send(good[0])
    a.turn()
    assert a.replica.vector == {77: 1}
    assert [event["key"] for event in watcher.told()] == ["k"]
    other = Stranger(a, node="good")
    other.send(good[1])
    assert a.replica.vector == {77: 2}
    assert len(a.replica.gate) == 0


def test_other_spaces_and_peers_go_on_after_a_fork(fleet):
    a, _, bad = forked(fleet)
    Stranger(a, spaces={"default": (0, {77: (2, bad.short_hash)})})
    other = Stranger(a, node="other")
    other.heard()
    a.agent().set("j", 1)
    assert len(bodies(other.heard(Changes))) == 1


def test_a_space_of_another_epoch_is_not_synced(fleet):
    stranger = Stranger(fleet["a"], spaces={"default": (3, {})})
    fleet["a"].agent().set("k", 1)
    assert stranger.heard(Changes) == []
    assert fleet["a"].alarms == set()


# -- hostile messages ------------------------------------------------------------------------------------------------

HOSTILE = [
    b"",
    b"\xc1",
    b"\x92\x02",
    pack([2, "default", 0, [b"\xc1"]]),
    pack([2, "default", 0, [pack([pack([1] * 10)])]]),
    pack([2, "default", 0, [change_of(77, 1, codec=Codec(b"o" * 16, "x", 1)).body[:-1]]]),
    pack(
        [
            2,
            "default",
            0,
            [pack([pack([1, 5, 1, [], bytes(16), 7, "a", None, [["k", None, 0, True, {}, None]], None]), b"\x01"])],
        ]
    ),
    pack([4, "default", 0, [77]]),
    pack([[], 1]),
    pack({"1": 2}),
]


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_malformed_messages_close_that_connection_and_hurt_nobody_else(fleet, data):
    a = fleet["a"]
    other = Stranger(a, node="other")
    hostile = Stranger(a)
    hostile.say(data)
    a.turn()
    assert hostile.reason
    other.send(*chain(88, 1, key="fine"))
    assert a.agent().get("fine") == 1
    assert other.reason is None


def test_messages_about_unknown_spaces_are_ignored(fleet):
    a = fleet["a"]
    stranger = Stranger(a, spaces={"default": (0, {}), "other": (0, {5: (1, b"12345678")})})
    for message in (
        Changes("other", 0, [chain(77, 1)[0].body]),
        Want("other", 0, {}),
        Stop("other", "fork", "why"),
        Ack(0, [SpaceAck("other", 0, {5: 1}, b"", b"")]),
        Changes("default", 7, [chain(77, 1)[0].body]),
        pack([99, "new"]),
    ):
        stranger.say(message)
    a.turn()
    assert stranger.reason is None
    assert a.replica.vector == {}
    assert a.agent().set("k", 1)


def test_a_peer_that_stops_for_a_reason_of_its_own_raises_an_alarm_with_its_code(fleet):
    a = fleet["a"]
    stranger = Stranger(a, spaces={"default": (0, {})})
    stranger.say(Stop("default", "of_tomorrow", "why"))
    a.turn()
    assert stranger.reason is None
    assert a.alarms == {"of_tomorrow"}
    a.restart()
    Stranger(a, spaces={"default": (0, {})}).say(Stop("default", "fork", "why"))
    a.turn()
    assert a.alarms == {"fork"}


def test_a_clock_that_is_a_day_ahead_is_named_until_it_is_right(fleet):
    """What counts is what time it is there now, and not what was written when the clock was wrong."""
    a = fleet["a"]
    wrong_ms = START_MS + 48 * 3_600_000
    stranger = Stranger(a, time_ms=wrong_ms, features=(PROBES,))
    a.turn()
    (alarm,) = a.node.alarms.raised()
    assert "the clock of stranger (stranger) is 48 hours ahead" in alarm.message
    assert answer_probe(fleet, stranger, wrong_ms) == {"clock_ahead"}
    assert answer_probe(fleet, stranger, 0) == set()
    stranger.send(*chain(77, 1, hlc=wrong_ms << 16))
    assert a.alarms == set(), (
        "its hybrid time is still ahead, and so is what it wrote before: a newcomer gets that, too"
    )


def answer_probe(fleet, stranger, time_ms):
    """The peer answers the next probe with a time, 0 for the right one; the alarms afterwards."""
    fleet.pass_time(PROBE_INTERVAL_S + 1)
    (probe,) = stranger.heard(Probe)
    stranger.say(Probed(probe.number, time_ms or stranger.machine.node.now_ms))
    stranger.machine.turn()
    return stranger.machine.alarms


def test_a_clock_from_beyond_a_day_is_applied_and_not_taken_over(fleet):
    a = fleet["a"]
    ann = a.agent()
    far = (START_MS + 48 * 3_600_000) << 16
    Stranger(a).send(*chain(77, 1, hlc=far), *chain(88, 1, hlc=2**64 - 1, key="far"))
    assert ann.get("far") == 1
    ann.set("mine", 1)
    assert a.replica.clock.last < far
    a.restart()
    a.agent().set("mine", 2)
    assert a.replica.clock.last < far


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_random_frames_never_break_the_node(frames):
    with fleet_of("a") as fleet:
        stranger = Stranger(fleet["a"])
        for data in frames:
            if stranger.reason is None:
                stranger.say(data)
                fleet["a"].turn()
        assert fleet["a"].agent().set("k", 1)


# -- many spaces -----------------------------------------------------------------------------------------------------


def test_a_hello_tells_of_some_spaces_and_the_rest_follows(monkeypatch):
    monkeypatch.setattr(connections, "HELLO_SPACES_MAX", 4)
    monkeypatch.setattr(sync, "HELLO_SPACES_MAX", 4)
    with fleet_of("a", "b") as fleet:
        maker = fleet["a"].agent()
        for number in range(20):
            maker.ask("space_create", name=f"s{number}")
        fleet.link("a", "b")
        fleet.sync()
        fleet.wires[0].close()
        for number in range(20):
            fleet[("a", "b")[number % 2]].agent().set("k", number, space=f"s{number}")
        stranger = Stranger(fleet["a"])
        (hello,) = stranger.heard(Hello)
        assert ("_cluster" in hello.spaces, len(hello.spaces)) == (True, 4)
        per_turn = [len(stranger.heard(Want)) for _ in range(6)]
        assert per_turn[0] <= 8
        assert len(fleet["a"].node.sync.links[stranger.conn].introduced) == 22
        stranger.close()
        fleet.link("b", "a")
        fleet.sync()
        for machine in fleet.machines.values():
            reader = machine.agent()
            assert [reader.get("k", space=f"s{number}") for number in range(20)] == [*range(20)]


def test_an_acknowledgement_of_many_spaces_goes_out_in_parts(monkeypatch):
    monkeypatch.setattr(acks, "ACK_SPACES_MAX", 3)
    with fleet_of("a", "b", linked=True) as fleet:
        maker = fleet["a"].agent()
        for number in range(10):
            maker.ask("space_create", name=f"s{number}")
        fleet.sync()
        for number in range(10):
            maker.set("k", number, space=f"s{number}")
        fleet.run(1)
        peer = next(iter(fleet["a"].node.sync.peers.values()))
        assert all(peer.holds(name, replica.vector) for name, replica in fleet["a"].node.replicas.items())
