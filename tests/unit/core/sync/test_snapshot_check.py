"""Before a snapshot takes much away, or claims to know later changes of others, those who can know are asked."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from crdtsync.core.cluster.admission import MEMBERS
from crdtsync.core.cluster.membership import Member
from crdtsync.core.sync.acks import cut_of
from crdtsync.core.sync.snapshot_check import ANSWERS_S, DOUBTED_S, TAKEN_AWAY_MIN
from crdtsync.wire.codec import pack
from crdtsync.wire.limits import CLUSTER_SPACE
from crdtsync.wire.peer.comparing import Digests, Removed, Sampled
from crdtsync.wire.peer.snapshot import WriterRow
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host
from tests.fleet.renegade import SNAPSHOT, Renegade, put
from tests.fleet.snapshots import agree, fill, state, trim

KEYS = TAKEN_AWAY_MIN + 4
PINS = ("a" * 64, "b" * 64)


@pytest.fixture
def held() -> Iterator[Fleet]:
    """Hosts a and b hold what both wrote, and what a third wrote, which is gone."""
    with fleet_of("a", "b", "gone", linked=True) as fleet:
        for name in fleet.machines:
            fill(fleet[name], KEYS, name)
        fleet.run(1)
        cut_off(fleet, "gone")
        del fleet.machines["gone"]
        fleet.run(1)
        yield fleet


def cut_off(fleet: Fleet, name: str) -> None:
    for wire in list(fleet[name].wires.values()):
        wire.close()


def messages(machine: Host) -> dict[str, str]:
    return {alarm.code: alarm.message for alarm in machine.node.alarms.raised()}


def own(renegade: Renegade, seq: int = 1, hashed: bytes = b"?" * 16) -> WriterRow:
    """A head of the renegade's own, so that its state knows something new."""
    return WriterRow(renegade.writer, seq, hashed, (renegade.node, renegade.node))


def test_a_state_that_knows_nothing_new_takes_nothing_away(held: Fleet):
    b = held["b"]
    before = state(b)
    renegade = Renegade(b)
    renegade.snapshot("default", renegade.heads("default"), [])
    held.run(2)
    assert state(b) == before


@pytest.mark.parametrize("beyond", [1, 2**50])
@pytest.mark.parametrize("is_empty", [True, False])
def test_later_changes_that_their_author_never_made_are_refused(held: Fleet, beyond: int, is_empty: bool):
    """Taken in, they would make this node drop all that the author writes from then on."""
    b = held["b"]
    before = state(b)
    renegade = Renegade(b)
    entries = [] if is_empty else list(b.replica.entries.all())
    renegade.snapshot("default", renegade.heads("default", beyond), entries)
    held.run(2)
    assert state(b) == before
    assert "stranger: it names changes of a that a never made" in messages(b)["snapshot_contradicted"]
    held["a"].agent().set("later", 1)
    held.run(1)
    assert b.agent().get("later") == 1


@pytest.mark.parametrize("has_written", [False, True])
def test_an_author_whose_disk_went_back_denies_nothing(held: Fleet, has_written: bool):
    """It knows no longer what it wrote as its former writer, and c, which knows, tells the truth."""
    a, c = held["a"], held.add("c")
    kept = held.directory / "kept"
    shutil.copytree(a.store.data_dir, kept)
    cut_off(held, "b")
    held.link("a", "c")
    fill(a, KEYS, "later")
    held.run(1)
    trim(c)
    a.restart(kept)
    if has_written:
        a.agent().set("as another writer", 1)
    held.link("a", "b")
    held.run(1)
    held.link("c", "b")
    held.run(1)
    b = held["b"]
    assert b.agent().get(f"later/{KEYS - 1:05}") == bytes(1)
    assert "snapshot_refused" not in {event for event, _ in b.log}
    held.link("a", "c")
    held.run(1)
    agree(held)


def test_who_holds_all_that_it_claims_to_know_says_what_is_still_there(held: Fleet):
    a, b = held["a"], held["b"]
    made = Renegade(a).write("default", put("mine", pack(1)))
    renegade = Renegade(b)
    for wire in held.wires:  # b has not got it yet
        for waiting in wire.waiting:
            waiting.clear()
    before = state(b)
    renegade.snapshot("default", [*renegade.heads("default"), own(renegade, 1, made.hash)], [])
    held.run(0.5)
    assert state(b) == before
    assert "a knows all that it does, and has" in messages(b)["snapshot_contradicted"]


def test_what_one_node_doubts_waits_until_somebody_can_have_come(held: Fleet):
    b = held["b"]
    before = state(b)
    renegade = Renegade(b)
    renegade.snapshot("default", [*renegade.heads("default"), own(renegade)], [])
    held.run(ANSWERS_S + 2, 1)
    assert state(b) == before
    assert "the state that stranger sent" in messages(b)["snapshot_doubted"]
    renegade.close()  # it was removed
    held.run(DOUBTED_S + 60, 10)
    assert state(b) == before
    assert b.alarms == set()


