"""A value that a disk has spoilt comes from a peer, and goes to its place: alive, dead, and of a blob."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.peer.values import SPOILT_ENTRIES_MAX, Intact, Spoilt
from tests.fleet.agent import Refusal
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host
from tests.fleet.snapshots import trim
from tests.simulator.cuts import patiently

LONG = "x" * 5000


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with fleet_of("a", "b", linked=True) as made:
        yield made


def spoil(host: Host, key: str) -> int:
    """Flip a bit in each long value of a key on disk, alive or dead; how many there were."""
    host.store.settle()
    while host.store.has_backlog:
        host.store.bring_some_in()
    host.node.value_cache.clear()
    with closing(sqlite3.connect(host.store.path, isolation_level=None)) as db:
        rows = db.execute(
            "SELECT v.row, v.value FROM entry_values v JOIN entries e ON e.row = v.row WHERE e.key LIKE ?", (key,)
        ).fetchall()
        for row, value in rows:
            db.execute("UPDATE entry_values SET value = ? WHERE row = ?", (value[:-1] + bytes([value[-1] ^ 1]), row))
    return len(rows)


def fill(fleet: Fleet) -> None:
    ann = fleet["a"].agent("ann")
    for key in ("k", "dead"):
        ann.set(key, LONG + key)
    for n in range(3):
        ann.do("append", key="log", value=pack(LONG + str(n)))
    ann.do("checkpoint_set", name="before")
    ann.do("delete", key="dead")
    fleet.sync()
    for host in fleet.machines.values():
        trim(host)


def test_what_a_peer_has_is_mended_and_the_alarm_ends(fleet: Fleet) -> None:
    fill(fleet)
    host = fleet["a"]
    ann = host.agent("ann")
    for key in ("k", "dead", "log"):
        assert spoil(host, key)
    with pytest.raises(Refusal, match="asked for on other nodes"):
        ann.ask("get", key="k")
    with pytest.raises(Refusal, match="damaged"):
        patiently(ann, "get", key="dead", at="checkpoint:before")
    with pytest.raises(Refusal, match="damaged"):
        ann.ask("log", key="log")
    assert "value_damaged" in host.alarms
    fleet.run(5)
    for _ in range(2):  # a read ends at the first that is damaged
        with pytest.raises(Refusal, match="damaged"):
            ann.ask("log", key="log")
        fleet.run(5)
    assert ann.get("k") == LONG + "k"
    assert unpack(patiently(ann, "get", key="dead", at="checkpoint:before")["value"]) == LONG + "dead"
    assert len(ann.ask("log", key="log")["items"]) == 3
    assert host.alarms == set()
    host.restart()
    ann = host.agent("ann")
    assert ann.get("k") == LONG + "k"
    assert unpack(patiently(ann, "get", key="dead", at="checkpoint:before")["value"]) == LONG + "dead"
    assert host.alarms == set()


def test_history_does_not_show_what_the_disk_has_spoilt(fleet: Fleet) -> None:
    fill(fleet)
    host = fleet["a"]
    ann = host.agent("ann")
    spoil(host, "dead")
    (item,) = ann.ask("history", key="dead")["items"]
    assert item["value"] is None
    fleet.run(5)
    (item,) = ann.ask("history", key="dead")["items"]
    assert unpack(item["value"]) == LONG + "dead"


def test_what_no_peer_has_stays_damaged_and_is_asked_for_ever_more_seldom(fleet: Fleet) -> None:
    fill(fleet)
    for host in fleet.machines.values():
        spoil(host, "k")
    ann = fleet["a"].agent("ann")
    for _ in range(2):
        with pytest.raises(Refusal, match="damaged"):
            ann.ask("get", key="k")
        fleet.run(60, step_s=1)
    assert "value_damaged" in fleet["a"].alarms
    due = set()
    for _ in range(30):
        fleet.run(5, step_s=1)
        due.add(fleet["a"].node.sync.value_repair.deadline_s())
    assert 1 < len(due) < 5


def test_what_is_not_what_was_asked_for_is_not_taken(fleet: Fleet) -> None:
    fill(fleet)
    host = fleet["a"]
    ann = host.agent("ann")
    fleet.wires[0].close("cut")
    spoil(host, "k")
    with pytest.raises(Refusal, match="damaged"):
        ann.ask("get", key="k")
    (entry,) = host.replica.entries.held("k")
    repair = host.node.sync.value_repair
    repair.came(host.replica, Intact("default", 0, [("k", entry.dot)], [pack("other")]), host.now.mono_s)
    assert entry.dot in host.replica.values.damaged
    repair.came(host.replica, Intact("default", 0, [("k", entry.dot)], [pack(LONG + "k")]), host.now.mono_s)
    assert ann.get("k") == LONG + "k"
    before = len(host.replica.ledger.batch.mended_values)
    repair.came(host.replica, Intact("default", 0, [("k", entry.dot)], [pack(LONG + "k")]), host.now.mono_s)
    assert len(host.replica.ledger.batch.mended_values) == before


def test_more_than_fits_is_refused() -> None:
    dots = [["k", 1, 1, n] for n in range(SPOILT_ENTRIES_MAX + 1)]
    with pytest.raises(ValueError, match="more values than one message"):
        Spoilt.decode([28, "default", 0, dots])
    with pytest.raises(ValueError, match="more values than one message"):
        Intact.decode([29, "default", 0, dots, [b"x"]])
    assert Intact.decode([29, "default", 0, dots[:2], [b"x"]]).found() == [("k", (1, 1, 0), b"x")]
