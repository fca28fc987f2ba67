"""Maps: every field is a register of its own."""

from __future__ import annotations

import pytest

from crdtsync.core.kinds import base
from crdtsync.errors import InvalidRequest, InvalidValue, KindMismatch, TooLarge, VersionMismatch
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import CHANGE_OPS_MAX, KEY_SIBLINGS_MAX
from tests.fleet.replicas import sites


def test_a_merge_writes_its_fields_and_leaves_the_others():
    (a,) = sites("a")
    assert a.do("merge", fields={"b": 1, "a": [2]}) == {"siblings": 0, "replaced": None, "behind": False}
    a.do("merge", fields={"c": None}, seen=a.version())
    assert a.get() == {"a": [2], "b": 1, "c": None}
    assert [*a.get()] == ["a", "b", "c"]
    assert a.ask("get")["kind"] == "map"
    assert len(a.changes) == 2


def test_a_blind_merge_replaces_the_winner_and_says_what_it_was():
    (a,) = sites("a")
    a.do("merge", fields={"x": 1, "y": 2})
    reply = a.do("merge", fields={"x": 3, "z": 4})
    assert {field: unpack(was["value"]) for field, was in reply["replaced"].items()} == {"x": 1}
    assert a.get() == {"x": 3, "y": 2, "z": 4}


def test_a_blind_merge_leaves_the_other_values_of_a_field():
    (a,) = sites("a")
    for value in (1, 2, 3):
        a.do("merge", fields={"x": value}, seen="?")
    assert a.do("merge", fields={"x": 4})["siblings"] == 2
    assert a.values() == [{"x": 4}, ("x", 2), ("x", 1)]


def test_different_fields_at_once_do_not_meet():
    a, b = sites("a", "b")
    a.do("merge", fields={"x": 1})
    b.do("merge", fields={"y": 2})
    a.sync(b)
    assert a.values() == b.values() == [{"x": 1, "y": 2}]


def test_one_field_at_once_keeps_both_values():
    a, b = sites("a", "b")
    a.do("merge", fields={"x": 1, "y": 1})
    b.do("merge", fields={"x": 2})
    a.sync(b)
    winner, (field, loser) = a.values()
    assert (a.values(), field, {winner["x"], loser}, winner["y"]) == (b.values(), "x", {1, 2}, 1)
    assert a.ask("get")["siblings"] == 1
    (row,) = a.ask("scan", values=True, conflicts=True)["items"]
    assert (unpack(row[2]), row[4]) == (winner, 1)
    (entry,) = a.ask("scan", values=True, conflicts=True, entries=True)["items"]
    assert [sibling["field"] for sibling in entry["siblings"]] == ["x"]


def test_a_key_without_conflict_is_none():
    (a,) = sites("a")
    a.do("merge", fields={"x": 1, "y": 1})
    assert a.ask("scan", conflicts=True)["items"] == []


def test_after_a_read_a_merge_supersedes_what_was_read_of_its_fields():
    a, b = sites("a", "b")
    a.do("merge", fields={"x": 1, "y": 1})
    read = a.version()
    b.do("merge", fields={"x": 2, "y": 2})
    a.sync(b)
    reply = a.do("merge", fields={"x": 3}, seen=read)
    assert (reply["siblings"], reply["replaced"]) == (1, None)
    assert a.values()[0]["x"] == 3
    assert ("x", 2) in a.values()
    reply = a.do("merge", fields={"x": 4, "y": 4}, seen=a.version())
    assert reply["siblings"] == 0
    assert a.values() == [{"x": 4, "y": 4}]


def test_a_get_covers_the_winners_alone():
    a, b = sites("a", "b")
    a.do("merge", fields={"x": 1})
    b.do("merge", fields={"x": 2})
    a.sync(b)
    loser = a.values()[1]
    assert a.do("merge", fields={"x": 3}, seen=a.ask("get")["version"])["siblings"] == 1
    assert a.values() == [{"x": 3}, loser]


