"""Long values stand on disk: dropped from memory once committed, read when asked for, compared with their hash."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from random import Random
from typing import Any

import pytest

from crdtsync.core.background.retention_caps import DEFAULT_CAPS, Caps
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.peers.peer_state import Link
from crdtsync.core.storage.long_values import MEMORY_BYTES_MAX, ROW_BYTES, ValueCache
from crdtsync.errors import NoSpace
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.peer.values import Intact, Spoilt
from tests.fleet.agent import Refusal
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host
from tests.fleet.snapshots import agree, trim
from tests.simulator.cuts import patiently

LONG = "x" * 5000


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with fleet_of("a", "b") as made:
        yield made


def entry_of(host: Host, key: str) -> Entry:
    (entry,) = host.replica.entries.held(key)
    return entry


def in_tables(host: Host) -> None:
    """Have everything in its table, and nothing in the cache."""
    host.store.settle()
    while host.store.has_backlog:
        host.store.bring_some_in()
    host.node.value_cache.clear()


def spoil(host: Host, key: str, value: bytes | None) -> None:
    """Write something else in the place of a value on disk; None: nothing at all."""
    in_tables(host)
    row = entry_of(host, key).row
    with closing(sqlite3.connect(host.store.path, isolation_level=None)) as db:
        if value is None:
            done = db.execute("DELETE FROM entry_values WHERE row = ?", (row,))
        else:
            done = db.execute("UPDATE entry_values SET value = ? WHERE row = ?", (value, row))
        assert done.rowcount == 1


# -- the cache -----------------------------------------------------------------------------------------------------


def test_the_cache_lets_go_of_what_nobody_has_read_for_longest() -> None:
    cache = ValueCache(3 * (100 + ROW_BYTES))
    for row in (1, 2, 3):
        cache.put(row, bytes([row]) * 100)
    assert cache.get(1) == b"\1" * 100
    cache.put(4, bytes(100))
    assert [row for row in (1, 2, 3, 4) if cache.get(row) is not None] == [1, 3, 4]
    cache.put(5, bytes(1000))  # more than it holds at all
    assert [row for row in range(6) if cache.get(row) is not None] == []
    assert cache.size_bytes == 0


@pytest.mark.parametrize("bytes_max", [0, 1, 500, 5000, 100_000])
def test_the_cache_counts_what_it_holds_and_keeps_its_bound(bytes_max: int) -> None:
    random, cache = Random(bytes_max), ValueCache(bytes_max)
    held: dict[int, bytes] = {}
    for _ in range(2000):
        row = random.randrange(50)
        if random.random() < 0.1:
            cache.drop(row)
        elif random.random() < 0.5:
            held[row] = random.randbytes(random.randrange(1000))
            cache.put(row, held[row])
        else:
            assert cache.get(row) in (None, held.get(row))
        there = [value for value in map(cache.get, range(50)) if value is not None]
        assert cache.size_bytes == sum(len(value) + ROW_BYTES for value in there) <= bytes_max


# -- what memory holds ---------------------------------------------------------------------------------------------


def test_memory_lets_go_of_a_long_value_once_it_is_on_disk(fleet: Fleet) -> None:
    ann = fleet["a"].agent()
    ann.write("set", key="long", value=pack(LONG))
    assert not entry_of(fleet["a"], "long").is_on_disk  # nor is it anywhere else yet
    fleet["a"].turn()
    ann.set("short", "x" * (MEMORY_BYTES_MAX - 3))
    assert not entry_of(fleet["a"], "short").is_on_disk
    for _ in range(2):
        long = entry_of(fleet["a"], "long")
        assert long.is_on_disk
        assert long.size_bytes == len(pack(LONG))
        fleet["a"].node.value_cache.clear()
        assert fleet["a"].agent().get("long") == LONG
        fleet["a"].restart()
    assert fleet["a"].node.value_cache.size_bytes == 0  # a start reads none of them


def test_what_was_overwritten_makes_room_in_the_cache(fleet: Fleet) -> None:
    ann, cache = fleet["a"].agent(), fleet["a"].node.value_cache
    for n in range(20):
        ann.set("k", [n, LONG])
        ann.do("add", key="set", value=pack([n, LONG]))
        if n:
            ann.do("discard", key="set", value=pack([n - 1, LONG]))
    assert cache.size_bytes < 3 * (len(LONG) + 10 + ROW_BYTES)
    history = ann.ask("history", key="k")["items"]
    assert [line["value"] for line in history] == [pack([n, LONG]) for n in reversed(range(20))]


def test_a_value_is_read_wherever_it_is(fleet: Fleet) -> None:
    """In the journal, in the backlog, in the tables; of a batch with as many rows, and of one with large values."""
    host = fleet["a"]
    ann = host.agent()
    ann.set("one", LONG)
    ops = [["set", {"key": f"many/{n:03}", "value": pack([n, LONG])}] for n in range(300)]
    ann.do("batch", ops=ops)
    assert host.store.has_backlog
    for _ in range(2):
        host.node.value_cache.clear()
        assert ann.get("one") == LONG
        for n in (0, 150, 299):
            assert ann.get(f"many/{n:03}") == [n, LONG]
        in_tables(host)
    ann.set("one", "another")  # what is gone is not asked for by its row any more
    assert ann.get("one") == "another"


def test_memory_remembers_what_went_until_its_rows_are_marked_and_no_longer(fleet: Fleet) -> None:
    """Large batches follow each other so soon that there is always something on its way."""
    host = fleet["a"]
    ann = host.agent()
    for n in range(12):
        ann.do("batch", ops=[["set", {"key": f"many/{each:03}", "value": pack(n)}] for each in range(300)])
        host.store.settle()
        while host.store.backlog_records > 7:
            host.store.bring_some_in()
    assert host.store.has_backlog
    assert sum(map(len, host.replica.past.unsaved.values())) <= 3 * 300
    assert len(host.store._backlog._seen) <= 3 * 300
    for name in ("many/000", "many/299"):
        told = ann.ask("history", key=name)["items"]
        assert [line["value"] for line in told] == [pack(n) for n in reversed(range(12))][: len(told)]
        assert len(told) >= 10
    in_tables(host)
    ann.set("x", 1)
    assert host.replica.past.unsaved == {}
    assert host.store._backlog._seen == {}


def test_a_refused_commit_leaves_what_is_on_disk(fleet: Fleet) -> None:
    ann = fleet["a"].agent()
    ann.set("k", LONG)
    ann.write("set", key="k", value=pack(LONG + "!"))
    fleet["a"].refuse(NoSpace("full"))
    assert ann.get("k") == LONG
    ann.set("other", LONG + "?")  # the row of what was refused
    assert (ann.get("k"), ann.get("other")) == (LONG, LONG + "?")


def test_every_kind_of_read_shows_long_values(fleet: Fleet) -> None:
    host = fleet["a"]
    ann = host.agent()
    ann.set("r", LONG)
    ann.append("log", LONG)
    ann.do("add", key="set", value=pack(LONG))
    ann.do("merge", key="map", fields={"field": pack(LONG)})
    ann.set("r", LONG + "2", seen=ann.version("r"))
    host.restart()
    ann = host.agent()
    assert ann.get("r") == LONG + "2"
    assert (ann.get("log"), ann.get("set"), ann.get("map")) == ([LONG], [LONG], {"field": LONG})
    scanned = {key: value for key, _, value, *_ in ann.ask("scan", values=True)["items"]}
    assert scanned["r"] == pack(LONG + "2")
    assert ann.ask("log", key="log")["items"][0][0] == pack(LONG)
    assert [line["value"] for line in ann.ask("history", key="r")["items"]] == [pack(LONG + "2"), pack(LONG)]
    ann.send("watch", states=True)
    host.turn()
    states = {event["key"]: event["value"] for event in ann.told() if event["event"] == "state"}
    assert states["r"] == pack(LONG + "2")


def test_a_log_of_many_long_values_is_read_in_few_queries(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    host = fleet["a"]
    ann = host.agent()
    for n in range(100):
        ann.write("append", key="log", value=pack([n, LONG]))
    host.turn()
    in_tables(host)
    monkeypatch.setattr(host.replica.values, "_read", lambda row: pytest.fail(f"row {row} is read by itself"))
    assert ann.get("log") == [[n, LONG] for n in range(100)]


# -- between nodes -------------------------------------------------------------------------------------------------


def test_a_snapshot_brings_long_values_and_its_taker_holds_none_in_memory(fleet: Fleet) -> None:
    first, second = fleet["a"], fleet["b"]
    ann = first.agent()
    for n in range(400):
        ann.set(f"k/{n:03}", [n, first.fleet.random.randbytes(3000)])
    in_tables(first)
    trim(first)
    fleet.link("a", "b")
    fleet.run(3)
    agree(fleet)
    assert all(entry.is_on_disk for entry in second.replica.entries.all())
    in_tables(second)
    assert second.agent().get("k/399") == ann.get("k/399")


def test_what_a_snapshot_gives_away_stays_until_it_is_given() -> None:
    """Keys are deleted while it is on its way, and history may keep nothing."""
    with fleet_of("a", "b", caps=Caps(history_bytes_max=300_000, history_age_ms_max=0)) as fleet:
        first = fleet["a"]
        ann = first.agent()
        for n in range(100):
            ann.set(f"k/{n:03}", fleet.random.randbytes(5000))
        trim(first)
        wire = fleet.link("a", "b")
        while not first.node.sync.snapshot_server.open_count():
            for end in wire.ends:
                wire.deliver(end)
            for host in fleet.machines.values():
                host.turn()
            fleet.pass_time(0.01)
        for n in range(50):
            ann.delete(f"k/{n:03}")
        first.node.value_cache.clear()
        fleet.run(5)
        agree(fleet)
        fleet.run(120)
        assert ann.ask("history", key="k/000")["items"] == []  # trimmed, once the snapshot was over


# -- damage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "left", [pack(LONG[:-1] + "y"), pack("short"), b"", None], ids=["bit", "short", "empty", "gone"]
)
def test_a_spoilt_value_is_mended_from_the_log(fleet: Fleet, left: bytes | None) -> None:
    host = fleet["a"]
    ann = host.agent()
    ann.set("k", LONG)
    spoil(host, "k", left)
    assert ann.get("k") == LONG
    host.turn()
    assert host.alarms == set()
    host.restart()
    trim(host)
    assert host.agent().get("k") == LONG


def spoil_short(host: Host, key: str, value: bytes) -> None:
    """The same of a value that stands in its entry's row: it is compared at the start."""
    in_tables(host)
    row = entry_of(host, key).row
    host.store.close()
    with closing(sqlite3.connect(host.store.path, isolation_level=None)) as db:
        assert db.execute("UPDATE entries SET value = ? WHERE row = ?", (value, row)).rowcount == 1
    host.open()


