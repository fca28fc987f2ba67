"""``./dev bench recall``: how often a search finds what is asked for: by words, by meaning, and by both.

Entries are functions of Python's standard library without their docstrings, 1,000 characters of each. The question
for each is the first sentence of its docstring, where that has 5 to 40 words. Some 300 questions are drawn evenly from
all, and it counts those whose function is among the first ten. Nothing of it was written for this. ``plain`` is
SQLite's full-text search as it comes, with stems of English words, ``meaning`` the vectors alone. It fails unless the
search with both finds more than either.
"""

from __future__ import annotations

import ast
import json
import re
import sqlite3
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

from crdtsync.client import Entry
from crdtsync.context.search.index import Index, Wanted, _by_meaning
from crdtsync.context.search.meaning import Meaning

ROOT = Path(__file__).parents[1]
FOLDERS = ("", "asyncio", "concurrent", "email", "http", "importlib", "json", "logging", "multiprocessing", "unittest",
           "urllib", "xml")  # fmt: skip
QUESTIONS, FIRST = 300, 10
_CHARS, _CHARS_MIN = 1_000, 200
_WORDS_MIN, _WORDS_MAX = 5, 40


def functions() -> Iterator[tuple[str, str]]:
    """Question and answer: what a function's docstring says first, and its source without the docstring."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(path for folder in FOLDERS for path in (root / folder).glob("*.py")):
        source = path.read_text("utf-8", "replace")
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            said = ast.get_docstring(node) or ""
            question = " ".join(re.split(r"(?<=\.)\s|\n\n", said)[0].split())
            whole = ast.get_source_segment(source, node) or ""
            body = whole.replace(ast.get_source_segment(source, node.body[0]) or whole, "")
            if _WORDS_MIN <= len(question.split()) <= _WORDS_MAX and len(body) >= _CHARS_MIN:
                yield question, body[:_CHARS]


def measure() -> dict[str, float]:
    """How many questions about how many functions, and which share of them each way of searching answers."""
    asked = list(functions())
    chosen = range(0, len(asked), max(1, len(asked) // QUESTIONS))
    meaning = Meaning()
    now = datetime.now(UTC)
    entries = [
        Entry(f"f/{number}", "register", body, None, None, [], "ann", None, now, None, None, None)
        for number, (_, body) in enumerate(asked)
    ]
    plain = sqlite3.connect(":memory:")
    plain.execute("CREATE VIRTUAL TABLE texts USING fts5 (text, tokenize = 'porter unicode61')")
    plain.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", enumerate(body for _, body in asked))
    found = {"plain": 0, "words": 0, "meaning": 0, "both": 0}
    with tempfile.TemporaryDirectory() as folder:
        indexes = {"words": Index(Path(folder) / "words"), "both": Index(Path(folder) / "both", meaning)}
        for index in indexes.values():
            builder = index.begin(None, (), anew=True)
            assert builder is not None
            assert index.add(builder, entries)
            assert index.end(builder, "t", "")
        with indexes["both"]._open() as db:  # noqa: SLF001
            keys = dict(db.execute("SELECT id, key FROM passages"))
            for number in chosen:
                wanted, key = Wanted(asked[number][0], limit=FIRST), f"f/{number}"
                terms = " OR ".join(f'"{word}"' for word in dict.fromkeys(re.findall(r"\w+", wanted.query)))
                ranked = plain.execute(
                    "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT ?", (terms, FIRST)
                )
                found["plain"] += (number,) in ranked.fetchall()
                for name, index in indexes.items():
                    found[name] += key in {one.key for one in index.search(wanted)}
                alike = dict.fromkeys(keys[row] for row in _by_meaning(db, meaning, wanted))
                found["meaning"] += key in list(alike)[:FIRST]
    shares = {name: count / len(chosen) for name, count in found.items()}
    return {"questions": len(chosen), "functions": len(asked), **shares}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one object.")
def main(as_json: bool) -> None:
    """Count the questions whose answer is among the first ten that a search finds; exit status 1 if a search by words
    and meaning finds no more than plain full-text search, or vectors alone.

    It runs in an environment that has the vectors, and makes it first if there is none.
    """
    from tests.harness.frameworks import environment, python_with  # noqa: PLC0415  # not in that environment

    command = [str(python_with("meaning")), "-m", "benchmarks.recall"]
    done = subprocess.run(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout)
    if as_json:
        print(json.dumps(found))
    else:
        print(f"{found['questions']} questions about {found['functions']:,} functions; among the first {FIRST}:")
        for name in ("plain", "words", "meaning", "both"):
            print(f"  {name:8} {found[name]:6.1%}")
    if found["both"] <= max(found["plain"], found["meaning"]):
        raise SystemExit("the search finds no more than one of the two that it is made of")


if __name__ == "__main__":
    print(json.dumps(measure()))