def test_a_get_of_a_large_map_covers_the_winners_alone():
    a, b = sites("a", "b")
    a.do("merge", fields={f"{n}": n for n in range(2 * KEY_SIBLINGS_MAX)})
    b.do("merge", fields={"7": "seven"})
    a.do("merge", fields={"x": 1})
    b.do("merge", fields={"x": 1})
    a.sync(b)
    read = a.ask("get")["version"]
    losers = a.values()[1:]
    assert len(losers) == 2
    assert a.do("merge", fields={"7": 3, "x": 5, "9": 9}, seen=read)["siblings"] == 2
    assert sorted(a.values()[1:]) == sorted(losers)
    assert a.ask("fields", limit=5)["version"] == a.ask("get")["version"]
    assert a.do("delete", seen=read)["existed"]
    assert a.values() == [{"x": 5, "7": 3, "9": 9}]


def test_read_long_ago_makes_siblings():
    (a,) = sites("a")
    a.do("merge", fields={"x": 1, "y": 1})
    assert a.do("merge", fields={"x": 2}, seen="?")["siblings"] == 1
    assert a.values() == [{"x": 2, "y": 1}, ("x", 1)]


def test_own_merges_count_as_read_with_the_version_that_they_return():
    a, b = sites("a", "b")
    seen = a.do("merge", fields={"x": 1, "y": 1}, seen="?")["version"]
    b.do("merge", fields={"y": 2})
    a.sync(b)
    assert a.do("merge", fields={"x": 3, "y": 3}, seen=seen)["siblings"] == 1
    assert ("y", 2) in a.values() or a.values()[0]["y"] == 2


def test_dropping_a_field():
    (a,) = sites("a")
    a.do("merge", fields={"x": 1, "y": 1})
    assert a.do("drop", field="x") == {"existed": True, "behind": False}
    assert a.do("drop", field="x") == {"existed": False, "behind": False}
    assert a.get() == {"y": 1}
    a.do("drop", field="y")
    assert a.get() is None


def test_a_drop_removes_what_its_author_had_read():
    a, b = sites("a", "b")
    a.do("merge", fields={"x": 1})
    read = a.version()
    b.do("merge", fields={"x": 2})
    a.sync(b)
    assert a.do("drop", field="x", seen=read)["existed"]
    assert a.values() == [{"x": 2}]
    assert not a.do("drop", field="x", seen="?")["existed"]
    assert not a.do("drop", field="x", seen=read)["existed"]


def test_a_merge_survives_a_drop_and_a_delete_at_once():
    a, b, c = sites("a", "b", "c")
    a.do("merge", fields={"x": 1, "y": 1})
    a.sync(b, c)
    b.do("merge", fields={"x": 2})
    a.do("drop", field="x")
    c.do("delete")
    a.sync(b, c)
    assert a.values() == [{"x": 2}]


def test_in_a_batch_later_operations_see_earlier_ones():
    (a,) = sites("a")
    a.do("merge", fields={"x": 1, "y": 1})
    seen = a.version()
    ops = [
        ["merge", {"key": "k", "fields": {"x": pack(2)}, "seen": seen}],
        ["merge", {"key": "k", "fields": {"x": pack(3), "z": pack(3)}, "seen": seen}],
        ["drop", {"key": "k", "field": "y", "seen": seen}],
        ["merge", {"key": "k", "fields": {"z": pack(4)}}],
    ]
    *_, last = a.do("batch", ops=ops)["results"]
    assert unpack(last["replaced"]["z"]["value"]) == 3
    assert a.values() == [{"x": 3, "z": 4}]