def test_a_short_value_that_is_spoilt_is_mended_from_the_log(fleet: Fleet) -> None:
    host = fleet["a"]
    host.agent().set("k", "ship it")
    host.agent().do("incr", key="counter", by=7)
    spoil_short(host, "k", pack("ship no"))
    assert host.agent().get("k") == "ship it"
    host.turn()
    assert host.alarms == set()
    host.restart()
    trim(host)
    host.restart()
    assert host.agent().get("k") == "ship it"
    assert host.agent().get("counter") == 7


def test_a_short_value_that_is_spoilt_for_good_is_told_and_not_shown(fleet: Fleet) -> None:
    host = fleet["a"]
    host.agent().set("k", "ship it")
    host.agent().set("good", 1)
    trim(host)
    spoil_short(host, "k", pack("ship no"))
    with pytest.raises(Refusal, match="damaged"):
        host.agent().get("k")
    assert host.agent().get("good") == 1
    assert host.alarms == {"value_damaged"}


def damaged(fleet: Fleet) -> Host:
    """A host that holds ``bad``, ``good`` and ``map``, and on whose disk ``bad`` and one field are spoilt for good."""
    host = fleet["a"]
    ann = host.agent()
    for key in ("bad", "good"):
        ann.set(key, LONG + key)
    trim(host)
    spoil(host, "bad", pack("nonsense" * 1000))
    return host


