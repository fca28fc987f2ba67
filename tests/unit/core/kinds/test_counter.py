"""Counters: every increment counts once, and a reset takes off what it had seen."""

from __future__ import annotations

import pytest

from crdtsync.core.crdt.entry import Entry
from crdtsync.core.kinds.counter import INCREMENT_MAX, TOTAL_MAX, Tally
from crdtsync.errors import InvalidRequest, KindMismatch, TooLarge, VersionMismatch
from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from tests.fleet.replicas import Site, sites


def counted(site: Site) -> int:
    """How many entries the counter has."""
    return len(site.replica.entries.held("k"))


def test_increments_of_one_site_add_up_in_one_entry():
    (a,) = sites("a")
    assert [a.do("incr", by=by)["value"] for by in (1, 5, -2, 0)] == [1, 6, 4, 4]
    assert a.do("incr") == {"value": 5, "behind": False}
    assert (a.get(), counted(a)) == (5, 1)


def test_increments_of_several_sites_all_count():
    a, b, c = sites("a", "b", "c")
    for site, by in ((a, 3), (b, 10), (c, -1), (a, 4)):
        site.do("incr", by=by)
    a.sync(b, c)
    b.sync(c)
    assert a.get() == b.get() == c.get() == 16
    assert a.ask("get") == {**a.ask("get"), "kind": "counter", "siblings": 0}
    assert counted(a) == 3


def test_the_name_is_the_dot_of_the_first_increment():
    (a,) = sites("a")
    first = a.do("incr", seen=None)
    dot = a.dots()[0]
    a.do("incr")
    a.do("incr")
    (entry,) = a.replica.entries.held("k")
    assert (entry.sub, first["value"]) == (dot, 1)


def test_a_reset_says_what_it_was_and_starts_from_nothing():
    a, b = sites("a", "b")
    a.do("incr", by=7)
    b.do("incr", by=5)
    a.sync(b)
    assert a.do("reset")["value"] == 12
    assert a.get() == 0
    assert a.do("incr", by=2)["value"] == 2
    a.sync(b)
    assert b.get() == 2


def test_an_increment_that_a_reset_had_not_seen_stays():
    a, b = sites("a", "b")
    a.do("incr", by=7)
    a.sync(b)
    b.do("incr", by=5)
    a.do("incr", by=100)
    a.do("reset")
    a.sync(b)
    assert a.get() == b.get() == 5


def test_two_resets_at_once_take_off_what_both_saw_once():
    a, b, c = sites("a", "b", "c")
    a.do("incr", by=7)
    a.sync(b, c)
    b.do("incr", by=5)
    b.sync(c)
    assert a.do("reset")["value"] == 7
    assert c.do("reset")["value"] == 12
    b.do("incr", by=1)
    a.sync(b, c)
    a.sync(b)
    assert a.get() == b.get() == c.get() == 1


@pytest.mark.parametrize("ahead", ["b", "c"])
def test_of_two_resets_at_once_the_one_that_saw_more_counts(ahead):
    a, b, c = sites("a", "b", "c")
    {"b": b, "c": c}[ahead].now_ms += 1000
    a.do("incr", by=7)
    a.sync(b)
    a.do("incr", by=5)
    a.sync(c)
    assert b.do("reset")["value"] == 7
    assert c.do("reset")["value"] == 12
    a.do("incr", by=1)
    orders = [Site("late"), Site("later")]
    for late, (first, second) in zip(orders, ((b, c), (c, b)), strict=True):
        late.sync(first)
        late.sync(second)
        late.sync(a)
        assert late.get() == 1
        assert late.do("reset")["value"] == 1


def test_a_total_that_was_deleted_is_not_counted_on_under_its_name():
    """Others may hold a copy that is behind, and one that is ahead: each name only ever grows."""
    w, r, s, x = sites("w", "r", "s", "x")
    x.do("set", value="x")
    w.do("incr", by=10)
    for site in (r, s):
        site.sync(w, x)
    w.do("incr", by=2)
    s.take(w.changes)
    x.take(w.changes)
    for site in (r, s):
        counter = next(dot for dot, value in zip(site.dots(), site.values(), strict=True) if value != "x")
        site.do("resolve", take=counter)
    x.do("delete")
    w.take(x.changes)
    w.take(r.changes)
    assert w.values() == [10]
    assert w.do("incr")["value"] == 11
    s.sync(w)
    assert s.get() == 13


