"""Logs: what a session knows of one after its own appends. What appends and trims do is in ``test_writes``."""

from __future__ import annotations

import pytest

from crdtsync.core.crdt.read_context import NotYet
from crdtsync.errors import InvalidRequest, KindMismatch
from crdtsync.wire.codec import pack, unpack
from tests.fleet.agent import Refusal
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


# -- what is said of elements, and one of them alone ---------------------------------------------------------------


def test_an_element_has_what_its_author_said_of_it():
    (a,) = sites("a")
    a.do("append", value=1)
    a.do("append", value=2, ttl=5000, confidence=0.5, meta=pack({"round": 3}))
    assert [len(item) for item in a.ask("log")["items"]] == [5, 5], "as clients of 0.1.0 expect"
    plain, said = a.ask("log", attributes=True)["items"]
    assert plain[5:] == [None, None, None]
    assert said[5:] == [0.5, pack({"round": 3}), 5000]


def test_an_element_expires_alone_and_everywhere(pair):
    ann, bob = pair["a"].agent("ann"), pair["b"].agent("bob")
    for n in range(4):
        ann.append("l", n, **({"ttl": 1000} if n % 2 else {}))
    pair.sync()
    bob.send("watch", prefix="l", states=True)
    pair.sync()
    bob.told()
    assert bob.get("l") == [0, 1, 2, 3]
    pair.pass_time(1.1)
    assert ann.get("l") == bob.get("l") == [0, 2]
    bob.append("l", 4)
    pair.sync()
    pair.pass_time(5)
    states = [event for event in bob.told() if event["event"] in ("state", "part")]
    assert unpack(states[-1]["value"]) == [0, 2, 4], "a copy shows what readers see"
    assert ann.get("l") == bob.get("l") == [0, 2, 4]
    assert ann.do("trim", key="l", keep=1)["removed"] == 2


def test_one_element_goes_and_the_others_stay_in_order():
    a, b = sites("a", "b")
    for n in range(5):
        a.do("append", value=n)
    a.sync(b)
    dots = [item[1] for item in a.ask("log")["items"]]
    assert a.do("remove", dot=dots[2]) == {"existed": True, "length": 4}
    assert a.do("remove", dot=dots[2]) == {"existed": False, "length": 4}
    b.do("append", value=5)
    b.do("remove", dot=dots[2])
    a.sync(b)
    assert a.get() == b.get() == [0, 1, 3, 4, 5]
    assert a.do("trim", keep=2)["removed"] == 3
    assert a.get() == [4, 5]


def test_an_element_of_another_kind_or_key_is_not_removed():
    (a,) = sites("a")
    a.do("append", value=1)
    a.do("set", "r", value=1)
    (item,) = a.ask("log")["items"]
    assert not a.do("remove", "other", dot=item[1])["existed"]
    assert not a.do("remove", dot=a.dots("r")[0])["existed"]
    with pytest.raises(KindMismatch):
        a.do("remove", "r", dot=item[1])
    for wrong in (None, "x", 7):
        with pytest.raises(InvalidRequest):
            a.do("remove", dot=wrong)
    assert a.get() == [1]


def test_an_element_that_is_on_its_way_is_waited_for():
    a, b = sites("a", "b")
    a.do("append", value=1)
    (item,) = a.ask("log")["items"]
    with pytest.raises(NotYet) as waits:
        b.do("remove", dot=item[1])
    assert waits.value.vector == {a.replica.writer: 1}
    b.sync(a)
    assert b.do("remove", dot=item[1])["existed"]


def test_an_element_that_only_its_own_node_could_have_written_is_not_waited_for():
    (a,) = sites("a")
    a.do("append", value=1)
    assert a.do("remove", dot=f"{a.replica.writer}.7.0") == {"existed": False, "length": 1}


def test_a_trim_leaves_what_stands_beside_the_log():
    a, b = sites("a", "b")
    a.do("set", value="beside")
    b.do("append", value=0)
    a.sync(b)
    for n in (1, 2):
        a.do("append", value=n)
    assert a.do("trim", keep=1) == {"removed": 2, "length": 1}
    a.sync(b)
    assert a.values() == b.values() == [[2], "beside"]


def test_an_element_that_nobody_is_known_to_have_is_refused_at_once(pair):
    bob = pair["b"].agent("bob")
    bob.append("l", 0)
    with pytest.raises(Refusal, match="no node is known that has it"):
        bob.do("remove", key="l", dot="12345.7.0")


def test_a_watcher_is_told_what_is_left(node):
    ann = node.agent()
    for n in range(3):
        ann.append("l", n)
    ann.ask("watch", prefix="l")
    ann.told()
    ann.do("remove", key="l", dot=ann.ask("log", key="l")["items"][1][1])
    (event,) = ann.told()
    assert (event["event"], event["op"], unpack(event["value"])) == ("set", "delete", [0, 2])