def test_a_value_that_is_spoilt_for_good_is_an_error_for_its_key_alone(fleet: Fleet) -> None:
    host = damaged(fleet)
    ann = host.agent()
    for request in ("get", "entry"):
        with pytest.raises(Refusal, match="damaged") as refusal:
            ann.ask(request, key="bad")
        assert refusal.value.code == "damaged_value"
        assert refusal.value.fields["key"] == "bad"
    assert ann.get("good") == LONG + "good"
    scanned = {key: value for key, _, value, *_ in ann.ask("scan", values=True)["items"]}
    assert scanned == {"bad": None, "good": pack(LONG + "good")}
    assert host.alarms == {"value_damaged"}
    with pytest.raises(Refusal, match="damaged"):
        ann.do("touch", key="bad", ttl=1000)
    ann.set("bad", "anew")
    assert ann.get("bad") == "anew"


def test_a_spoilt_value_is_handed_on_as_one_that_is_damaged(fleet: Fleet) -> None:
    host = damaged(fleet)
    (entry,) = host.replica.entries.held("bad")
    fleet.link("a", "b")
    fleet.run(5)
    held: Any = fleet["b"].agent()
    assert held.get("good") == LONG + "good"
    host.agent().set("later", 1)
    fleet.run(1)
    assert held.get("later") == 1
    for _ in range(2):
        with pytest.raises(Refusal, match="damaged"):
            held.ask("get", key="bad")
        assert fleet["b"].alarms == {"value_damaged"}
        fleet["b"].restart()
        held = fleet["b"].agent()
    with pytest.raises(Refusal, match="damaged"):
        held.ask("get", key="bad")
    value = pack(LONG + "bad")
    fleet["b"].node.sync.value_repair.came(fleet["b"].replica, Intact("default", 0, [("bad", entry.dot)], [value]))
    assert held.get("bad") == LONG + "bad"
    fleet["b"].restart()
    assert fleet["b"].agent().get("bad") == LONG + "bad"
    assert fleet["b"].alarms == set()


