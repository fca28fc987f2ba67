"""A value that a disk has spoilt comes from a peer, and goes to its place: alive, dead, and of a blob."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from crdtsync.core.sync.value_repair import SLICE_ENTRIES
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.peer.values import INTACT_BYTES_MAX, SPOILT_ENTRIES_MAX, Intact, Spoilt
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


def test_who_watched_a_key_without_its_value_is_told_when_that_has_come(fleet: Fleet) -> None:
    """The value was lost where it came from: nobody here has seen it before."""
    fill(fleet)
    host = fleet["a"]
    watcher = host.agent("watcher")
    watcher.ask("watch", prefix="k")
    spoil(host, "k")
    spoil(host, "dead")
    with pytest.raises(Refusal, match="damaged"):
        host.agent().ask("get", key="k")
    with pytest.raises(Refusal, match="damaged"):
        patiently(host.agent(), "get", key="dead", at="checkpoint:before")
    watcher.told()
    fleet.run(5)
    told = [(event["key"], event["value"]) for event in watcher.told() if event["key"] is not None]
    assert told == [("k", pack(LONG + "k"))]


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
    repair.came(host.replica, Intact("default", 0, [("k", entry.dot)], [pack("other")]))
    assert entry.dot in host.replica.values.damaged
    repair.came(host.replica, Intact("default", 0, [("k", entry.dot)], [pack(LONG + "k")]))
    assert ann.get("k") == LONG + "k"
    before = len(host.replica.ledger.batch.mended_values)
    repair.came(host.replica, Intact("default", 0, [("k", entry.dot)], [pack(LONG + "k")]))
    assert len(host.replica.ledger.batch.mended_values) == before


def test_more_than_fits_is_refused() -> None:
    dots = [["k", 1, 1, n] for n in range(SPOILT_ENTRIES_MAX + 1)]
    with pytest.raises(ValueError, match="65 items where 0 to 64 may be"):
        Spoilt.decode([28, "default", 0, dots])
    with pytest.raises(ValueError, match="65 items where 0 to 64 may be"):
        Intact.decode([29, "default", 0, dots, [b"x"]])
    assert Intact.decode([29, "default", 0, dots[:2], [b"x"]]).found() == [("k", (1, 1, 0), b"x")]


def damage(host: Host, keys: list[str]) -> None:
    """Spoil the values on disk, and read them."""
    assert [spoil(host, key) for key in keys] == [1] * len(keys)
    agent = host.agent("ann")
    for key in keys:
        with pytest.raises(Refusal, match="damaged"):
            agent.ask("get", key=key)


def test_what_no_peer_has_does_not_keep_back_the_rest(fleet: Fleet) -> None:
    host, other = fleet["a"], fleet["b"]
    ann = host.agent("ann")
    keys = [f"k{n:03}" for n in range(2 * SPOILT_ENTRIES_MAX + 2)]
    for key in keys:
        ann.set(key, LONG + key)
    fleet.sync()
    for each in fleet.machines.values():
        trim(each)
    damage(host, keys)
    damage(other, keys[: SPOILT_ENTRIES_MAX + 1])
    fleet.run(30)
    assert {entry.key for entry, _ in host.replica.values.wanted.values()} == {*keys[: SPOILT_ENTRIES_MAX + 1]}
    assert ann.get(keys[-1]) == LONG + keys[-1]


@pytest.mark.parametrize("is_alone", [False, True])
def test_a_value_that_is_written_again_ends_the_alarm(fleet: Fleet, is_alone: bool) -> None:
    fill(fleet)
    for host in fleet.machines.values():
        spoil(host, "k")
    host = fleet["a"]
    ann = host.agent("ann")
    if is_alone:
        fleet.wires[0].close("cut")
    with pytest.raises(Refusal, match="damaged"):
        ann.ask("get", key="k")
    fleet.run(10, step_s=1)
    assert "value_damaged" in host.alarms
    ann.set("k", "anew")
    fleet.run(100, step_s=1)
    assert "value_damaged" not in host.alarms
    assert not host.replica.values.damaged


def test_who_asks_again_and_again_gets_one_answer_and_a_few_values_a_turn(fleet: Fleet) -> None:
    host = fleet["a"]
    ann = host.agent("ann")
    for n in range(20):
        ann.set(f"k{n}", "x" * 500_000)
    fleet.sync()
    (link,) = host.node.sync.links.values()
    repair, replica = host.node.sync.value_repair, host.replica
    entries = [(entry.key, entry.dot) for n in range(20) for entry in replica.entries.held(f"k{n}")]
    host.node.value_cache.clear()
    before = host.node.value_cache.misses
    for _ in range(100):
        repair.asked(link, replica, Spoilt("default", replica.epoch, entries))
    repair.tick(host.node.now_s)
    assert host.node.value_cache.misses - before <= SLICE_ENTRIES
    sent = 0
    for _ in range(40):
        host.node.now_s += 1
        repair.tick(host.node.now_s)
        sent += sum(len(data) for _, data in host.node.sync.outbox.take_sends())
    assert INTACT_BYTES_MAX <= sent < 2 * INTACT_BYTES_MAX
    assert host.node.value_cache.misses - before <= SLICE_ENTRIES
