"""Resolving: one value in place of all that its author had seen; two at once never lose what they chose."""

from __future__ import annotations

import pytest
from pycrdt import Doc, Text

from crdtsync.core.crdt.read_context import NotYet
from crdtsync.errors import InvalidRequest, KindMismatch, TooLarge, TooManySiblings, VersionMismatch
from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import CHANGE_OPS_MAX, KEY_SIBLINGS_MAX
from tests.fleet.replicas import Site, sites


def conflict_of_registers() -> tuple[Site, Site]:
    """Two sites that hold 1 and 2 as siblings."""
    a, b = sites("a", "b")
    a.do("set", value=1)
    b.do("set", value=2)
    a.sync(b)
    return a, b


def dot_of(site: Site, value: object, key: str = "k") -> str:
    """The dot of the sibling that has this value."""
    return site.dots(key)[site.values(key).index(value)]


def write_text(site: Site, text: str, key: str = "k") -> None:
    """A text of its own, whatever there is."""
    doc: Doc[Text] = Doc()
    doc["text"] = Text(text)
    site.do("text_apply", key, update=doc.get_update())


FIRST_WRITES = {
    "register": lambda site: site.do("set", value=f"of {site.name}"),
    "counter": lambda site: [site.do("incr", by=by) for by in (5, -2)],
    "counter that was reset": lambda site: [site.do("incr"), site.do("reset"), site.do("incr", by=4)],
    "set": lambda site: [site.do("add", value=value) for value in ("x", "y" * 300, site.name)],
    "map": lambda site: site.do("merge", fields={"x": site.name, "y": [2]}),
    "log": lambda site: [site.do("append", value=value) for value in "abc"],
    "text": lambda site: write_text(site, f"Hallo {site.name}"),
}


@pytest.mark.parametrize("value", [1, 2])
def test_taking_one_value_leaves_it_alone(value):
    a, b = conflict_of_registers()
    assert a.do("resolve", take=dot_of(a, value))["resolved"] == 1
    a.sync(b)
    assert a.values() == b.values() == [value]


def test_writing_a_new_value_leaves_it_alone():
    a, b = conflict_of_registers()
    reply = a.do("resolve", value=3)
    assert reply["resolved"] == 2
    a.sync(b)
    assert a.values() == b.values() == [3]
    assert a.do("set", value=4, seen=reply["version"])["siblings"] == 0


def test_opposite_resolutions_at_once_are_siblings_again():
    a, b = conflict_of_registers()
    a.do("resolve", take=dot_of(a, 1))
    b.do("resolve", take=dot_of(b, 2))
    a.sync(b)
    assert sorted(a.values()) == sorted(b.values()) == [1, 2]


@pytest.mark.parametrize("one", FIRST_WRITES)
@pytest.mark.parametrize("other", FIRST_WRITES)
def test_whatever_is_taken_stays_what_it_was_and_opposite_resolutions_lose_neither(one, other):
    a, b, c = sites("a", "b", "c")
    FIRST_WRITES[one](a)
    FIRST_WRITES[other](b)
    at_a, at_b = a.get(), b.get()
    a.sync(b)
    c.sync(a)
    if len(a.values()) == 1:
        assert one.partition(" ")[0] == other.partition(" ")[0]
        assert one.startswith(("counter", "set", "log"))
        return
    if one == other == "map":
        assert [type(value) for value in a.values()] == [dict, tuple, tuple]
        return
    assert len(a.values()) == 2
    assert a.ask("get")["siblings"] == 1
    wins, loses = a.values()
    assert at_a in (wins, loses)
    assert at_b in (wins, loses)
    for value in (wins, loses):
        alone = Site("alone")
        alone.sync(c)
        assert alone.do("resolve", take=dot_of(alone, value))["resolved"] == 1
        assert alone.values() == [value]
    a.do("resolve", take=dot_of(a, wins))
    b.do("resolve", take=dot_of(b, loses))
    a.sync(b)
    assert a.replica.entries.digest == b.replica.entries.digest
    assert sorted(map(repr, a.values())) == sorted(map(repr, (wins, loses)))


def test_a_counter_that_was_taken_counts_on_from_all_sides():
    a, b, c = sites("a", "b", "c")
    a.do("incr", by=10)
    b.do("incr", by=5)
    a.sync(b)
    c.do("set", value="x")
    a.sync(c)
    b.do("incr", by=1)  # at the same time
    a.do("resolve", take=dot_of(a, 15))
    a.sync(b, c)
    a.sync(b)
    assert a.values() == b.values() == c.values() == [16]
    assert [site.do("incr")["value"] for site in (a, b, c)] == [17, 17, 17]
    a.sync(b, c)
    a.sync(b, c)
    assert a.get() == b.get() == c.get() == 19
    assert c.do("reset")["value"] == 19
    a.sync(c)
    b.sync(a)
    assert b.do("incr", by=2)["value"] == 2


