"""The index of a search: what is found by which words, and what it does when it is damaged or shared."""

from __future__ import annotations

import sqlite3
import unicodedata
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.client import Entry
from crdtsync.context.compact.words import terms
from crdtsync.context.search.index import Index, Wanted, snippet
from crdtsync.context.search.passages import PASSAGE_CHARS, PASSAGES_MAX, Said, passages
from crdtsync.context.shared.entry import record
from crdtsync.errors import InvalidRequest

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
    assert update(made, None, "c1.1", entries, anew=True)
    return made


def update(
    index: Index,
    before: str | None,
    token: str,
    entries: list[Entry],
    gone: tuple[str, ...] = (),
    *,
    anew: bool = False,
    purged: str = "",
) -> bool:
    builder = index.begin(before, gone, anew=anew)
    return builder is not None and index.add(builder, entries) and index.end(builder, token, purged)


def keys(index: Index, query: str, **where: Any) -> list[str]:
    return [found.key for found in index.search(Wanted(query, **where))]


def test_what_is_there_for_programs_is_found_where_it_is_asked_for(index: Index) -> None:
    put = [entry("context.full/a", "a zebra"), entry("views/zebra", {}), entry("context/a", "the zebra")]
    assert update(index, "c1.1", "c1.2", put)
    assert keys(index, "zebra") == ["context/a"]
    assert keys(index, "zebra", prefix="context.full/") == ["context.full/a"]
    assert update(index, "c1.2", "c1.3", [entry("tasks/1", "feed the zebra")], ("context/a", "views/zebra"))
    assert keys(index, "zebra") == ["tasks/1"]


def lines(*texts: tuple[str, str], mark: int, is_more: bool = False) -> Entry:
    return entry("sessions.lines/019a/main", Said(texts, (mark, b"mark"), is_more=is_more), kind="log")


def test_what_was_said_in_a_saved_session_is_found_with_its_time_and_grows(index: Index) -> None:
    assert update(index, "c1.1", "c1.2", [lines(("a zebra", "2026-11-20T10:00:00Z"), ("a yak", "no time"), mark=2)])
    assert index.mark("sessions.lines/019a/main") == (2, b"mark")
    assert update(index, "c1.2", "c1.3", [lines(("a zebu", ""), mark=3, is_more=True), entry("x", "a yak")])
    assert keys(index, "zebra") == keys(index, "zebu") == ["sessions.lines/019a/main"]
    (zebra,), (_, yak) = index.search(Wanted("zebra")), index.search(Wanted("yak"))
    assert (zebra.time, yak.time) == (datetime(2026, 11, 20, 10, tzinfo=UTC), NOON)
    assert keys(index, "zebra", since=NOON) == []
    assert update(index, "c1.3", "c1.4", [lines(("a gnu", ""), mark=1)])
    assert (keys(index, "zebra zebu"), keys(index, "gnu")) == ([], ["sessions.lines/019a/main"])
    assert update(index, "c1.4", "c1.5", [], ("sessions.lines/019a/main",))
    assert (keys(index, "gnu"), index.mark("sessions.lines/019a/main")) == ([], None)


def test_half_a_character_of_a_saved_session_stops_no_search(index: Index) -> None:
    halves = Said((("an emoji was cut \ud83d here", "2026-11-22T12:00:00Z"), ("whole \ud83d\ude00", "")), None)
    session = entry("sessions.lines/019b/main", halves, kind="log")
    assert update(index, "c1.1", "c1.2", [session])
    assert keys(index, "emoji cut") == ["sessions.lines/019b/main"]
    assert [passage for passage, _ in passages(session)] == ["an emoji was cut \ufffd here", "whole \U0001f600"]


def test_one_long_session_leaves_room_for_others(index: Index) -> None:
    said = [(f"zebra zebra {n}", "") for n in range(300)]
    assert update(index, "c1.1", "c1.2", [lines(*said, mark=300), entry("notes/zoo", "words " * 50 + "a zebra")])
    assert keys(index, "zebra", limit=2) == ["sessions.lines/019a/main", "notes/zoo"]


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026", "", "yesterday"])
def test_no_time_that_an_agent_wrote_down_stops_a_search(index: Index, time: str) -> None:
    assert update(index, "c1.1", "c1.2", [lines(("a zebra", time), mark=1)])
    assert keys(index, "zebra") == ["sessions.lines/019a/main"]


def test_of_what_was_put_for_others_its_compact_text_is_found(index: Index) -> None:
    value, _ = record("a", "a zebra\n" * 100, "ann", "auto", "claude")
    assert update(index, "c1.1", "c1.2", [entry("context/a", value)])
    assert keys(index, "zebra") == ["context/a"]
    assert keys(index, "transforms") == keys(index, "tokens") == []


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


