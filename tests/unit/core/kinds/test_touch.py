"""Touching a register: another time to live, and nothing else."""

from __future__ import annotations

import pytest

from crdtsync.errors import KindMismatch, VersionMismatch
from crdtsync.wire.codec import pack, unpack
from tests.fleet.replicas import sites


def test_it_lives_for_so_long_from_now_on(node):
    ann = node.agent("ann")
    ann.set("k", {"n": 1}, ttl=1000, confidence=0.5, meta=pack({"why": "x"}))
    for _ in range(5):
        node.fleet.pass_time(0.9)
        assert node.agent("bob").do("touch", key="k", ttl=1000)["existed"]
    entry = ann.ask("entry", key="k")
    assert (unpack(entry["value"]), entry["confidence"], unpack(entry["meta"])) == ({"n": 1}, 0.5, {"why": "x"})
    assert (entry["agent"], entry["ttl"], entry["siblings"]) == ("bob", 1000, [])
    node.fleet.pass_time(1.1)
    assert ann.get("k") is None
    assert not ann.do("touch", key="k", ttl=1000)["existed"]


def test_without_a_time_it_lives_for_ever(node):
    ann = node.agent()
    ann.set("k", 1, ttl=1000)
    ann.do("touch", key="k")
    node.fleet.pass_time(3600)
    assert ann.get("k") == 1


def test_who_had_read_the_value_has_read_it_still():
    (a,) = sites("a")
    a.do("set", value=1)
    seen = a.version()
    touched = a.do("touch", ttl=1000, seen=seen)
    assert touched["version"] == a.version()
    assert a.do("set", value=2, seen=touched["version"])["siblings"] == 0


def test_who_had_not_read_it_learns_nothing_by_touching_it():
    (a,) = sites("a")
    a.do("set", value=1)
    old = a.version()
    a.do("set", value=2)
    assert "version" not in a.do("touch", ttl=1000, seen=old)
    assert "version" not in a.do("touch", ttl=1000)
    a.do("set", value=3, seen=old)
    assert a.values() == [3, 2], "nothing that was not read is overwritten"


def test_what_another_host_writes_at_once_stays():
    a, b = sites("a", "b")
    a.do("set", value="old")
    a.sync(b)
    a.do("touch", ttl=100_000)
    b.do("set", value="new", seen=b.version())
    a.sync(b)
    assert sorted(a.values()) == sorted(b.values()) == ["new", "old"]


def test_siblings_keep_their_own_time():
    (a,) = sites("a")
    a.do("set", value=1, ttl=1000)
    a.do("set", value=2, seen="?")
    a.do("touch", ttl=5000)
    entry = a.ask("entry")
    assert [(unpack(one["value"]), one["ttl"]) for one in (entry, *entry["siblings"])] == [(2, 5000), (1, 1000)]


def test_conditions_and_kinds():
    (a,) = sites("a")
    a.do("append", value=1)
    with pytest.raises(KindMismatch):
        a.do("touch", ttl=1)
    a.do("set", "r", value=1)
    version = a.version("r")
    a.do("set", "r", value=2)
    with pytest.raises(VersionMismatch):
        a.do("touch", "r", ttl=1, if_version=version)


def test_to_delete_what_nobody_is_shown_any_more_clears_it_away_and_says_that_there_was_nothing():
    (a,) = sites("a")
    a.do("set", value=1, ttl=1000)
    a.now_ms += 2000
    assert not a.do("delete")["existed"]
    assert not a.replica.entries.held("k")