def test_a_counter_taken_on_two_sites_at_once_counts_once():
    a, b, c = sites("a", "b", "c")
    a.do("incr", by=10)
    a.do("reset")
    a.do("incr", by=3)
    c.do("set", value="x")
    a.sync(b, c)
    b.sync(c)
    a.sync(b)
    for site in (a, b):
        site.do("resolve", take=dot_of(site, 3))
    a.sync(b)
    assert a.values() == b.values() == [3]


def test_taking_a_losing_field_resolves_that_field_alone():
    a, b = sites("a", "b")
    a.do("merge", fields={"x": 1, "y": 1, "z": 1})
    b.do("merge", fields={"x": 2, "y": 2})
    a.sync(b)
    winner, *losers = a.values()
    assert len(losers) == 2
    field, value = losers[0]
    reply = a.do("resolve", take=a.dots()[1])
    assert reply["resolved"] == 1
    assert a.values() == [{**winner, field: value}, losers[1]]
    a.sync(b)
    assert a.values() == b.values()


def test_taking_a_map_resolves_its_fields():
    a, b = sites("a", "b")
    a.do("merge", fields={f"{n}": n for n in range(CHANGE_OPS_MAX)})
    a.do("merge", fields={"x": 1})
    b.do("merge", fields={"5": -5, "6": -6})
    a.sync(b)
    winner, *_ = a.values()
    assert a.do("resolve", take=a.dots()[0])["resolved"] == 2
    assert a.values() == [winner]
    assert len(a.changes[-1].ops) == 2


def test_opposite_resolutions_of_a_field_are_siblings_again():
    a, b = sites("a", "b")
    a.do("merge", fields={"x": 1})
    b.do("merge", fields={"x": 2})
    a.sync(b)
    a.do("resolve", take=a.dots()[0])
    b.do("resolve", take=b.dots()[1])
    a.sync(b)
    (winner, (field, loser)) = a.values()
    assert (field, {winner["x"], loser}) == ("x", {1, 2})


def test_one_value_is_nothing_to_resolve():
    (a,) = sites("a")
    a.do("set", value=1)
    assert a.do("resolve", take=a.dots()[0]) == {"resolved": 0, "version": a.version()}
    assert a.do("resolve", value=2)["resolved"] == 1
    assert a.values() == [2]
    assert a.do("resolve", "new", value=3)["resolved"] == 0
    assert a.values("new") == [3]
    assert len(a.changes) == 3


def test_what_its_author_had_not_seen_stays():
    a, b = conflict_of_registers()
    read = a.version()
    b.do("set", value=3, seen="?")
    a.sync(b)
    assert a.do("resolve", take=dot_of(a, 1), seen=read)["resolved"] == 1
    assert sorted(a.values()) == [1, 3]
    assert a.do("resolve", value=4, seen=a.version())["resolved"] == 2
    assert a.values() == [4]


def test_a_dot_names_what_was_seen():
    """Of a value whose dot somebody knows, the version need not tell."""
    a, _ = conflict_of_registers()
    read = a.version()
    a.do("set", value=3, seen="?")
    assert a.do("resolve", take=dot_of(a, 3), seen=read)["resolved"] == 2
    assert a.values() == [3]


def test_what_was_added_to_a_log_since_the_read_stays_in_it():
    a, b = sites("a", "b")
    a.do("append", value=1)
    b.do("set", value="x")
    a.sync(b)
    read, dot = a.version(), dot_of(a, [1])
    if a.values()[0] != [1]:
        a.do("delete", seen=a.ask("get")["version"])
        return
    a.do("append", value=2)
    a.do("resolve", take=dot, seen=read)
    assert [sorted(value) for value in a.values()] == [[1, 2]]


def test_a_dot_that_is_gone_and_one_that_has_not_come():
    a, b = conflict_of_registers()
    gone = dot_of(a, 1)
    a.do("resolve", value=3)
    with pytest.raises(VersionMismatch) as mismatch:
        a.do("resolve", take=gone)
    assert mismatch.value.current["value"] == pack(3)
    b.do("set", value=4)
    with pytest.raises(NotYet):
        a.do("resolve", take=b.dots()[0])


@pytest.mark.parametrize("args", [{}, {"take": "1.1.0", "value": 1}, {"value": 1, "merge": True}, {"merge": False}])
def test_exactly_one_way(args):
    a, _ = conflict_of_registers()
    with pytest.raises(InvalidRequest, match="exactly one"):
        a.do("resolve", **args)


def test_what_was_read_too_long_ago_is_not_resolved():
    a, _ = conflict_of_registers()
    with pytest.raises(InvalidRequest, match="long ago"):
        a.do("resolve", value=1, seen="?")