@pytest.mark.parametrize(
    "wrong", [{"query": 5}, {"prefix": None}, {"agent": 5}, {"limit": "x"}, {"limit": 1_001}, {"since": "1h"}]
)
def test_what_a_search_does_not_take_is_said(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=next(iter(wrong))):
        Wanted(**{"query": "word"} | wrong)


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
    assert update(index, "c1.1", "c1.2", [entry("findings/disk", "mended")], ("notes/de",))
    assert keys(index, "full") == keys(index, "größe") == []
    assert keys(index, "mended") == ["findings/disk"]
    assert index.state()[0] == "c1.2"


def test_who_began_with_an_older_state_changes_nothing(index: Index) -> None:
    other = Index(index.path)
    assert update(other, "c1.1", "c1.2", [entry("a", "first")])
    assert not update(index, "c1.1", "c1.3", [entry("a", "second")])
    assert (index.state()[0], keys(index, "first second")) == ("c1.2", ["a"])


def test_one_is_at_it_at_a_time_and_who_was_killed_is_followed(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = index.begin("c1.1", ["notes/de"], anew=False)
    assert killed is not None
    assert index.begin("c1.1", [], anew=False) is None
    monkeypatch.setattr("crdtsync.context.search.index._DEAD_S", -1)
    following = index.begin("c1.1", [], anew=True)
    assert following is not None
    assert not index.add(killed, [entry("late", "word")])
    assert not index.end(killed, "c1.2", "")
    assert index.state()[0] is None
    assert index.add(following, [entry("a", "word")])
    assert index.end(following, "c1.2", "")
    assert (index.state()[0], keys(index, "word late disk")) == ("c1.2", ["a"])


@pytest.mark.parametrize("damage", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_index_is_made_anew(index: Index, damage: bytes) -> None:
    for end in ("-wal", "-shm"):
        Path(f"{index.path}{end}").unlink(missing_ok=True)
    index.path.write_bytes(damage)
    with suppress(sqlite3.DatabaseError):
        index.state()[0]
    assert index.state()[0] is None
    assert update(index, None, "c1.1", [entry("a", "word")], anew=True)
    assert keys(index, "word") == ["a"]


def test_an_index_of_another_format_is_made_anew(index: Index) -> None:
    with sqlite3.connect(index.path) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(sqlite3.DatabaseError):
        index.state()[0]
    assert index.state()[0] is None


def test_after_a_purge_no_file_of_it_holds_what_was_taken_out(index: Index) -> None:
    for n in range(60):
        words = " ".join(f"zanzibar{n}x{i}" for i in range(100))
        assert update(index, f"c1.{n + 1}", f"c1.{n + 2}", [entry(f"trips/{n}", words)])
    gone = tuple(f"trips/{n}" for n in range(1, 60))
    assert update(index, "c1.61", "c1.62", [entry("trips/0", "was put off")], gone)
    with closing(sqlite3.connect(index.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM state").fetchall()
        assert update(index, "c1.62", "c1.63", [], purged="one")
        assert index.state()[1] != "one", "somebody still reads what was"
    assert update(index, "c1.63", "c1.64", [], purged="one")
    assert index.state() == ("c1.64", "one")
    assert not [path for path in index.path.parent.iterdir() if b"zanzibar" in path.read_bytes()]
    assert keys(index, "full disk put") == ["findings/disk", "trips/0", "log/events"]


def test_nobody_else_may_read_it(index: Index) -> None:
    assert index.path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("word", ["민수입니다", "プログラミング", "Größe"])
def test_characters_are_found_however_they_are_put_together(index: Index, word: str) -> None:
    whole, apart = unicodedata.normalize("NFC", word), unicodedata.normalize("NFD", word)
    assert whole != apart
    assert update(index, "c1.1", "c1.2", [entry("one", f"x {whole}"), entry("two", f"x {apart}")])
    for asked in (whole, apart):
        assert {*keys(index, asked)} >= {"one", "two"}


@given(st.text(max_size=5_000), st.sampled_from(["register", "log"]))
def test_passages_lose_no_word_and_have_a_bound(text: str, kind: str) -> None:
    found = [passage for passage, _ in passages(entry("k", [text] if kind == "log" else text, kind=kind))]
    assert all(len(passage) <= 2 * PASSAGE_CHARS for passage in found)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(term == term.lower() or not term.isascii() for term in terms(text))


def test_of_a_long_log_the_newest_are_looked_through() -> None:
    found = passages(entry("k", [f"element {n}" for n in range(PASSAGES_MAX + 10)], kind="log"))
    assert (len(found), found[-1][0]) == (PASSAGES_MAX, f"element {PASSAGES_MAX + 9}")
