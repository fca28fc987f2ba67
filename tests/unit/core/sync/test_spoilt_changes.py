"""A change that a disk has spoilt in the log goes to nobody: it is mended, or a snapshot goes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from crdtsync.causality import Dot
from crdtsync.core.interface import DiskSpace
from crdtsync.core.sync.value_repair import ASKED_CHANGES_MAX
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.peer.values import WHOLE_CHANGE, Intact
from tests.fleet.agent import Refusal
from tests.fleet.clones import clone, meet
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host
from tests.fleet.snapshots import agree, events, state, trim
from tests.simulator.cuts import patiently

LONG = "x" * 16_000


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    """``a`` has written, and ``b`` has all of it; nobody is connected."""
    with fleet_of("a", "b", linked=True) as made:
        ann = made["a"].agent("ann")
        ann.set("v/one", LONG)
        ann.set("v/two", 2)
        made.sync()
        made.wires[0].close("done")
        yield made


def spoil(host: Host, seq: int = 1, *, at: int | bytes, writer: int | None = None) -> None:
    """Flip a bit of a change in a host's log, of a writer or of the first: this byte of its body, or that of a word."""
    host.store.settle()
    with closing(sqlite3.connect(host.store.path, isolation_level=None)) as db:
        position, body = db.execute(
            "SELECT position, body FROM changes WHERE seq = ?1 AND writer = IFNULL(?2, writer) ORDER BY position",
            (seq, writer),
        ).fetchone()
        spoilt = bytearray(body)
        spoilt[body.index(at) if isinstance(at, bytes) else at] ^= 1
        db.execute("UPDATE changes SET body = ? WHERE position = ?", (bytes(spoilt), position))


def is_sound(host: Host, seq: int = 1, writer: int | None = None) -> bool:
    """Whether a change has its hash on disk: of a writer, or of the first."""
    host.store.settle()
    replica = host.replica
    rows = host.store.log(replica.id, 0, 2**30, 100)
    row = next(row for row in rows if row.seq == seq and writer in (None, row.writer))
    return replica.codec.hash_of(row.body) == row.hash


def join(fleet: Fleet, name: str = "c") -> Host:
    fleet.add(name)
    fleet.link(name, "b")
    fleet.run(5)
    return fleet[name]


def test_a_spoilt_value_of_a_change_comes_from_the_state(fleet: Fleet) -> None:
    b = fleet["b"]
    spoil(b, at=-100)
    c = join(fleet)
    assert c.agent().get("v/one") == LONG
    agree(fleet, "b", "c")
    assert not events(b, "snapshot_offered")
    assert [fields["seq"] for fields in events(b, "change_mended")] == [1]
    b.turn()
    assert is_sound(b)


def test_a_spoilt_value_of_a_change_comes_from_history(fleet: Fleet) -> None:
    b = fleet["b"]
    b.agent("bob").set("v/one", 1)
    spoil(b, at=-100)
    join(fleet)
    agree(fleet, "b", "c")
    assert [fields["seq"] for fields in events(b, "change_mended")] == [1]


@pytest.mark.parametrize("at", [0, 3, 5, 20, b"v/one", b"ann"])
def test_a_peer_gets_a_snapshot_in_place_of_a_spoilt_change(fleet: Fleet, at: int | bytes) -> None:
    b = fleet["b"]
    spoil(b, at=at)
    c = join(fleet)
    assert c.agent().get("v/one") == LONG
    assert c.agent().get("v/two") == 2
    assert state(b) == state(c)
    assert (b.alarms, c.alarms) == ({"change_damaged"}, set())
    assert [fields["seq"] for fields in events(b, "change_damaged")] == [1]
    fleet.link("c", "a")
    fleet["a"].agent().set("v/two", 3)
    fleet.run(5)
    assert c.agent().get("v/two") == b.agent().get("v/two") == 3
    assert (fleet["a"].alarms, c.alarms) == (set(), set())