def test_a_schema_that_came_without_its_value_counts_when_that_has_come(fleet: Fleet) -> None:
    a, b = fleet["a"], fleet["b"]
    a.agent().do("schema_set", pattern="k/**", policy="lww")
    (key,) = a.replica.entries.keys("_schema/", hidden=True)
    (entry,) = a.replica.entries.held(key)
    dot, value = entry.dot, entry.value
    assert value is not None
    trim(a)
    spoil_short(a, key, pack("nonsense"))
    fleet.link("a", "b")
    fleet.run(5)
    assert len(b.replica.schemas) == 0
    b.node.sync.value_repair.came(b.replica, Intact("default", 0, [(key, dot)], [value]))
    fleet.run(1)
    assert len(b.replica.schemas) == 1
    assert b.alarms == set()


def test_a_spoilt_value_is_not_handed_on_as_a_purged_one(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """To an older version, which would take it for that."""
    takes = Link.takes
    monkeypatch.setattr(Link, "takes", lambda self, message: message is not Spoilt and takes(self, message))
    host = damaged(fleet)
    fleet.link("a", "b")
    fleet.run(15)
    assert [fields["space"] for event, fields in host.log if event == "snapshot_given_up"]
    assert fleet["b"].replica.entries.count == 0
    host.agent().set("bad", "anew")
    fleet.run(30)
    held: Any = fleet["b"].agent()
    assert (held.get("good"), held.get("bad")) == (LONG + "good", "anew")


@pytest.mark.parametrize("is_in_log", [True, False])
def test_a_spoilt_value_of_the_past_is_never_shown(is_in_log: bool) -> None:
    caps = DEFAULT_CAPS if is_in_log else DEFAULT_CAPS._replace(log_bytes_max=1000)
    with fleet_of("a", caps=caps) as fleet:
        host = fleet["a"]
        ann = host.agent("ann")
        ann.set("k", LONG)
        ann.set("other", 1)
        ann.do("checkpoint_set", name="before")
        fleet.run(2)
        row = entry_of(host, "k").row
        ann.set("k", "new")
        fleet.run(3)
        in_tables(host)
        with closing(sqlite3.connect(host.store.path, isolation_level=None)) as db:
            spoilt = pack(LONG.replace("x", "y"))
            assert db.execute("UPDATE entry_values SET value = ? WHERE row = ?", (spoilt, row)).rowcount == 1
        if is_in_log:
            assert unpack(patiently(ann, "get", key="k", at="checkpoint:before")["value"]) == LONG
        else:
            with pytest.raises(Refusal, match="damaged"):
                patiently(ann, "get", key="k", at="checkpoint:before")
            assert "value_damaged" in host.alarms
        assert unpack(patiently(ann, "get", key="other", at="checkpoint:before")["value"]) == 1
        assert [row[0] for row in patiently(ann, "scan", prefix="", at="checkpoint:before")["items"]] == ["k", "other"]
