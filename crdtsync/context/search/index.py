"""The file of an index: passages, their words in SQLite's full-text search (FTS5), and their meaning as vectors.

Several processes use it at once. One of them brings it up to date, page by page, since what a space holds may not fit
into memory; the others wait for it. If it is killed meanwhile, the state that the index is of is what it was, or none,
and the next one begins there.

What is deleted stays in the file for a while: FTS5 only notes that words are gone, and SQLite leaves free pages as they
were. After a purge that must not be, so the file is written anew then, which costs as much as all that it holds.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from crdtsync.context.compact.words import terms
from crdtsync.context.given import expect, expect_utf8
from crdtsync.context.search.passages import Mark, Said, passages
from crdtsync.context.view.definition import hidden_by
from crdtsync.errors import CrdtSyncError, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crdtsync.client import Entry
    from crdtsync.context.search.meaning import Meaning

FORMAT = 7
_BUSY_S = 30.0
_WIPE_BUSY_MS = 500
_DEAD_S = 10.0
"""A process that has put nothing in for so long has been killed."""
UNFINISHED = "?"
"""Ends the name of the purges that an index is of while there is something to be done for them yet."""
_TERMS_MAX = 64  # of a query
_KEY_WEIGHT, _TEXT_WEIGHT = 2.0, 1.0
_SNIPPET_CHARS = 240
_CANDIDATES = 20  # passages for each entry that is asked for: several may be of one entry
_RANKED_MAX = 5_000  # passages: some 15 ms
_TIME_MS_MAX = 253_402_300_799_000  # the last second of the year 9999
_RANK, _MEANING_WEIGHT = 10, 0.5  # by ./dev bench recall
_LIKENESS_MIN = 0.3  # what is less alike has nothing to do with it

_NEXT = "SELECT MAX(0, COALESCE(MAX(id), 0)) + 1 FROM passages"
_NEXT_HIDDEN = "SELECT MIN(0, COALESCE(MIN(id), 0)) - 1 FROM passages"
"""Entries for programs have ids below zero: most searches pass it over, at no cost."""

_TABLES = f"""
PRAGMA journal_mode = WAL;
BEGIN IMMEDIATE;
CREATE TABLE state (token TEXT, builder TEXT, beat_s REAL, purged TEXT NOT NULL);
INSERT INTO state VALUES (NULL, NULL, 0, '');
CREATE TABLE passages (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, kind TEXT NOT NULL, agent TEXT, time_ms INTEGER NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX passages_by_key ON passages (key);
CREATE TABLE vectors (id INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE marks (key TEXT PRIMARY KEY, elements INTEGER NOT NULL, mark BLOB NOT NULL);
CREATE VIRTUAL TABLE words USING fts5 (key, text, tokenize = 'porter unicode61 remove_diacritics 2');
PRAGMA user_version = {FORMAT};
COMMIT;
"""


@dataclass(frozen=True, slots=True)
class Found:
    """A passage that was found: of which key, who wrote that and when, and the part of it that speaks of the query.

    ``score`` says how well it fits, the higher the better; it compares the results of one search alone.
    """

    key: str
    kind: str
    agent: str | None
    time: datetime | None
    snippet: str
    score: float


@dataclass(frozen=True, slots=True)
class Wanted:
    """The words to search for, and where."""

    query: str
    prefix: str = ""
    agent: str | None = None
    kind: str | None = None
    since: datetime | None = None
    limit: int = 10

    def __post_init__(self) -> None:
        expect(str, query=self.query, prefix=self.prefix)
        expect(str | None, agent=self.agent, kind=self.kind)
        expect_utf8(prefix=self.prefix, agent=self.agent, kind=self.kind)
        expect(datetime | None, since=self.since)
        expect(int, limit=self.limit)
        if not 1 <= self.limit <= 1_000:
            raise InvalidRequest(f"limit is {self.limit}: a search gives 1 to 1,000 entries")


class Index:
    """One index, by the path of its file. An index that is damaged, or of another format, is made anew.

    With ``meaning`` it has vectors, too; all who use the file must have it then.
    """

    def __init__(self, path: Path, meaning: Meaning | None = None) -> None:
        self.path = path
        self._meaning = meaning

    def state(self) -> tuple[str | None, str]:
        """Up to which state of the space it goes (None: it is empty), and of which purges its files hold nothing."""
        with self._open() as db:
            token, purged = db.execute("SELECT token, purged FROM state").fetchone()
        return token, purged

    def begin(self, before: str | None, gone: Iterable[str], *, anew: bool) -> str | None:
        """Begin to bring it up to date from the state ``before``, and take out the keys that are ``gone``.

        Returns a name for :meth:`add` and :meth:`end`; None: somebody else is at it, or has done it. ``anew``: it is
        emptied first.
        """
        with self._changing() as db:
            token, builder, beat_s = db.execute("SELECT token, builder, beat_s FROM state").fetchone()
            if token != before or (builder is not None and abs(time.time() - beat_s) < _DEAD_S):
                return None
            name = token_hex(8)
            if anew:
                db.execute("DELETE FROM words")
                db.execute("DELETE FROM vectors")
                db.execute("DELETE FROM passages")
                db.execute("DELETE FROM marks")
            for key in gone:
                _remove(db, key)
            state = (None if anew else token, name, time.time())
            db.execute("UPDATE state SET token = ?, builder = ?, beat_s = ?", state)
            return name

    def add(self, builder: str, entries: Iterable[Entry], *, anew: bool = False) -> bool:
        """Put in entries, in the place of what was there of their keys; False: somebody else is at it by now.

        ``anew``: it began empty, so nothing is there of them.
        """
        with self._changing() as db:
            if db.execute("SELECT builder FROM state").fetchone()[0] != builder:
                return False
            for entry in entries:
                said = entry.value if isinstance(entry.value, Said) else None
                if not (anew or (said is not None and said.is_more)):
                    _remove(db, entry.key)
                rows = _add(db, entry)
                if said is not None and said.mark is not None:
                    db.execute("INSERT OR REPLACE INTO marks VALUES (?, ?, ?)", (entry.key, *said.mark))
                if self._meaning is not None:
                    texts = [f"{' '.join(terms(entry.key))} {text}" for text in rows.values()]
                    vectors = zip(rows, self._meaning.vectors(texts), strict=True)
                    db.executemany("INSERT INTO vectors (id, vector) VALUES (?, ?)", vectors)
            db.execute("UPDATE state SET beat_s = ?", (time.time(),))
            return True

    def mark(self, key: str) -> Mark | None:
        """Up to where a saved session was read; None: it must be read from its beginning."""
        with self._open() as db:
            found: Mark | None = db.execute("SELECT elements, mark FROM marks WHERE key = ?", (key,)).fetchone()
        return found

    def end(self, builder: str, token: str, purged: str) -> bool:
        """From now on it is of the state ``token``; False as of :meth:`add`. If ``purged`` names other purges than
        before, its files lose all that was ever taken out.
        """
        with self._changing() as db:
            (known,) = db.execute("SELECT purged FROM state").fetchone()
            ended = db.execute(
                "UPDATE state SET token = ?, builder = NULL, purged = ? WHERE builder = ?",
                (token, known if known == purged else UNFINISHED, builder),
            )
            if ended.rowcount != 1:
                return False
            if known != purged:
                db.execute("INSERT INTO words (words) VALUES ('optimize')")
        if known != purged:
            self._wipe(purged)
        return True

    def _wipe(self, purged: str) -> None:
        """Write the file anew. If the disk is full, or somebody still reads, the next search tries it again."""
        with self._open() as db, suppress(sqlite3.OperationalError):
            db.execute(f"PRAGMA busy_timeout = {_WIPE_BUSY_MS}")
            db.execute("VACUUM")
            (is_busy, *_) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not is_busy:
                db.execute("UPDATE state SET purged = ?", (purged,))

    def search(self, wanted: Wanted) -> list[Found]:
        """The best passage of each of the best keys, best first; equal ones by key."""
        asked = list(dict.fromkeys(terms(wanted.query)))[:_TERMS_MAX]
        if not asked:
            return []
        with self._open() as db:
            best = self._best(db, wanted, asked, _CANDIDATES * wanted.limit)
            if len(best) < wanted.limit:  # one long session may have all of the best passages
                best = self._best(db, wanted, asked, _RANKED_MAX)
        return best

    def _best(self, db: sqlite3.Connection, wanted: Wanted, asked: Sequence[str], most: int) -> list[Found]:
        """The best of at most so many passages."""
        scores = _by_words(db, asked, wanted, most)
        if self._meaning is not None:
            scores = _fused(scores, _by_meaning(db, self._meaning, wanted))
        best: dict[str, Found] = {}
        for row, score in sorted(scores.items(), key=lambda pair: -pair[1]):
            key, kind, agent, time_ms, text = db.execute(
                "SELECT key, kind, agent, time_ms, text FROM passages WHERE id = ?", (row,)
            ).fetchone()
            if key not in best:
                written = datetime.fromtimestamp(time_ms / 1000, UTC) if time_ms else None
                best[key] = Found(key, kind, agent, written, snippet(text, asked), score)
            if len(best) == wanted.limit:
                break
        return list(best.values())

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")  # what raises before is rolled back as it is closed

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(self._connect()) as db:
                yield db
        except sqlite3.OperationalError as error:  # it is busy, or the disk is full: it is not the file's fault
            raise self._unusable(error) from error
        except sqlite3.DatabaseError:
            self.forget()
            raise

    def _unusable(self, error: Exception) -> CrdtSyncError:
        where = f"the search index {self.path} cannot be used"
        return CrdtSyncError(f"{where}: {error}; let XDG_CACHE_HOME name a folder that can be written")

    def _connect(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        except (OSError, ValueError) as error:
            raise self._unusable(error) from error
        db = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None)
        try:
            db.execute("PRAGMA synchronous = NORMAL")  # what a power cut takes from a cache is made again
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version not in (0, FORMAT):
                raise sqlite3.DatabaseError("of another format")
            if version == 0:
                with suppress(sqlite3.OperationalError):  # somebody else has just made it
                    db.executescript(_TABLES)
        except BaseException:
            db.close()
            raise
        return db

    def forget(self) -> None:
        """Remove the file: the next use begins anew."""
        for end in ("", "-wal", "-shm"):
            Path(f"{self.path}{end}").unlink(missing_ok=True)


def _by_words(db: sqlite3.Connection, asked: Sequence[str], wanted: Wanted, most: int) -> dict[int, float]:
    """At most so many passages that have one of the words, the best first, with how well they fit."""
    limits, values = _limits(wanted)
    join = "JOIN passages p ON p.id = words.rowid " if limits else ""
    limits += "" if hidden_by(wanted.prefix) else " AND words.rowid > 0"
    rows = db.execute(
        f"SELECT words.rowid, -bm25(words, {_KEY_WEIGHT}, {_TEXT_WEIGHT}) AS fit "
        f"FROM words {join}WHERE words MATCH ?{limits} ORDER BY fit DESC, words.rowid LIMIT ?",
        (" OR ".join(_rare(db, asked)), *values, most),
    )
    return dict(rows.fetchall())


def _rare(db: sqlite3.Connection, asked: Sequence[str]) -> list[str]:
    """The rarer of the words, so that no more passages are ranked than can be done while somebody waits: a word that
    most have tells little of any.
    """
    times = []
    for term in (f'"{one}"' for one in asked):
        (count,) = db.execute("SELECT COUNT(*) FROM words WHERE words MATCH ?", (term,)).fetchone()
        times.append((count, term))
    times.sort()
    sums = accumulate(count for count, _ in times)
    return [term for (_, term), ranked in zip(times, sums, strict=True) if ranked <= _RANKED_MAX] or [times[0][1]]


def _by_meaning(db: sqlite3.Connection, meaning: Meaning, wanted: Wanted) -> dict[int, float]:
    """The passages that say most nearly the same, likewise."""
    limits, values = _limits(wanted)
    limits += "" if hidden_by(wanted.prefix) else " AND p.id > 0"
    rows = db.execute(
        f"SELECT p.id, v.vector FROM vectors v JOIN passages p ON p.id = v.id WHERE 1{limits} ORDER BY v.id",
        values,
    ).fetchall()
    if not rows:
        return {}
    likeness = meaning.likeness([vector for _, vector in rows], wanted.query)
    best = (-likeness).argsort(kind="stable")[: _CANDIDATES * wanted.limit]
    return {rows[at][0]: float(likeness[at]) for at in best if likeness[at] >= _LIKENESS_MIN}


def _fused(words: Mapping[int, float], meaning: Mapping[int, float]) -> dict[int, float]:
    """Both, by their ranks alone, since the scores have nothing to do with each other (Cormack, Clarke and Büttcher,
    "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods", 2009).
    """
    fused: dict[int, float] = {}
    for ranked, weight in ((words, 1.0), (meaning, _MEANING_WEIGHT)):
        for rank, row in enumerate(ranked):
            fused[row] = fused.get(row, 0.0) + weight / (_RANK + rank)
    return fused


def snippet(text: str, asked: Sequence[str]) -> str:
    """The part of a passage in which the most words of the query stand, in one line."""
    line = " ".join(text.split())
    if len(line) <= _SNIPPET_CHARS:
        return line
    lowered = line.lower()
    places = sorted(at for term in asked if (at := lowered.find(term)) >= 0) or [0]
    begin = max(
        (max(0, at - _SNIPPET_CHARS // 4) for at in places),
        key=lambda start: sum(start <= at < start + _SNIPPET_CHARS for at in places),
    )
    shown = line[begin : begin + _SNIPPET_CHARS]
    return f"{'…' if begin else ''}{shown}{'…' if begin + _SNIPPET_CHARS < len(line) else ''}"


def _limits(wanted: Wanted) -> tuple[str, list[object]]:
    limits: list[tuple[str, object]] = []
    if wanted.prefix:
        limits += [(" AND SUBSTR(p.key, 1, ?)", len(wanted.prefix)), (" = ?", wanted.prefix)]
    if wanted.agent is not None:
        limits.append((" AND p.agent = ?", wanted.agent))
    if wanted.kind is not None:
        limits.append((" AND p.kind = ?", wanted.kind))
    if wanted.since is not None:
        limits.append((" AND p.time_ms >= ?", int(wanted.since.timestamp() * 1000)))
    return "".join(words for words, _ in limits), [value for _, value in limits]


def _add(db: sqlite3.Connection, entry: Entry) -> dict[int, str]:
    """Put in the passages of ``entry``; they by their rows."""
    written = int(entry.time.timestamp() * 1000) if entry.time else 0
    is_hidden = hidden_by(entry.key) and not isinstance(entry.value, Said)
    key, next_id = " ".join(terms(entry.key)), _NEXT_HIDDEN if is_hidden else _NEXT
    added: dict[int, str] = {}
    for text, said in passages(entry):
        row = db.execute(
            f"INSERT INTO passages (id, key, kind, agent, time_ms, text) VALUES (({next_id}), ?, ?, ?, ?, ?)",
            (entry.key, entry.kind, entry.agent, _milliseconds(said) or written, text),
        ).lastrowid
        assert row is not None
        db.execute("INSERT INTO words (rowid, key, text) VALUES (?, ?, ?)", (row, key, " ".join(terms(text))))
        added[row] = text
    return added


def _milliseconds(time: str) -> int:
    """A time that an agent wrote down, since 1970; 0: it is none."""
    try:
        found = datetime.fromisoformat(time)
        return min(max(0, int(found.replace(tzinfo=found.tzinfo or UTC).timestamp() * 1000)), _TIME_MS_MAX)
    except (ValueError, OverflowError):
        return 0


def _remove(db: sqlite3.Connection, key: str) -> None:
    for table, row in (("words", "rowid"), ("vectors", "id")):
        db.execute(f"DELETE FROM {table} WHERE {row} IN (SELECT id FROM passages WHERE key = ?)", (key,))
    for table in ("passages", "marks"):
        db.execute(f"DELETE FROM {table} WHERE key = ?", (key,))
