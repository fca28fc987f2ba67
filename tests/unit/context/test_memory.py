"""What is remembered: records, scopes, and what a conversation says without a model."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crdtsync.context.memory.curate import says_the_same
from crdtsync.context.memory.record import (
    Scope,
    aware,
    digest,
    holds,
    is_record,
    matches,
    moment,
    stored,
    texts_of,
    worded,
)
from crdtsync.errors import InvalidRequest


@pytest.mark.parametrize("messages,texts", [
    ("likes tea", ["likes tea"]), (" ", []), ({"role": "user", "content": "a"}, ["a"]),
    ([{"role": "system", "content": "be kind"}, {"role": "user", "content": "a"}, "b"], ["a", "b"]),
    ([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": "x"}]}], ["a"]),
])  # fmt: skip
def test_what_was_said_is_remembered(messages: Any, texts: list[str]) -> None:
    assert texts_of(messages) == texts


@pytest.mark.parametrize("messages", [5, [5], {"role": "user"}, [None]])
def test_what_is_no_message_is_refused(messages: Any) -> None:
    with pytest.raises(InvalidRequest):
        texts_of(messages)


@pytest.mark.parametrize("text", [None, 5, b"tea", "", " \n"])
def test_what_says_nothing_is_no_memory(text: Any) -> None:
    with pytest.raises(InvalidRequest, match="a memory is a text"):
        worded(text)
    with pytest.raises(InvalidRequest, match="a memory is a text"):
        stored(text, Scope("alice"), None, {})


def test_half_a_character_is_no_memory_and_no_name() -> None:
    with pytest.raises(InvalidRequest, match="memory takes characters that UTF-8 has"):
        worded("\ud800")
    with pytest.raises(InvalidRequest, match="run_id takes characters that UTF-8 has"):
        Scope(run_id="\udfff")


def test_a_scope_is_needed_and_covers_what_has_all_its_names() -> None:
    with pytest.raises(InvalidRequest, match="user_id"):
        Scope().needed()
    both = Scope("alice", run_id="7")
    assert both.place() == "user/alice/"
    assert Scope(run_id="a/b").place() == "run/a%2Fb/"
    assert Scope(run_id="7").folder == ""
    record = stored("x", both, None, {})
    assert Scope("alice").covers(record)
    assert Scope(run_id="7").covers(record)
    assert not Scope("bob").covers(record)


def test_names_that_are_no_text_and_times_that_are_none_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="user_id takes str, not 5"):
        Scope(user_id=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match=r"time takes datetime.datetime \| None, not '2026-11-22'"):
        aware("2026-11-22")  # type: ignore[arg-type]
    assert aware(datetime(2026, 11, 22)) == datetime(2026, 11, 22, tzinfo=UTC)  # noqa: DTZ001


def test_a_fact_holds_from_its_beginning_to_its_end() -> None:
    now = datetime.now(UTC)
    record = {"valid_from": (now - timedelta(days=2)).isoformat(), "valid_until": (now - timedelta(days=1)).isoformat()}
    assert [holds(record, now - timedelta(days=days)) for days in (3, 2, 1, 0)] == [False, True, False, False]
    assert holds({"valid_from": "nonsense", "valid_until": 5}, now)
    assert moment("2026-11-22T10:00:00") == datetime(2026, 11, 22, 10, tzinfo=UTC)


def test_filters_look_at_metadata_and_fields() -> None:
    record = stored("x", Scope("alice"), {"topic": "food"}, {"about": "tea"})
    assert is_record(record)
    assert matches(record, {"topic": "food", "about": "tea", "user_id": "alice"})
    assert not matches(record, {"topic": "work"})
    assert not is_record({"memory": 5, "created_at": ""})
    assert matches(record | {"metadata": "anything"}, {"about": "tea"})
    assert digest("Likes  Tea") == digest("likes tea")


@pytest.mark.parametrize(
    "one, other",
    [
        ("the server db-1 must be restarted daily", "the server db-1 must not be restarted daily"),
        ("the server db-1 can be restarted daily", "the server db-1 mustn't be restarted daily"),
        ("泵 P-771 可以在夜里空转 很久", "泵 P-771 不可以在夜里空转 很久"),
        ("port is 8080", "port is 8081"),
    ],
)
def test_what_one_denies_and_the_other_says_is_never_the_same(one: str, other: str) -> None:
    assert says_the_same(one, f"{one}!")
    assert not says_the_same(one, other)
    assert not says_the_same(other, one)
