"""Logs: what a session knows of one after its own appends. What appends and trims do is in ``test_writes``."""

from __future__ import annotations

from tests.fleet.replicas import sites


def test_a_session_that_saw_everything_appends_thousands_and_still_knows_them():
    (a,) = sites("a")
    a.do("append", value=-1)
    seen = a.version()
    for n in range(600):
        seen = a.do("append", value=n, seen=seen)["version"]
        assert len(seen) < 10_000
    assert a.do("delete", seen=seen)["existed"]
    assert a.get() is None


def test_what_others_append_meanwhile_is_not_covered():
    a, b = sites("a", "b")
    a.do("append", value=0)
    seen = a.version()
    b.do("append", value="unseen")
    for n in range(100):
        seen = a.do("append", value=n, seen=seen)["version"]
    a.sync(b)
    a.do("delete", seen=seen)
    assert "unseen" in a.get()


def test_a_session_with_too_much_to_name_must_read_again():
    a, b = sites("a", "b")
    a.do("append", value=0)
    seen = a.version()
    b.do("append", value="unseen")
    a.sync(b)
    for _ in range(255):
        seen = a.do("append", value=1, seen=seen)["version"]
    assert "version" not in a.do("append", value=2, seen=seen)
    a.do("delete", seen=seen)
    assert sorted(a.get(), key=str) == [2, "unseen"]


def test_all_appends_of_a_batch_are_told_the_version_after_it():
    (a,) = sites("a")
    a.do("append", value=0)
    ops = [["append", {"key": "k", **a.packed({"value": n}), "seen": a.version()}] for n in range(3)]
    first, *others = [result["version"] for result in a.do("batch", ops=ops)["results"]]
    assert {first} == {*others} == {a.version()}
