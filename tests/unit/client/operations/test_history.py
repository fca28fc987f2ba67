"""History in the clients: pages are put together, edits of a text too, and the answer says where it ends."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgpack
import pytest

from crdtsync.client.operations.history import history
from crdtsync.client.operations.keys import Operations
from crdtsync.errors import InvalidRequest

T = 30.0


def value(dot: str, **fields: Any) -> dict[str, Any]:
    plain = {
        "key": "k", "kind": "register", "op": "set", "value": msgpack.packb(dot), "dot": dot, "agent": "ann",
        "node": "a",
        "time": 1000, "confidence": None, "meta": None, "ttl": 1500, "token": "c1.t", "seen": [], "fate": "live",
        "removed_by": None,
    }  # fmt: skip
    return {**plain, **fields}


def edits(dot: str, count: int, fate: str = "replaced", **fields: Any) -> dict[str, Any]:
    about = {"kind": "text", "op": "text", "value": None, "document": "9.1.0", "began": 500 - int(dot[0])}
    return value(dot, edits=count, fate=fate, **about, **fields)


def page(*items: dict[str, Any], before: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"items": list(items), "before": before, "complete": True, "since": None, "token": "c1.t", **fields}


def ask(key: str | None = "k", prefix: str | None = None, last: int | None = 10) -> Any:
    return history(Operations(), key, prefix, last, lost=False, after=None, timeout_s=T)


def test_pages_are_put_together(play):
    removal = {"op": "delete", "dot": "2.2.0", "agent": "bob", "node": "b", "time": 2000}
    played = play(ask(), page(value("3.1.0"), before="p"), page(value("2.1.0", fate="deleted", removed_by=removal)))
    assert [call.arguments for call in played.steps] == [
        {"key": "k", "limit": 10, "lost": False},
        {"key": "k", "limit": 9, "lost": False, "before": "p"},
    ]
    assert played.is_each_timed_anew
    found = played.result
    assert [(one.value, one.fate, one.ttl) for one in found] == [("3.1.0", "live", 1.5), ("2.1.0", "deleted", 1.5)]
    assert found[1].removed_by.agent == "bob"
    assert found[1].removed_by.time == datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)
    assert (found.is_complete, found.since, found.has_more, found.token) == (True, None, False, "c1.t")


def test_no_more_than_was_asked_for(play):
    found = play(ask(last=1), page(value("3.1.0"), before="p", complete=False, since=1000)).result
    assert (len(found), found.has_more, found.is_complete) == (1, True, False)
    assert found.since == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


def test_edits_that_a_page_has_cut_in_two_are_one(play):
    first = page(edits("4.1.0", 3, "live"), before="p")
    second = page(edits("3.1.0", 2, seen=["1.1.0"]), edits("2.1.0", 7, agent="bob"), before="q")
    (found,) = play(ask(last=1), first, second).result
    assert (found.edits, found.fate, found.seen, found.dot) == (5, "live", ["1.1.0"], "4.1.0")
    assert found.began < found.time


@pytest.mark.parametrize("other", [{"fate": "deleted"}, {"agent": "bob"}, {"node": "b"}, {"document": "8.1.0"}])
def test_edits_that_do_not_go_on_are_two(play, other):
    found = play(ask(), page(edits("4.1.0", 3, "live"), before="p"), page(edits("3.1.0", 2) | other)).result
    assert [one.edits for one in found] == [3, 2]


def test_of_a_prefix_there_is_one_answer(play):
    found = play(ask(None, "p/", None), page(value("3.1.0", value=None, cut=True), more=True))
    assert found.arguments == {"prefix": "p/", "limit": 1000, "lost": False}
    assert found.result[0].is_cut
    assert found.result.has_more


@pytest.mark.parametrize("what", [(None, None, 1), ("k", "p", 1), ("k", None, 0), (None, "p", 1001)])
def test_what_makes_no_sense_is_refused_before_it_is_sent(play, what):
    with pytest.raises(InvalidRequest):
        play(ask(*what))