def test_merges_of_a_batch_count_each_field_as_an_operation():
    (a,) = sites("a")
    fields = {f"{n}": pack(n) for n in range(CHANGE_OPS_MAX // 2 + 1)}
    with pytest.raises(TooLarge):
        a.do("batch", ops=[["merge", {"key": key, "fields": fields}] for key in ("k", "l")])
    assert a.get() is None
    with pytest.raises(TooLarge):
        a.do("merge", fields={f"{n}": n for n in range(CHANGE_OPS_MAX + 1)})
    a.do("merge", fields={f"{n}": n for n in range(CHANGE_OPS_MAX)})
    assert len(a.get()) == CHANGE_OPS_MAX


@pytest.mark.parametrize("fields", [None, [], {}, 5, {"": b"\x01"}, {"a\n": b"\x01"}, {"x" * 1025: b"\x01"}, {"x": 1}])
def test_fields_that_are_refused(fields):
    (a,) = sites("a")
    with pytest.raises(InvalidRequest):
        a.do("batch", ops=[["merge", {"key": "k", "fields": fields}]])


def test_a_value_that_is_refused():
    (a,) = sites("a")
    with pytest.raises(InvalidValue):
        a.do("batch", ops=[["merge", {"key": "k", "fields": {"x": b"\xc1"}}]])


@pytest.mark.parametrize("operation, args", [("merge", {"fields": {"x": 1}}), ("drop", {"field": "x"})])
def test_only_maps_have_fields(operation, args):
    (a,) = sites("a")
    a.do("set", value={"x": 1})
    with pytest.raises(KindMismatch):
        a.do(operation, **args)


def test_fields_come_in_pages():
    (a,) = sites("a")
    a.do("merge", fields={f"{n}": n for n in range(10)})
    page = a.ask("fields", limit=4)
    assert (page["length"], page["more"], [item[0] for item in page["items"]]) == (10, True, ["0", "1", "2", "3"])
    rest = a.ask("fields", start="3")
    assert (rest["more"], [unpack(item[1]) for item in rest["items"]]) == (False, [4, 5, 6, 7, 8, 9])
    assert a.ask("fields", "absent")["items"] == []


@pytest.mark.parametrize("bound, most", [("CHANGE_BYTES_MAX", 1000), ("ELEMENTS_MAX", 99)])
def test_a_long_map_is_read_in_parts(monkeypatch, bound, most):
    monkeypatch.setattr(base, bound, most)
    (a,) = sites("a")
    a.do("merge", fields={f"{n:020}": n for n in range(100)})
    with pytest.raises(TooLarge, match="fields"):
        a.ask("get")
    assert len(a.ask("fields")["items"]) == 100


@pytest.mark.parametrize("value", [b"", b"\xc1", b"\x92\x01", b"\x01\x02"], ids=repr)
def test_careless_fields_are_read_alike_everywhere(value):
    a, b = sites("a", "b")
    a.do("merge", fields={"x": 1})
    b.forge((None, Kind.MAP, value), ("bad", Kind.MAP, value), ("", Kind.MAP, value), ("a\n\0", Kind.MAP, 5))
    a.sync(b)
    assert a.get() == b.get() == {"x": 1, "bad": None, "": None, "a\n\0": 5}
    assert len(a.ask("fields")["items"]) == 4 - 1  # what has no name has no page
    assert a.do("merge", fields={"bad": 2})["replaced"]["bad"]["value"] is None
    assert a.get()["bad"] == 2


def test_a_field_that_is_there_already_refuses_the_whole_merge():
    (a,) = sites("a")
    a.do("merge", fields={"x": 1}, if_field_absent=True)
    a.do("merge", fields={"y": 2}, if_field_absent=True)
    with pytest.raises(VersionMismatch, match="has the field 'x' already") as refused:
        a.do("merge", fields={"z": 3, "x": 4}, if_field_absent=True)
    assert refused.value.details["field"] == "x"
    assert unpack(refused.value.current["value"]) == a.get() == {"x": 1, "y": 2}
    a.do("drop", field="x")
    a.do("merge", fields={"x": 5}, if_field_absent=True)
    assert a.get() == {"x": 5, "y": 2}


def test_a_batch_sees_the_fields_that_it_wrote_before():
    (a,) = sites("a")
    taken = ["merge", {"key": "k", "fields": {"x": pack(1)}, "if_field_absent": True}]
    with pytest.raises(VersionMismatch):
        a.do("batch", ops=[taken, taken])
    assert a.get() is None