def test_it_does_not_wait_for_good_and_takes_nothing_away_in_silence(held: Fleet):
    b = held["b"]
    renegade = Renegade(b)
    renegade.snapshot("default", [*renegade.heads("default"), own(renegade)], [])
    for _ in range(70):
        held.run(10, 10)
        renegade.heard()
    assert b.replica.entries.count == 0
    assert f"{3 * KEYS} values" in messages(b)["taken_away"]
    assert b.agent().ask("history", key="b/00000")["items"]


def test_with_nobody_to_ask_it_is_merged_at_once_and_said(held: Fleet):
    b = held["b"]
    for wire in list(held.wires):
        wire.close()
    renegade = Renegade(b)
    renegade.snapshot("default", [*renegade.heads("default"), own(renegade)], [])
    b.turn()
    assert b.replica.entries.count == 0
    assert "stranger sent took away" in messages(b)["taken_away"]


def test_nobody_confirms_what_it_was_not_asked(held: Fleet):
    """a is asked, and does not answer; the giver answers in its place, and that the state is right."""
    b = held["b"]
    renegade = Renegade(b)
    renegade.snapshot("default", [*renegade.heads("default"), own(renegade)], [])
    renegade.say(Sampled("default", 0, SNAPSHOT, True, 0, False))
    held.pass_time(ANSWERS_S + 1)
    b.turn()
    assert b.replica.entries.count == 0
    assert "no other node confirmed it" in messages(b)["taken_away"]


def test_little_at_a_time_adds_up(held: Fleet):
    b = held["b"]
    for wire in list(held.wires):
        wire.close()
    for n in range(1, 5):
        renegade = Renegade(b)
        left = list(b.replica.entries.all())[: -KEYS // 2]
        heads = [row for row in renegade.heads("default") if row.writer != renegade.writer]
        renegade.snapshot("default", [*heads, own(renegade, n)], left)
        b.turn()
        renegade.close()
        assert ("taken_away" in b.alarms) == (n >= 3), n


@pytest.mark.parametrize("count", [3, 3 * KEYS])
def test_a_peer_that_mends_a_difference_is_believed_little(held: Fleet, count: int):
    """It says that the state differs, though it does not, and that these entries were removed."""
    b = held["b"]
    renegade = Renegade(b)
    renegade.say(Digests("default", 0, cut_of(b.replica.vector), b"other", b""))
    gone = [(entry.key, entry.dot) for entry in b.replica.entries.all()][:count]
    renegade.say(Removed("default", 0, gone))
    b.turn()
    assert "divergence" in b.alarms
    assert b.replica.entries.count == 3 * KEYS - (count if count == 3 else 0)


def test_little_that_is_mended_adds_up(held: Fleet):
    """One that says of a few entries at a time that they were removed is believed until they are many."""
    b = held["b"]
    renegade = Renegade(b)
    renegade.say(Digests("default", 0, cut_of(b.replica.vector), b"other", b""))
    for _ in range(3 * KEYS):
        gone = [(entry.key, entry.dot) for entry in b.replica.entries.all()][:3]
        renegade.say(Removed("default", 0, gone))
        b.turn()
    assert b.replica.entries.count > 3 * KEYS // 2 - 3


def test_an_honest_clean_up_is_merged_without_a_word(held: Fleet):
    """b was away while a removed most: c confirms it."""
    a = held["a"]
    fleet = held
    fleet.add("c")
    fleet.link("a", "c")
    fleet.run(2)
    cut_off(fleet, "b")
    ann = a.agent()
    for name in ("a", "b", "gone"):
        for n in range(KEYS):
            ann.delete(f"{name}/{n:05}")
    fleet.run(2)
    trim(a)
    trim(fleet["c"])
    fleet.link("b", "a")
    fleet.link("b", "c")
    fleet.run(3)
    agree(fleet)


def test_no_state_takes_away_the_records_of_members_and_spaces(held: Fleet):
    b = held["b"]
    for pin, machine in zip(PINS, held.machines.values(), strict=True):
        node = machine.node.identity.node
        machine.node.cluster.put(MEMBERS, node, Member(node, machine.name, ((pin, b"x"),)))
    held.run(1)
    for wire in list(held.wires):
        wire.close()
    before = len(list(b.node.cluster.all(MEMBERS)))
    renegade = Renegade(b)
    renegade.snapshot(CLUSTER_SPACE, [*renegade.heads(CLUSTER_SPACE), own(renegade)], [])
    b.turn()
    assert len(list(b.node.cluster.all(MEMBERS))) == before == 2
    assert "leaves out the record member/" in messages(b)["snapshot_contradicted"]