def test_only_some_kinds_can_be_joined():
    a, b = conflict_of_registers()
    with pytest.raises(KindMismatch, match="register"):
        a.do("resolve", merge=True)
    a.do("append", "l", value=1)
    b.do("add", "l", value=1)
    a.sync(b)
    with pytest.raises(KindMismatch, match="log and set"):
        a.do("resolve", "l", merge=True)
    assert a.do("resolve", "absent", merge=True)["resolved"] == 0


def test_a_value_of_too_many_parts_is_not_taken():
    a, b = sites("a", "b")
    for n in range(CHANGE_OPS_MAX + 1):
        a.do("append", value=n)
    b.do("set", value="x")
    a.sync(b)
    elements = [*range(CHANGE_OPS_MAX + 1)]
    with pytest.raises(TooLarge, match="write one"):
        a.do("resolve", take=dot_of(a, elements))
    assert a.do("resolve", take=dot_of(a, "x"), seen=a.version())["resolved"] == 1
    assert a.values() == ["x"]


def test_resolving_by_a_few_leaves_no_more_than_a_key_may_have():
    (a,) = sites("a")
    versions = [a.do("set", value=n, seen="?")["version"] for n in range(KEY_SIBLINGS_MAX)]
    with pytest.raises(TooManySiblings):
        a.do("resolve", value=-1, seen="v1.kwAAkA")
    assert a.do("resolve", value=-1, seen=versions[5])["resolved"] == 1
    assert len(a.values()) == KEY_SIBLINGS_MAX


def test_a_resolver_that_was_shown_some_of_too_many_values_is_not_refused():
    """Two hosts have filled a key each: a resolution makes it fewer, whatever it was shown."""
    a, b = sites("a", "b")
    versions = [a.do("set", value=n, seen="?")["version"] for n in range(KEY_SIBLINGS_MAX)]
    for n in range(KEY_SIBLINGS_MAX):
        b.do("set", value=100 + n, seen="?")
    a.sync(b)
    assert a.do("resolve", value=-1, seen=versions[5])["resolved"] == 1
    assert len(a.values()) == 2 * KEY_SIBLINGS_MAX


def test_in_a_batch():
    a, b = conflict_of_registers()
    ops = [["resolve", {"key": "k", "take": dot_of(a, 1)}], ["set", {"key": "k", "value": pack(5)}]]
    first, second = a.do("batch", ops=ops)["results"]
    assert (first["resolved"], second["siblings"]) == (1, 0)
    ops = [["resolve", {"key": "k", "value": pack(7)}], ["append", {"key": "k", "value": pack(5)}]]
    with pytest.raises(KindMismatch):
        a.do("batch", ops=ops)
    a.sync(b)
    assert b.values() == [5]


def test_a_batch_that_leaves_two_kinds_shows_them_apart():
    """A log that was not read stays beside the new register."""
    a, b = sites("a", "b")
    for n in range(3):
        a.do("append", value=n)
    b.do("set", value="x")
    read = b.version()
    a.sync(b)
    ops = [["resolve", {"key": "k", "value": pack(5), "seen": read}], ["set", {"key": "k", "value": pack(6)}]]
    first, second = b.do("batch", ops=ops)["results"]
    assert first["resolved"] == 1
    assert second["replaced"]["value"] == pack(5)
    assert b.values() == [6, [0, 1, 2]]


def test_taking_a_field_leaves_entries_of_other_kinds_alone():
    a, b = sites("a", "b")
    a.do("merge", fields={"x": 1})
    b.forge(("x", Kind.SET, 5), ("x", Kind.MAP, 2))
    a.sync(b)
    place = next(n for n, value in enumerate(a.values()) if isinstance(value, tuple))
    assert a.do("resolve", take=a.dots()[place])["resolved"] == 1
    assert [5] in a.values()


def test_purged_values_are_not_taken():
    a, b = conflict_of_registers()
    for site in (a, b):
        for entry in site.replica.entries.held("k"):
            entry.value = None
    with pytest.raises(InvalidRequest, match="purged"):
        a.do("resolve", take=a.dots()[1])
    assert len(a.dots()) == 2


def test_hostile_entries_are_resolved_like_any():
    a, b = sites("a", "b")
    a.do("set", value=1)
    b.forge(
        (None, Kind.MAP, b"\xc1"), ("x", Kind.MAP, 1), ("x", Kind.MAP, 2), (None, Kind.COUNTER, b""), ("", Kind.SET, 1)
    )
    a.sync(b)
    assert a.values() == b.values()
    for take in a.dots():
        alone = Site("alone")
        alone.sync(a)
        alone.do("resolve", take=take)
        assert len(alone.values()) < len(a.values())


@pytest.mark.parametrize("kind", [name for name in FIRST_WRITES if name != "register"])
def test_a_value_of_another_kind_takes_the_place_of_a_conflict_only(kind):
    (a,) = sites("a")
    FIRST_WRITES[kind](a)
    before = a.values()
    with pytest.raises(KindMismatch, match="without a conflict"):
        a.do("resolve", value=1)
    assert a.values() == before