def test_a_reset_of_nothing_writes_nothing():
    (a,) = sites("a")
    assert a.do("reset") == {"value": 0, "behind": False}
    assert a.get() is None
    a.do("incr")
    a.do("reset")
    before = len(a.changes)
    assert a.do("reset", seen=a.version())["version"] == a.version()
    assert len(a.changes) == before


def test_a_reset_of_ups_and_downs_that_come_to_nothing_takes_them_off():
    a, b = sites("a", "b")
    a.do("incr", by=5)
    a.sync(b)
    a.do("incr", by=-5)
    a.do("reset")
    a.sync(b)
    assert a.get() == b.get() == 0
    assert a.do("incr", by=3)["value"] == 3


def test_the_record_of_resets_stays_small_while_one_site_counts_and_resets():
    (a,) = sites("a")
    for _ in range(50):
        a.do("incr", by=3)
        assert a.do("reset")["value"] == 3
    assert counted(a) == 2
    assert max(len(entry.value or b"") for entry in a.replica.entries.held("k")) < 40


def test_whose_entry_was_deleted_starts_under_a_new_name():
    a, b = sites("a", "b")
    a.do("incr", by=7)
    a.sync(b)
    b.do("delete")
    a.sync(b)
    assert a.get() is None
    assert a.do("incr", by=2)["value"] == 2
    a.sync(b)
    assert b.get() == 2


def test_a_reset_on_a_condition():
    a, b = sites("a", "b")
    a.do("incr")
    version = a.version()
    b.do("incr")
    a.sync(b)
    with pytest.raises(VersionMismatch):
        a.do("reset", if_version=version)
    assert a.get() == 2
    assert a.do("reset", if_version=a.version())["value"] == 2


def test_what_a_fork_has_counted_counts_once_however_often_it_is_written():
    a, b = sites("a", "b")
    a.do("incr", by=100)
    a.sync(b)
    for site, totals in ((a, [5, 1]), (a, [5, 1]), (b, [5, 3]), (b, [4, 2])):
        site.do("incr", totals=["fork:x", *totals])
    b.do("incr", totals=["fork:y", 0, 7])
    assert (a.get(), b.get()) == (104, 95)
    a.sync(b)
    assert a.get() == b.get() == 95
    assert a.do("incr", totals=["fork:x", 6, 3]) == {"value": 96, "behind": False}
    a.do("reset")
    names = a.ask("get", names=True)["names"]
    assert {name: names[name] for name in ("fork:x", "fork:y")} == {"fork:x": [6, 3, 6, 3], "fork:y": [0, 7, 0, 7]}
    assert [a.do("incr", totals=["fork:x", up, 3])["value"] for up in (5, 8)] == [0, 2]
    assert "names" not in a.ask("get")


@pytest.mark.parametrize(
    "totals",
    [None, [], "fork:x", ["1.1.0", 1, 0], ["reset", 1, 0], ["fork:x", 1], ["fork:x", -1, 0], ["fork:x", 1, True],
     ["fork:x", 1, 1 << 63], ["fork:x", 1, 0, 0], [b"fork:x", 1, 0]],
)  # fmt: skip
def test_totals_that_are_refused(totals):
    (a,) = sites("a")
    with pytest.raises(InvalidRequest, match="totals must be"):
        a.do("incr", totals=totals)
    assert a.get() is None


def test_a_version_after_an_increment_covers_what_was_read_and_the_increment():
    a, b = sites("a", "b")
    a.do("incr")
    b.do("incr")
    a.sync(b)
    reply = a.do("incr", seen=a.version())
    assert a.do("reset", if_version=reply["version"])["value"] == 3
    assert "version" not in a.do("incr")


def test_in_a_batch_later_operations_see_earlier_ones():
    (a,) = sites("a")
    a.do("incr", by=10)
    ops = [("incr", {"by": 5}), ("reset", {}), ("incr", {"by": 2}), ("incr", {"by": 2}), ("delete", {}), ("incr", {})]
    results = a.do("batch", ops=[[name, {"key": "k", **args}] for name, args in ops])["results"]
    assert [result.get("value") for result in results] == [15, 15, 2, 4, None, 1]
    assert a.get() == 1


@pytest.mark.parametrize("by", [1.0, "1", True, None, INCREMENT_MAX + 1, -INCREMENT_MAX - 1])
def test_steps_that_are_refused(by):
    (a,) = sites("a")
    with pytest.raises(InvalidRequest):
        a.do("incr", by=by)
    assert a.get() is None