@pytest.mark.parametrize("at", [0, 3, 5, 20, b"v/one", b"ann"])
def test_a_spoilt_change_comes_from_a_peer(fleet: Fleet, at: int | bytes) -> None:
    b = fleet["b"]
    spoil(b, at=at)
    join(fleet)
    assert b.alarms == {"change_damaged"}
    fleet.link("a", "b")
    fleet.run(5)
    assert b.alarms == set()
    assert [fields["seq"] for fields in events(b, "change_mended")] == [1]
    assert is_sound(b)
    fleet.add("d")
    fleet.link("d", "b")
    fleet.run(5)
    agree(fleet, "b", "d")
    assert len(events(b, "snapshot_offered")) == 1  # that to c


def test_more_spoilt_changes_than_one_message_asks_for_come(fleet: Fleet) -> None:
    a, b = fleet["a"], fleet["b"]
    fleet.link("a", "b")
    bob = b.agent("bob")
    numbers = range(1, 2 * ASKED_CHANGES_MAX + 2)
    for n in numbers:
        bob.set(f"n/{n}", n)
    fleet.run(1)
    fleet.wires[-1].close("cut")
    writer = b.replica.writer
    assert writer is not None
    for n in numbers:
        spoil(b, n, at=b"bob", writer=writer)
        row = b.store.change(b.replica.id, writer, n)
        assert row is not None
        b.replica.spoilt.body_of(row)
    assert b.alarms == {"change_damaged"}
    fleet.link("a", "b")
    fleet.run(5)
    assert (a.alarms, b.alarms) == (set(), set())
    assert all(is_sound(b, n, writer) for n in numbers)


def test_a_peer_gives_no_other_change_than_the_spoilt_one(fleet: Fleet) -> None:
    b, writer = fleet["b"], fleet["a"].replica.writer
    assert writer is not None
    other = fleet["a"].store.change_body(fleet["a"].replica.id, writer, 2)
    assert other is not None
    spoil(b, at=3)
    join(fleet)
    dot = Dot(writer, 1, WHOLE_CHANGE)
    for body in (other, b"", b"\xc1", pack([b"", [b"x"]])):
        b.node.sync.value_repair.came(b.replica, Intact("default", b.replica.epoch, [("*", dot)], [body]))
        b.turn()
        assert b.alarms == {"change_damaged"}
    assert not is_sound(b)


def test_a_change_that_comes_from_a_peer_holds_nothing_that_was_purged(fleet: Fleet) -> None:
    b, writer = fleet["b"], fleet["a"].replica.writer
    assert writer is not None
    body = fleet["a"].store.change_body(fleet["a"].replica.id, writer, 1)
    assert body is not None
    spoil(b, at=b"ann")
    join(fleet)
    b.agent().do("purge", pattern="v/**")
    fleet.run(30)
    dot = Dot(writer, 1, WHOLE_CHANGE)
    b.node.sync.value_repair.came(b.replica, Intact("default", b.replica.epoch, [("*", dot)], [body]))
    b.turn()
    assert is_sound(b)
    assert LONG.encode() not in (b.store.change_body(b.replica.id, writer, 1) or b"")


def test_the_alarm_ends_when_the_log_holds_the_change_no_more(fleet: Fleet) -> None:
    b = fleet["b"]
    spoil(b, at=3)
    join(fleet)
    assert b.alarms == {"change_damaged"}
    trim(b)
    fleet.run(10)
    assert b.alarms == set()


def test_what_stands_before_and_after_a_spoilt_change_arrives(fleet: Fleet) -> None:
    b = fleet["b"]
    spoil(b, 2, at=20)
    c = join(fleet)
    assert (c.agent().get("v/one"), c.agent().get("v/two")) == (LONG, 2)
    assert state(b) == state(c)
    b.restart()  # what it knew of the log is forgotten
    d = fleet.add("d")
    fleet.link("d", "b")
    fleet.run(5)
    assert state(b) == state(d)
    assert b.alarms == {"change_damaged"}


def test_the_alarm_ends_with_the_space(fleet: Fleet) -> None:
    b = fleet["b"]
    spoil(b, at=3)
    join(fleet)
    assert b.alarms == {"change_damaged"}
    b.agent().ask("space_drop", name="default")
    fleet.run(5)
    assert b.alarms == set()


