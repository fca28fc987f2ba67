"""Claims and tasks as they are stored: which counts, and which a worker takes, without a daemon."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from itertools import permutations
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from crdtsync.causality import Dot, Writer
from crdtsync.client import Entry
from crdtsync.coordination import AsyncLease
from crdtsync.coordination.aio import claims
from crdtsync.coordination.claim_record import ASK, HELD, Claim, Patience, claims_in, listed, path_of, record
from crdtsync.coordination.questions import Answer, answers_in
from crdtsync.coordination.task_board import Board
from crdtsync.coordination.task_record import CLAIMED, DONE, FAILED, OPEN, Task, backoff_ms, blocked_by, task_in
from crdtsync.errors import ClaimHeld, InvalidRequest, VersionMismatch
from crdtsync.wire.tokens import Version, encode_version

TIME = datetime(2026, 1, 1, tzinfo=UTC)
CLOCK = 123_456
VERSION = encode_version(Version((Dot(Writer(1), 1, 0),), hlc=CLOCK))


def entry(key: str, *values: object, first: int = 0) -> Entry:
    """A key with these values at once, each by another host; that of host ``first`` comes first."""
    parts = [
        Entry(key, "register", value, None, f"{n + 1}.1.0", [], f"agent-{n}", f"host-{n}", TIME, None, None, None)
        for n, value in enumerate(values)
    ]
    return replace(parts[first], version=VERSION, siblings=[part for n, part in enumerate(parts) if n != first])


def stored(state: str, fence: int, **fields: Any) -> dict[str, Any]:
    return Task("t", OPEN, None).record(state=state, fence=fence, result=fence, **fields)


def test_held_comes_before_asked_for_then_the_highest_fence_in_whatever_order_they_came():
    records = [record(ASK, "a", 60, 0), record(HELD, "b", 60, 7), record(HELD, "c", 60, 9)]
    for order in permutations(records):
        assert [claim.id for claim in claims_in(entry("claims/k", *order))] == ["c", "b", "a"]
        found = listed(entry("claims/k", *order))
        assert found is not None
        assert (found.key, found.fence, [one.fence for one in found.crossed]) == ("k", 9, [7])
    asked = listed(entry("claims/k", record(ASK, "a", 60, 0)))
    assert asked is not None
    assert (asked.fence, asked.is_held) == (CLOCK, False)
    assert claims_in(entry("claims/k", "no claim", {"state": "held"}, {**record(HELD, "a", 60, 1), "ttl": "x"})) == []


def test_two_asks_at_once_are_told_apart_alike_on_every_host():
    asks = [record(ASK, name, 60, 0) for name in "ab"]
    assert [claims_in(entry("claims/k", *asks, first=first))[0].id for first in (0, 1)] == ["b", "b"]


def test_a_claim_on_what_can_be_no_key_is_refused():
    for nothing in ("", 5):
        with pytest.raises(InvalidRequest, match="needs a key that says what is claimed"):
            path_of(nothing)
    for long in ("x" * 1018, "ü" * 509):
        with pytest.raises(InvalidRequest, match="has at most 1,017 bytes, not 1,018"):
            path_of(long)
    assert path_of("x" * 1017) == "claims/" + "x" * 1017


def test_a_claim_is_over_when_it_was_watched_for_its_whole_time_without_renewal():
    patience = Patience()
    first = Claim("k", "a", "ann", "host", 1, 60.0, None, True, "1.1.0")
    renewed = Claim("k", "a", "ann", "host", 1, 60.0, None, True, "1.2.0")
    assert [patience.left_s(first, now) for now in (1000.0, 1059.0)] == [60.0, 1.0]
    assert patience.left_s(renewed, 1059.0) == 60.0
    assert patience.standing([renewed], 1118.0) == [renewed]
    assert patience.standing([renewed], 1119.0) == []


async def test_a_claim_is_watched_from_when_it_was_seen_not_from_before_it_was_asked_for(monkeypatch):
    """The daemon takes as long to answer as the claim lasts, which was renewed meanwhile."""
    now_s = 0.0
    held = entry("claims/k", record(HELD, "a", 60, 7))

    async def late(*_: object, **__: object) -> None:
        nonlocal now_s
        now_s += 60.0
        raise VersionMismatch("it exists", current=held)

    monkeypatch.setattr(claims, "time", SimpleNamespace(monotonic=lambda: now_s, clock_gettime=lambda _: now_s))
    lease = AsyncLease(AsyncMock(session=lambda: SimpleNamespace(set=late)), "k", 60.0, False, True, None, Patience())
    with pytest.raises(ClaimHeld):
        await lease.acquire()
    assert lease._patience.left_s(claims_in(held)[0], now_s) == 60.0


def test_done_comes_before_all_other_states_in_whatever_order_they_came():
    for states in permutations([(OPEN, 0), (CLAIMED, 9), (FAILED, 5), (DONE, 3), (DONE, 4)]):
        found = task_in(entry("t", *(stored(state, fence) for state, fence in states)))
        assert found is not None
        assert (found.state, found.fence, found.crossed) == (DONE, 4, (3,))


def test_what_is_no_task_is_passed_over():
    assert task_in(None) is None
    for value in (None, {"state": "open"}, stored("lost", 1), stored(OPEN, 1, priority="high")):
        assert task_in(entry("t", value)) is None


def test_backoff_doubles_and_a_task_that_cannot_begin_says_why():
    assert [backoff_ms(Task("t", OPEN, None, attempts=n)) for n in (1, 2, 3, 40)] == [1000, 2000, 4000, 3_600_000]
    tasks = {
        "failed": Task("failed", FAILED, None),
        "x": Task("x", OPEN, None, after=("y",)),
        "y": Task("y", OPEN, None, after=("x",)),
    }
    reasons = [blocked_by(Task("t", OPEN, None, after=after), tasks) for after in ((), ("failed",), ("none",))]
    assert reasons == ["", "failed has failed", "none is not there"]
    assert blocked_by(tasks["x"], tasks) == "it waits for itself"


def test_a_worker_takes_any_task_of_the_highest_priority_that_is_due():
    patience = Patience()
    board = Board("coder", patience)
    for n in range(20):
        board.put(f"t{n}", Task(f"t{n}", OPEN, None, role="coder", priority=n // 10))
    board.put("late", Task("late", OPEN, None, role="coder", priority=9, not_before_ms=5000))
    board.put("other", Task("other", OPEN, None, role="critic", priority=9))
    board.put("done", Task("done", DONE, None, role="coder", priority=9))
    board.put("next", Task("next", OPEN, None, role="coder", priority=9, after=("t0",)))
    random = Random(1)
    picked = Counter(board.pick(1000, 0.0, random) for _ in range(1000))
    assert picked.keys() == {f"t{n}" for n in range(10, 20)}
    assert min(picked.values()) > 50
    assert board.pick(5000, 0.0, random) == "late"
    board.put("t0", Task("t0", DONE, None, role="coder"))
    assert board.pick(1000, 0.0, random) == "next"


def test_a_claimed_task_is_due_when_its_claim_is_over():
    board = Board(None, Patience())
    board.put("t", Task("t", CLAIMED, None))
    claim = Claim("t", "a", "ann", "host", 1, 60.0, None, True, "1.1.0")
    board.put_claims("t", [claim])
    assert (board.pick(0, 0.0, Random(1)), board.due_in_s(0, 20.0)) == (None, 40.0)
    assert board.pick(0, 60.0, Random(1)) == "t"
    board.put_claims("t", [])
    assert board.pick(0, 0.0, Random(1)) == "t"
    board.put("t", None)
    assert (board.pick(0, 0.0, Random(1)), board.due_in_s(0, 0.0)) == (None, None)


def test_the_same_answer_twice_is_one():
    same, other = {"value": "yes", "note": ""}, {"value": "no", "note": "why"}
    assert answers_in(entry("answers/x", same, same)) == (Answer("yes", "agent-0", "host-0", ""),)
    assert len(answers_in(entry("answers/x", same, other, "junk"))) == 2