def test_a_counter_never_leaves_64_bits():
    (a,) = sites("a")
    for _ in range(1023):
        a.do("incr", by=INCREMENT_MAX)
    with pytest.raises(TooLarge):
        a.do("incr", by=INCREMENT_MAX)
    assert a.do("reset")["value"] == 1023 * INCREMENT_MAX
    assert a.do("incr", by=-1)["value"] == -1


@pytest.mark.parametrize("operation", ["incr", "reset"])
def test_only_counters_count(operation):
    (a,) = sites("a")
    a.do("set", value=1)
    with pytest.raises(KindMismatch):
        a.do(operation)


HOSTILE = [
    b"",
    b"\xc1",
    pack(None),
    pack(5),
    pack([]),
    pack([1]),
    pack([1, 2, 3]),
    pack([-1, 1]),
    pack([1, -1]),
    pack([True, 1]),
    pack([1.0, 1]),
    pack(["1", 1]),
    pack([2**63, 0]),
    pack([0, 2**64 - 1]),
    pack([1, 1]) + b"\x00",
    pack([[]] * 100),
    pack({"a": 1}),
    b"\x92" * 500,
]


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_careless_totals_count_as_nothing(value):
    a, b = sites("a", "b")
    a.do("incr", by=3)
    b.forge((None, Kind.COUNTER, value), ("1.2.3", Kind.COUNTER, value), ("reset", Kind.COUNTER, value))
    a.sync(b)
    assert a.get() == b.get() == 3
    assert b.do("incr")["value"] == 4
    assert b.do("reset")["value"] == 4
    a.sync(b)
    assert a.get() == b.get() == 0


RECORDS = [{"x": [1, 1]}, {"": [2**63, 1]}, {"1.1.0": "no"}, {"reset": [1, 1]}, {f"{n}": [n, n] for n in range(999)}]


@pytest.mark.parametrize("record", RECORDS, ids=range(len(RECORDS)))
def test_careless_records_of_resets_take_nothing_off(record):
    a, b = sites("a", "b")
    a.do("incr", by=3)
    b.forge(("reset", Kind.COUNTER, record))
    a.sync(b)
    assert a.get() == b.get() == 3


def test_a_record_of_more_than_was_counted_does_not_swallow_what_comes():
    a, b = sites("a", "b")
    a.do("incr", by=3)
    b.forge(("reset", Kind.COUNTER, {a.dots()[0]: [1000, 5]}))
    a.sync(b)
    assert a.get() == 0
    assert a.do("incr", by=2)["value"] == 2
    assert a.do("incr", by=-4)["value"] == -2
    a.sync(b)
    assert b.get() == -2


def test_a_record_of_some_ups_and_too_many_downs_does_not_swallow_what_comes():
    a, b = sites("a", "b")
    a.do("incr", by=3)
    b.forge(("reset", Kind.COUNTER, {a.dots()[0]: [1, 5]}))
    a.sync(b)
    assert a.get() == 2
    assert [a.do("incr", by=by)["value"] for by in (-4, -1, 10)] == [-2, -3, 7]


def test_huge_totals_of_many_stay_within_64_bits():
    a, b = sites("a", "b")
    b.forge(*[(f"{n}.1.0", Kind.COUNTER, [TOTAL_MAX, 0]) for n in range(1, 9)])
    a.sync(b)
    assert a.get() == b.get() == TOTAL_MAX
    with pytest.raises(TooLarge):
        a.do("incr")
    assert a.do("reset")["value"] == TOTAL_MAX
    assert a.do("incr", by=-1)["value"] == -1


def test_a_tally_forgets_what_goes():
    a, b = sites("a", "b")
    a.do("incr", by=4)
    a.do("reset")
    a.do("incr", by=-2)
    b.forge(("5.5.5", Kind.COUNTER, [3, 1]), ("reset", Kind.COUNTER, {"5.5.5": [2, 1]}), (None, Kind.REGISTER, 1))
    a.sync(b)
    entries: list[Entry] = a.replica.entries.held("k")
    tally, wanted = Tally(), []
    for entry in entries:
        wanted.append(tally.value)
        tally.add(entry)
    assert tally.value == -1
    for entry in reversed(entries):
        tally.remove(entry)
        assert tally.value == wanted.pop()
    assert not tally.record()
    assert not any(getattr(tally, slot) for slot in Tally.__slots__)
