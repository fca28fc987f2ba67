"""The index of a search: what is found by which words, and what it does when it is damaged or shared."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.client import Entry
from crdtsync.context.search.index import Index, Wanted, snippet
from crdtsync.context.search.passages import PASSAGE_CHARS, PASSAGES_MAX, passages, terms

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def entry(key: str, value: Any, kind: str = "register", agent: str = "ann", time: datetime = NOON) -> Entry:
    return Entry(key, kind, value, "v1.x", "1.1.0", [], agent, "host-a", time, None, None, None)


@pytest.fixture
def index(tmp_path: Path) -> Index:
    made = Index(tmp_path / "search" / "one.db")
    entries = [
        entry("findings/disk", "the disk of host-b is full"),
        entry("plan/deploy", {"steps": ["readFile", "deploy it"]}, agent="bob", time=NOON - timedelta(days=2)),
        entry("log/events", ["a payment timed out", "the disk was replaced"], kind="log"),
        entry("notes/jp", "東京の倉庫でディスクがいっぱい"),
        entry("notes/de", "Größe und Maß"),
    ]
    assert made.update(None, "c1.1", entries, [], True)
    return made


def keys(index: Index, query: str, **where: Any) -> list[str]:
    return [found.key for found in index.search(Wanted(query, **where))]


def test_entries_are_found_by_their_words_and_their_keys(index: Index) -> None:
    assert keys(index, "full disk") == ["findings/disk", "log/events"]
    assert keys(index, "DEPLOYING") == ["plan/deploy"]
    assert keys(index, "read file") == ["plan/deploy"]
    assert keys(index, "倉庫") == keys(index, "いっぱい") == ["notes/jp"]
    assert keys(index, "grosse") == []
    assert keys(index, "größe") == ["notes/de"]
    assert keys(index, "events") == ["log/events"]
    assert keys(index, 'absent "quotes* OR ( NEAR') == []
    assert keys(index, "") == keys(index, "?!") == []


def test_where_is_looked_can_be_said(index: Index) -> None:
    assert keys(index, "disk", prefix="findings/") == ["findings/disk"]
    assert keys(index, "disk", prefix="find%") == []
    assert keys(index, "disk deploy", agent="bob") == ["plan/deploy"]
    assert keys(index, "disk", kind="log") == ["log/events"]
    assert keys(index, "disk deploy", since=NOON - timedelta(days=1)) == ["findings/disk", "log/events"]
    assert len(keys(index, "disk", limit=1)) == 1


def test_a_passage_tells_who_wrote_it_and_shows_the_words(index: Index) -> None:
    (found,) = index.search(Wanted("payment"))
    assert (found.key, found.kind, found.agent, found.time) == ("log/events", "log", "ann", NOON)
    assert found.snippet == "a payment timed out"
    long = "words " * 300 + "the needle is here " + "words " * 300
    assert "needle" in snippet(long, ["needle"])
    assert len(snippet(long, ["needle"])) < 260


def test_what_changed_takes_the_place_of_what_was(index: Index) -> None:
    assert index.update("c1.1", "c1.2", [entry("findings/disk", "mended")], ["notes/de"], False)
    assert keys(index, "full") == keys(index, "größe") == []
    assert keys(index, "mended") == ["findings/disk"]
    assert index.token() == "c1.2"


def test_who_began_with_an_older_state_changes_nothing(index: Index) -> None:
    other = Index(index.path)
    assert other.update("c1.1", "c1.2", [entry("a", "first")], [], False)
    assert not index.update("c1.1", "c1.3", [entry("a", "second")], [], False)
    assert (index.token(), keys(index, "first second")) == ("c1.2", ["a"])


@pytest.mark.parametrize("damage", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_index_is_made_anew(index: Index, damage: bytes) -> None:
    for end in ("-wal", "-shm"):
        Path(f"{index.path}{end}").unlink(missing_ok=True)
    index.path.write_bytes(damage)
    with suppress(sqlite3.DatabaseError):
        index.token()
    assert index.token() is None
    assert index.update(None, "c1.1", [entry("a", "word")], [], True)
    assert keys(index, "word") == ["a"]


def test_an_index_of_another_format_is_made_anew(index: Index) -> None:
    with sqlite3.connect(index.path) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(sqlite3.DatabaseError):
        index.token()
    assert index.token() is None


def test_nobody_else_may_read_it(index: Index) -> None:
    assert index.path.stat().st_mode & 0o077 == 0


@given(st.text(max_size=5_000), st.sampled_from(["register", "log"]))
def test_passages_lose_no_word_and_have_a_bound(text: str, kind: str) -> None:
    found = passages(entry("k", [text] if kind == "log" else text, kind=kind))
    assert all(len(passage) <= 2 * PASSAGE_CHARS for passage in found)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(term == term.lower() or not term.isascii() for term in terms(text))


def test_of_a_long_log_the_newest_are_looked_through() -> None:
    found = passages(entry("k", [f"element {n}" for n in range(PASSAGES_MAX + 10)], kind="log"))
    assert (len(found), found[-1]) == (PASSAGES_MAX, f"element {PASSAGES_MAX + 9}")
