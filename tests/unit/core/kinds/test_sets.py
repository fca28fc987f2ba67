"""Sets: an element is there if somebody added it and nobody who had seen that discarded it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.core.kinds import base
from crdtsync.core.kinds.sets import NAMED_BYTES_MAX, element_of, identity_of
from crdtsync.errors import InvalidRequest, InvalidValue, KindMismatch, TooLarge, VersionMismatch
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind
from tests.fleet.replicas import sites

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
SCALARS = st.none() | st.booleans() | NUMBERS | st.text() | st.binary()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=10
)


def test_adding_and_discarding():
    (a,) = sites("a")
    assert a.do("add", value="x") == {"added": True, "length": 1, "behind": False}
    assert a.do("add", value="x") == {"added": False, "length": 1, "behind": False}
    assert a.do("add", value={"b": 1, "a": [None]})["length"] == 2
    assert a.get() == ["x", {"b": 1, "a": [None]}]
    assert a.do("discard", value={"a": [None], "b": 1}) == {"existed": True, "length": 1, "behind": False}
    assert a.do("discard", value="y") == {"existed": False, "length": 1, "behind": False}
    assert a.do("discard", value="x")["length"] == 0
    assert a.get() is None


def test_elements_come_in_the_order_in_which_they_were_last_added():
    (a,) = sites("a")
    for value in "abcb":
        a.do("add", value=value)
    assert a.get() == ["a", "c", "b"]


def test_numbers_of_different_types_are_different_elements():
    (a,) = sites("a")
    assert [a.do("add", value=value)["length"] for value in (1, 1.0, True, "1", b"1")] == [1, 2, 3, 4, 5]


@given(VALUES, VALUES)
def test_two_values_are_one_element_if_they_are_one_value(one, other):
    assert (identity_of(pack(one)) == identity_of(pack(other))) == (repr(canonical(one)) == repr(canonical(other)))


def canonical(value):
    if isinstance(value, dict):
        return sorted((key, canonical(part)) for key, part in value.items()), "map"
    return [canonical(part) for part in value] if isinstance(value, list) else value


@given(VALUES)
def test_a_short_identity_spells_the_element_out(value):
    sub = identity_of(pack(value))
    if sub.startswith("="):
        spelled = element_of(sub)
        assert spelled is not None
        assert len(spelled) <= NAMED_BYTES_MAX
        assert identity_of(spelled) == sub
        assert repr(canonical(unpack(spelled))) == repr(canonical(value))
    else:
        assert element_of(sub) is None
        assert len(sub) == 33


def test_an_identity_is_as_written_down():
    assert identity_of(pack("x")) == "=oXg"
    assert identity_of(pack({"b": 1, "a": 2})) == identity_of(pack({"a": 2, "b": 1})) == "=gqFhAqFiAQ"
    assert identity_of(pack("x" * 190)).startswith("=")
    assert identity_of(pack("x" * 191)) == "#926df658ee0a080d686313f9512a3db4"


@pytest.mark.parametrize("sub", [None, "", "x", "=", "=*", "=a", "#00", "=ü"])
def test_what_spells_nothing_out(sub):
    assert not element_of(sub)


def test_adding_wins_over_discarding_at_once():
    a, b = sites("a", "b")
    a.do("add", value="x")
    a.sync(b)
    assert a.do("discard", value="x")["existed"]
    assert not b.do("add", value="x")["added"]
    a.sync(b)
    assert a.get() == b.get() == ["x"]


def test_one_element_added_at_once_is_one_element():
    a, b = sites("a", "b")
    a.do("add", value="x")
    b.do("add", value="x")
    a.sync(b)
    assert a.get() == b.get() == ["x"]
    assert a.ask("get")["siblings"] == 0
    assert a.do("add", value="y")["length"] == 2
    assert b.do("discard", value="x") == {"existed": True, "length": 0, "behind": False}
    a.sync(b)
    assert a.get() == ["y"]


def test_a_discard_removes_what_its_author_had_read():
    (a,) = sites("a")
    a.do("add", value="x")
    read = a.version()
    a.do("add", value="x")  # by somebody else, later
    assert a.do("discard", value="x", seen=read) == {"existed": False, "length": 1, "behind": False}
    assert a.do("discard", value="x", seen="?")["existed"] is False
    assert a.do("discard", value="x", seen=a.version())["existed"]
    assert a.get() is None


def test_a_discard_of_one_of_two_that_were_added_at_once():
    a, b = sites("a", "b")
    a.do("add", value="x")
    read = a.version()
    b.do("add", value="x")
    a.sync(b)
    assert a.do("discard", value="x", seen=read) == {"existed": True, "length": 1, "behind": False}
    assert a.get() == ["x"]


def test_own_additions_count_as_read_with_the_version_that_they_return():
    a, b = sites("a", "b")
    a.do("add", value="x")
    seen = a.do("add", value="y", seen=a.version())["version"]
    b.do("add", value="y")
    a.sync(b)
    assert a.do("discard", value="x", seen=seen)["existed"]
    assert a.do("discard", value="y", seen=seen) == {"existed": True, "length": 1, "behind": False}  # b's is left
    assert a.get() == ["y"]


def test_a_session_that_saw_everything_adds_thousands_and_still_knows_them():
    (a,) = sites("a")
    seen = a.do("add", value=-1, seen="?")["version"]
    for n in range(600):
        seen = a.do("add", value=n, seen=seen)["version"]
        assert len(seen) < 10_000
    for n in range(600):
        assert a.do("discard", value=n, seen=seen)["existed"], n
    assert a.get() == [-1]


def test_a_session_with_too_much_to_name_must_read_again():
    (a,) = sites("a")
    a.do("add", value="unseen")
    seen = a.do("add", value="x", seen="?")["version"]
    for n in range(300):
        reply = a.do("add", value=n, seen=seen)
        if "version" not in reply:
            break
        seen = reply["version"]
    assert n == 255
    assert not a.do("discard", value="unseen", seen=seen)["existed"]


def test_in_a_batch_later_operations_see_earlier_ones():
    (a,) = sites("a")
    a.do("add", value="x")
    ops = [("add", "x"), ("add", "y"), ("discard", "x"), ("add", "x"), ("discard", "y"), ("discard", "z")]
    results = a.do("batch", ops=[[name, {"key": "k", "value": pack(value)}] for name, value in ops])["results"]
    assert [result["length"] for result in results] == [1, 2, 1, 2, 1, 1]
    assert a.get() == ["x"]


def test_all_operations_of_a_batch_are_told_the_version_after_it():
    (a,) = sites("a")
    a.do("add", value="x")
    seen = a.version()
    ops = [["add", {"key": "k", "value": pack(value), "seen": seen}] for value in "yxz"]
    first, *others = [result["version"] for result in a.do("batch", ops=ops)["results"]]
    assert {first} == {*others}
    for value in "xyz":
        assert a.do("discard", value=value, seen=first)["existed"]


def test_an_element_that_cannot_be_stored():
    (a,) = sites("a")
    for bad, error in ((b"\xc1", InvalidValue), (None, InvalidRequest), (pack(float("inf")), InvalidValue)):
        for operation in ("add", "discard"):
            with pytest.raises(error):
                a.do("batch", ops=[[operation, {"key": "k", "value": bad}]])
    assert a.get() is None


@pytest.mark.parametrize("operation", ["add", "discard"])
def test_only_sets_have_elements(operation):
    (a,) = sites("a")
    a.do("append", value=1)
    with pytest.raises(KindMismatch):
        a.do(operation, value=1)


def test_the_length_counts_elements_alone_where_there_is_another_kind():
    a, b = sites("a", "b")
    b.do("merge", fields={"x": 1, "y": 2})
    b.do("drop", field="x")
    for value in range(3):
        a.do("add", value=value)
    a.sync(b)
    assert a.values() == [[0, 1, 2], {"y": 2}]
    assert a.do("add", value=3)["length"] == 4
    assert a.do("discard", value=0)["length"] == 3


def test_members_come_in_pages_with_their_authors():
    a, b = sites("a", "b")
    for n in range(5):
        (a, b)[n % 2].do("add", value=n)
    a.sync(b)
    page = a.ask("members", limit=2)
    assert (page["start"], page["length"], len(page["items"])) == (0, 5, 2)
    value, dot, agent, node, time = page["items"][1]
    rest = a.ask("members", start=2, previous=dot)
    assert [unpack(item[0]) for item in (*page["items"], *rest["items"])] == a.get()
    assert (agent, node, time) == ("b", "b", a.now_ms) or agent == "a"
    assert a.do("discard", value=unpack(value), seen=page["version"])["existed"]
    assert a.ask("members", "absent")["items"] == []
    a.do("set", "r", value=1)
    with pytest.raises(KindMismatch):
        a.ask("members", "r")


@pytest.mark.parametrize("bound, most", [("CHANGE_BYTES_MAX", 1000), ("ELEMENTS_MAX", 99)])
def test_a_long_set_is_read_in_parts(monkeypatch, bound, most):
    monkeypatch.setattr(base, bound, most)
    (a,) = sites("a")
    for n in range(100):
        a.do("add", value=f"{n:020}")
    for operation in ("get", "entry"):
        with pytest.raises(TooLarge, match="members"):
            a.ask(operation)
    assert len(a.ask("members")["items"]) == 100


def test_a_condition_on_a_long_set_is_refused_as_on_any(monkeypatch):
    (a,) = sites("a")
    a.do("add", value="x" * 500)
    read = a.version()
    a.do("add", value="y" * 500)
    monkeypatch.setattr(base, "CHANGE_BYTES_MAX", 700)
    with pytest.raises(VersionMismatch) as mismatch:
        a.do("add", value="z", if_version=read)
    assert (mismatch.value.current["kind"], mismatch.value.current["value"]) == ("set", None)


def test_a_scan_shows_short_sets(monkeypatch):
    (a,) = sites("a")
    a.do("add", value="x")
    assert a.ask("scan", values=True)["items"][0][:3] == ["k", "set", pack(["x"])]
    monkeypatch.setattr(base, "INLINE_BYTES_MAX", 1)
    assert a.ask("scan", values=True)["items"][0][:3] == ["k", "set", None]
    monkeypatch.setattr(base, "INLINE_BYTES_MAX", 99)
    monkeypatch.setattr(base, "INLINE_ENTRIES_MAX", 0)
    assert a.ask("scan", values=True)["items"][0][:3] == ["k", "set", None]


@pytest.mark.parametrize("value", [b"", b"\xc1", b"\x92\x01", b"\x01\x02", b"\xff" * 9], ids=repr)
def test_careless_elements_are_read_alike_everywhere(value):
    a, b = sites("a", "b")
    a.do("add", value="x")
    b.forge((None, Kind.SET, value), ("=nonsense", Kind.SET, value), ("", Kind.SET, value))
    a.sync(b)
    assert a.get() == b.get()
    assert sorted(map(repr, a.get())).count("'x'") == 1
    assert len(a.get()) == a.ask("members")["length"] == 4
    assert a.do("add", value="y")["added"]
    assert a.do("discard", value="x")["existed"]
    assert a.do("delete")["existed"]
    assert a.get() is None
