"""Snapshots given to peers that ask for too much, and taken from peers that send rubbish or contradict what is held."""

# Writers are plain numbers here.
# mypy: disable-error-code="arg-type,dict-item,operator,var-annotated"

from __future__ import annotations

from typing import Any

import pytest

from crdtsync.core.sync import change_feed, snapshot_client, snapshot_server
from crdtsync.wire.change import Dep
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.peer.changes import Stop, Want
from crdtsync.wire.peer.messages import decode_message
from crdtsync.wire.peer.snapshot import decode_part, part_hash
from crdtsync.wire.peer.transfer import SNAPSHOTS, Offer, Part, Take
from tests.fleet.fleet import CODEC, fleet_of
from tests.fleet.snapshots import agree, begun, fill, state, trim
from tests.fleet.stranger import Stranger
from tests.unit.core.sync.test_sync import chain, change_of

# -- given away --------------------------------------------------------------------------------------------------------


class Taker(Stranger):
    """A peer that takes snapshots, played by the test."""

    def __init__(self, machine, node="taker", **fields):
        super().__init__(machine, node=node, features=(SNAPSHOTS,), **fields)

    def take(self, snapshot=b"", part=0):
        self.say(Take("default", 0, snapshot, part))
        return self.heard(Part)


def test_a_snapshot_is_given_while_there_is_credit(apart, small, monkeypatch):
    monkeypatch.setattr(change_feed, "CREDIT_BYTES_MAX", 2000)
    fill(apart["a"], 95)
    trim(apart["a"])
    taker = Taker(apart["a"])
    assert [offer.space for offer in taker.heard(Offer)] == ["default"]
    parts = taker.take()
    for _ in range(20):
        parts += taker.heard(Part)
    assert 0 < len(parts) < 9
    assert not parts[-1].is_last


def test_takers_at_once_share_one_and_over_the_limit_they_wait(apart, small, monkeypatch):
    monkeypatch.setattr(snapshot_server, "SNAPSHOTS_OPEN_MAX", 1)
    monkeypatch.setattr(change_feed, "CREDIT_BYTES_MAX", 500)
    a = apart["a"]
    fill(a, 95)
    trim(a)
    takers = [Taker(a, node=f"taker-{n}") for n in range(3)]
    for taker in takers:
        taker.heard()
    first = takers[0].take()
    second = takers[1].take()
    assert first[0].snapshot == second[0].snapshot
    a.agent().set("k", 1)
    apart.pass_time(snapshot_server.SNAPSHOT_SHARE_S + 1)
    assert takers[2].take() == []
    apart.pass_time(snapshot_server.OFFER_INTERVAL_S + 1)
    assert len(takers[2].heard(Offer)) == 1
    takers[0].close()
    takers[1].close()
    assert takers[2].take()[0].snapshot != first[0].snapshot
    assert len(a.replica.pins) == 1


def test_a_snapshot_in_transfer_pins_the_log(apart, small):
    wire, _ = begun(apart)
    assert apart["a"].replica.pins == {95}
    wire.close()
    apart.pass_time(snapshot_server.SNAPSHOT_KEEP_S + 1)
    apart["a"].turn()
    assert apart["a"].replica.pins == set()


def test_what_a_snapshot_shows_does_not_leave_before_it_is_on_disk(apart):
    a = apart["a"]
    fill(a, 3)
    trim(a)
    taker = Taker(a)
    taker.heard()
    a.agent().write("set", key="new", value=pack(1))
    taker.say(Take("default", 0, b"", 0))
    ready = a.node.ready()
    assert not [data for _, data in ready.sends if isinstance(decode_message(data), Part)]
    a.store.commit(ready.persist)
    a.node.advance()
    a.deliver(ready)
    assert taker.heard(Part)


def test_an_unknown_snapshot_or_part_is_answered_with_a_new_one(apart, small):
    fill(apart["a"], 35)
    trim(apart["a"])
    taker = Taker(apart["a"])
    (first, *_) = taker.take(b"x" * 16, 3)
    assert first.part == 0
    assert first.snapshot != b"x" * 16
    (again, *_) = Taker(apart["a"], node="other").take(first.snapshot, 4_000_000)
    assert again.part == 0


# -- hostile and broken ------------------------------------------------------------------------------------------------


class Giver(Taker):
    """A peer that gives the parts that a real node would give, or what the test makes of them."""