def test_a_full_disk_is_written_to_for_no_mend(fleet: Fleet) -> None:
    """The commit would be refused, with all links closed and memory read anew, again and again."""
    b = fleet["b"]
    spoil(b, at=-100)
    b.step(DiskSpace("full"))
    c = join(fleet)
    assert c.agent().get("v/one") == LONG
    assert not is_sound(b)
    b.step(DiskSpace(""))
    fleet.add("d")
    fleet.link("d", "b")
    fleet.run(5)
    assert is_sound(b)


def test_a_value_that_log_and_state_share_is_given_to_others_once_it_is_mended(fleet: Fleet) -> None:
    a, b = fleet["a"], fleet["b"]
    fleet.link("a", "b")
    a.agent("ann").set("v/long", LONG * 5)
    fleet.run(1)
    fleet.wires[0].close("cut")
    b.store.settle()
    with closing(sqlite3.connect(b.store.path, isolation_level=None)) as db:
        ((row, value),) = db.execute("SELECT row, value FROM entry_values WHERE LENGTH(value) > 65536").fetchall()
        assert db.execute("SELECT COUNT(*) FROM change_values WHERE row = ?", (row,)).fetchone() == (1,)
        db.execute("UPDATE entry_values SET value = ? WHERE row = ?", (value[:-1] + b"y", row))
    b.node.value_cache.clear()
    c = join(fleet)
    with pytest.raises(Refusal, match="damaged"):
        c.agent().ask("get", key="v/long")
    assert b.alarms == {"change_damaged", "value_damaged"}
    b.agent().set("later", 1)
    fleet.run(1)
    assert c.agent().get("later") == 1
    fleet.link("a", "b")
    fleet.run(30, 1)
    assert c.agent().get("v/long") == LONG * 5
    agree(fleet, "a", "b", "c")
    assert is_sound(b, 3)


def test_a_watch_starts_over_where_it_would_tell_a_spoilt_change(fleet: Fleet) -> None:
    b = fleet["b"]
    ann = b.agent("ann")
    token = ann.set("begin", 0)["token"]
    for n in range(3):
        ann.set("k", n)
    spoil(b, 3, at=b"k", writer=b.replica.writer)
    watcher = b.agent("watcher")
    watcher.send("watch", prefix="", after=token)
    for _ in range(5):
        b.turn()
    told = watcher.told()
    assert "reset" in [event["event"] for event in told]
    assert unpack([event for event in told if event.get("key") == "k"][-1]["value"]) == 2
    assert b.alarms == {"change_damaged"}


@pytest.mark.parametrize("at", [3, b"v/one"], ids=["number", "key"])
def test_a_purge_leaves_nothing_of_a_spoilt_change(fleet: Fleet, at: int | bytes) -> None:
    b = fleet["b"]
    spoil(b, at=at)
    b.agent().do("purge", pattern="v/**")
    fleet.run(30)
    b.store.settle()
    assert [row.body for row in b.store.log(b.replica.id, 0, 2**30, 1)] == [b""]
    assert b.alarms == {"change_damaged"}


def test_a_token_is_not_read_through_a_spoilt_change(fleet: Fleet) -> None:
    b = fleet["b"]
    token = fleet["a"].agent("ann").set("k", 1)["token"]
    fleet.link("a", "b")
    fleet.run(1)
    b.agent("bob").set("k", 2)
    assert unpack(patiently(b.agent(), "get", key="k", at=token)["value"]) == 1
    spoil(b, 3, at=b"ann")
    with pytest.raises(Refusal, match="lies before the history"):
        patiently(b.agent(), "get", key="k", at=token)


def test_a_fork_is_not_healed_with_a_spoilt_change(fleet: Fleet) -> None:
    """Else the damage would go round as a change of its own."""
    c = clone(fleet, "a", "c")
    for host in (fleet["a"], c):
        for key in ("k/1", "k/2"):
            host.agent().set(key, host.name + LONG)
    for host in (fleet["a"], c):
        spoil(host, 3, at=b"k/1")
    meet(fleet, ("a", "c"))
    assert "fork" in fleet["a"].alarms | c.alarms
    for host in (fleet["a"], c):
        assert [value[:1] for value in host.agent().values("k/1")] == [host.name]
        assert not host.agent().values("j/1")