def parts_of_a_node(entries, others=()):
    """All parts of a node's snapshot, the node's id, and the changes that it stands for: ``others`` in the middle."""
    with fleet_of("s") as source:
        fill(source["s"], entries // 2, "first")
        if others:
            Stranger(source["s"], node="other").send(*others)
            source["s"].agent().delete("gone")
        fill(source["s"], entries - entries // 2)
        changes = [CODEC.decode(row.body) for row in source["s"].store.log(1, 0, 10**9, 10**6)]
        trim(source["s"])
        taker = Taker(source["s"])
        parts = taker.take()
        while not parts[-1].is_last:
            parts += taker.heard(Part)
        return parts, source["s"].node.identity.node, changes


def writer_of(parts):
    """The one writer of a snapshot's frontier."""
    rows: Any = decode_part(parts[1].data)
    return rows[0].writer


def giver_of(apart, entries=25):
    """Parts of a snapshot, and the peer that offers it to b."""
    parts, node, _ = parts_of_a_node(entries)
    giver = Giver(apart["b"], node=node)
    giver.heard()
    return giver, parts


def test_parts_of_a_peer_that_was_not_asked_close_its_connection(apart, small):
    giver, parts = giver_of(apart)
    giver.say(parts[0])
    apart["b"].turn()
    assert "not asked for" in giver.reason


def give(giver, parts):
    for part in parts:
        giver.say(part)
        giver.machine.turn()


def test_a_snapshot_played_by_hand(apart, small):
    giver, parts = giver_of(apart)
    giver.say(Offer("default", 0))
    assert [take.part for take in giver.heard(Take)] == [0]
    give(giver, parts)
    assert len(apart["b"].replica.entries) == 25
    assert apart["b"].alarms == set()


def test_changes_that_come_by_another_way_during_the_transfer(apart, small):
    """What was staged and has come as a change too must not be there twice."""
    others = chain(77, 5, key="others")
    parts, node, _ = parts_of_a_node(35, others)
    b = apart["b"]
    giver = Giver(b, node=node)
    giver.say(Offer("default", 0))
    giver.heard()
    give(giver, parts[:5])
    Stranger(b, node="other").send(*others[:3])
    b.agent().ask("get", key="others")
    b.agent().delete("others")
    give(giver, parts[5:])
    assert len(b.replica.entries) == 36
    assert b.replica.entries.count == 37
    agree(apart, "b")
    b.restart()
    assert b.replica.entries.count == 37


def test_changes_that_waited_for_what_the_snapshot_brings(apart, small):
    """One that it covers is forgotten, one that it unblocks is applied at once."""
    parts, node, changes = parts_of_a_node(25)
    b = apart["b"]
    giver = Giver(b, node=node)
    head = changes[-1]
    after = change_of(88, 1, (Dep(head.writer, head.seq, head.short_hash),), key="after")
    Stranger(b, node="other").send(changes[10], after)
    assert len(b.replica.gate) == 2
    giver.say(Offer("default", 0))
    giver.heard()
    give(giver, parts)
    assert len(b.replica.gate) == 0
    assert b.replica.vector == {head.writer: 25, 88: 1}
    assert b.agent().get("after") == 1
    agree(apart, "b")


def test_a_corrupt_part_is_asked_for_again(apart, small):
    giver, parts = giver_of(apart)
    giver.say(Offer("default", 0))
    giver.heard()
    broken = Part("default", 0, parts[2].snapshot, 2, parts[2].data[:-1] + b"x", parts[2].short_hash, False)
    give(giver, [*parts[:2], broken, *parts[3:]])  # what follows was on its way
    assert [take.part for take in giver.heard(Take)] == [2]
    give(giver, parts[2:])
    assert len(apart["b"].replica.entries) == 25


def test_after_several_corrupt_parts_the_peer_is_given_up_for_a_while(apart, small):
    giver, parts = giver_of(apart)
    giver.say(Offer("default", 0))
    giver.heard()
    broken = Part("default", 0, parts[2].snapshot, 2, parts[2].data[:-1] + b"x", parts[2].short_hash, False)
    give(giver, [*parts[:2], broken, broken, broken])
    assert len(giver.heard(Want)) == 1
    assert apart["b"].alarms == {"snapshot_refused"}
    assert list(apart["b"].store.snapshot_parts(1)) == []
    giver.say(Offer("default", 0))
    assert giver.heard(Take) == []
    apart.pass_time(snapshot_client.REFUSED_S + 1)
    assert len(giver.heard(Take)) == 1
    give(giver, parts)
    assert apart["b"].alarms == set()
    assert len(apart["b"].replica.entries) == 25


def rewritten(parts, change):
    """The parts with one made into something else, hash and all."""
    made = []
    for part in parts:
        plain = unpack(part.data)
        change(part.part, plain)
        data = pack(plain)
        made.append(
            Part("default", 0, part.snapshot, part.part, data, part_hash(part.snapshot, part.part, data), part.is_last)
        )
    return made


def _other_value(number, plain):
    if number == 3:
        plain[1][8] = b"\x02"


def _beyond_the_frontier(number, plain):
    if number == 2:
        plain[1][4] += 1000


def _twice(number, plain):
    if number == 2:
        plain[1][:11] = plain[1][11:22]


def _more_than_said(number, plain):
    if number == 0:
        plain[6] -= 1


def _fewer_than_said(number, plain):
    if number == 0:
        plain[6] += 1


def _too_many(number, plain):
    if number == 0:
        plain[6] = 1 << 40


def _another_node(number, plain):
    if number == 0:
        plain[2] = "somebody"


def _no_header(number, plain):
    if number == 0:
        plain[0] = 4


def _a_bad_key(number, plain):
    if number == 2:
        plain[1][0] = "\n"


def _unknown_type(number, plain):
    if number == 2:
        plain[0] = 77


@pytest.mark.parametrize(
    "change",
    [
        _other_value,
        _beyond_the_frontier,
        _twice,
        _more_than_said,
        _fewer_than_said,
        _too_many,
        _another_node,
        _no_header,
        _a_bad_key,
        _unknown_type,
    ],
)
def test_a_snapshot_that_does_not_hold_together_is_refused_whole(apart, small, change):
    giver, parts = giver_of(apart)
    giver.say(Offer("default", 0))
    giver.heard()
    give(giver, rewritten(parts, change))
    b = apart["b"]
    assert b.alarms == {"snapshot_refused"}
    assert len(b.replica.entries) == 0
    assert b.replica.vector == {}
    assert b.agent().set("k", 1)
    assert giver.reason is None


def test_a_flood_of_parts_out_of_place_closes_the_connection(apart, small, monkeypatch):
    monkeypatch.setattr(snapshot_client, "STRAY_BYTES_MAX", 5000)
    giver, parts = giver_of(apart)
    giver.say(Offer("default", 0))
    giver.heard()
    give(giver, [parts[0], *[parts[3]] * 40])
    assert "not asked for" in giver.reason


def test_a_snapshot_of_another_history_is_a_fork(apart, small):
    """Its frontier names another change than the one that is held here, though no value shows it."""
    parts, node, _ = parts_of_a_node(25, chain(77, 2, value=b"\x07", key="gone"))
    b = apart["b"]
    Stranger(b, node="good").send(*chain(77, 3, key="gone"))
    giver = Giver(b, node=node)
    giver.say(Offer("default", 0))
    giver.heard()
    before = state(b)
    give(giver, parts)
    assert b.alarms == {"fork"}
    assert state(b) == before


def test_a_fork_shows_in_the_takers_frontier_too(apart, small):
    a, b = apart["a"], apart["b"]
    fill(a, 5)
    writer = a.replica.writer
    trim(a)
    Stranger(b, node="bad").send(*chain(writer, 3))
    before = state(b)
    apart.link("b", "a")
    apart.run(2)
    assert a.alarms == {"fork"}
    assert b.alarms == {"fork"}
    assert state(b) == before


def test_a_fork_that_only_the_taker_can_see(apart, small):
    """The giver is behind in that writer, so that only the taker holds the number that they disagree about."""
    a, b = apart["a"], apart["b"]
    forked = chain(77, 3, value=b"\x07")
    Stranger(a, node="bad").send(*forked[:2])
    a.agent().delete("k")  # so that no value contradicts another
    fill(a, 5)
    trim(a)
    Stranger(b, node="good").send(*chain(77, 3))
    b.agent().delete("k")
    before = state(b)
    apart.link("b", "a")
    apart.run(2)
    assert "fork" in b.alarms
    assert "fork" in a.alarms
    assert state(b) == before


def test_a_snapshot_that_knows_more_of_this_nodes_own_writer(apart, small):
    """It went on somewhere else, from a copy: its name is never used here again."""
    a, b = apart["a"], apart["b"]
    ann = b.agent()
    ann.set("k", 1)
    writer = b.replica.writer
    head = CODEC.decode(b.store.log(1, 0, 10**6, 9)[0].body)
    Stranger(a, node="copy").send(head, change_of(writer, 2, prev_hash=head.hash))
    trim(a)
    apart.link("b", "a")
    apart.run(2)
    assert b.replica.vector == {writer: 2}
    ann.set("k", 2)
    assert b.replica.vector[writer] == 2
    assert len(b.replica.vector) == 2
    b.restart()
    b.agent().set("k", 3)
    assert b.replica.vector[writer] == 2


def test_stop_is_said_when_a_snapshot_is_a_fork(apart, small):
    giver, parts = giver_of(apart)
    b = apart["b"]
    writer = writer_of(parts)
    Stranger(b, node="good").send(*chain(writer, 25))
    giver.say(Offer("default", 0))
    giver.heard()
    give(giver, parts)
    assert b.alarms == {"fork"}
    assert [stop.code for stop in giver.heard(Stop)] == ["fork"]
    assert b.replica.vector == {writer: 25}
    assert list(b.store.snapshot_parts(1)) == []


def test_random_bytes_in_parts_never_break_the_node(apart, small):
    giver, parts = giver_of(apart)
    giver.say(Offer("default", 0))
    giver.heard()
    for at in range(0, 200, 3):
        data = parts[2].data[:at] + bytes([at % 256]) + parts[2].data[at + 1 :]
        giver.say(Part("default", 0, parts[0].snapshot, at % 5, data, b"12345678", at % 7 == 0).encode())
        apart["b"].turn()
        if giver.reason is not None:
            break
    assert apart["b"].agent().set("k", 1)
