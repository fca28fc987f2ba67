"""Arrays of records as tables: each name once, and what all rows have in common once.

Two records of an API's answer:

    [{"id": 1, "state": "ok", "path": "/srv/app/a.py"}, {"id": 2, "state": "ok", "path": "/srv/app/b.py"}]

become

    2 rows; state=ok in all; path begins with /srv/app/
    id|path
    1|a.py
    2|b.py

A string that repeats in a column is written once and has a letter from then on (``A=connection reset by peer``).
A cell that could be taken for something else (a number in quotes, a bar, a line break) keeps its JSON quotes.
A record without a field has an empty cell there.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, product
from os.path import commonprefix
from typing import Any

_PREFIX_MIN = 6  # characters: a shorter one costs more to announce than it saves
_LETTERED_MIN = 12  # characters of a string that is worth a letter
_LETTERED_MAX = 200
_LETTER = re.compile(r"[A-Z]{1,2}")
_NEXT = ", "
_ELEMENT = re.compile(r'"(?:[^"\\]|\\.)*+"|[^",\s\[\]][^,\[\]]*+')
_OF_LISTS = re.compile(r"[,\[\]]")
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_PLAIN = re.compile(r"[^\s|\"~,{}\[\]=](?:[^|\n\r\"]*[^\s|\"])?")
_ALIKE = 0.5  # of the fields in the table, a record has at least this share


@dataclass(slots=True)
class _Column:
    """One field of the records, flattened: its cells as text, None where a record lacks it."""

    name: str
    cells: list[str | None]
    note: str = ""


def as_table(records: list[dict[str, Any]], shown: list[int]) -> tuple[list[str], list[str]]:
    """The lines of a table of ``records``, of which only the rows ``shown`` are written; and what was done."""
    flat = [_flat(record) for record in records]
    names = list(dict.fromkeys(name for record in flat for name in record))
    columns = [_Column(name, [cell(record[name]) if name in record else None for record in flat]) for name in names]
    transforms, notes, kept = ["table"], [f"{len(records):,} rows"], []
    for column in columns:
        done = _constant(column) or _counted(column)
        if done:
            notes.append(column.note)
            transforms.append(done)
            continue
        done = _prefixed(column) or _lettered(column)
        if done:
            notes.append(column.note)
            transforms.append(done)
        kept.append(column)
    lines = ["; ".join(notes)]
    if kept:
        lines.append("|".join(column.name for column in kept))
        lines += _rows(kept, shown)
    return lines, list(dict.fromkeys(transforms))


def is_table(value: object) -> bool:
    """Whether ``value`` is a list of records that are much alike."""
    if not isinstance(value, list) or len(value) < 2 or not all(isinstance(one, dict) and one for one in value):
        return False
    names = Counter(name for one in value for name in one)
    return sum(names.values()) >= _ALIKE * len(names) * len(value)


def cell(value: object) -> str:
    """One value as the text of a cell; quoted as in JSON where it would be taken for something else."""
    if value is None:
        return "~"
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) and not _looks_other(value) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, list) and value and not any(isinstance(one, dict | list) for one in value):
        return f"[{_NEXT.join(map(_element, value))}]"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _element(value: object) -> str:
    """One of a list: a comma, or a bracket, must not be taken for the list's own."""
    plain = cell(value)
    return json.dumps(value, ensure_ascii=False) if _OF_LISTS.search(plain) and plain[0] != '"' else plain


def _looks_other(text: str) -> bool:
    if text in ("true", "false", "null"):
        return True
    if text[0].isascii() and text[0] not in "0123456789+-.iInN":  # none of Python's: asking is slow
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True


def _flat(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """``{"a": {"b": 1}}`` as ``{"a.b": 1}``; empty objects and lists stay values."""
    found: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict) and value and len(prefix) < 200:
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def _rows(columns: list[_Column], shown: list[int]) -> list[str]:
    lines, last = [], -1
    for row in shown:
        if row - last > 1:
            lines.append(_gap(row - last - 1))
        lines.append("|".join("" if (text := column.cells[row]) is None else text for column in columns))
        last = row
    left = len(columns[0].cells) - 1 - last
    return [*lines, _gap(left)] if left else lines


def _gap(rows: int) -> str:
    return f"[… {rows:,} rows left out]"


def _constant(column: _Column) -> str:
    first = column.cells[0]
    if first is None or len(set(column.cells)) > 1:
        return ""
    column.note = f"{column.name}={first} in all"
    return "common values once"


def _counted(column: _Column) -> str:
    """A column of whole numbers, each one more than the one before."""
    first = column.cells[0]
    if first is None or not re.fullmatch(r"-?\d{1,15}", first):
        return ""
    start = int(first)
    if column.cells != [str(start + i) for i in range(len(column.cells))]:
        return ""
    column.note = f"{column.name} counts from {start}"
    return "counting column"


def _prefixed(column: _Column) -> str:
    texts = [text for text in column.cells if text is not None and text != "~"]
    if len(texts) < len(column.cells) or any(text[0] in '"[{' for text in texts):
        return ""
    prefix = _at_border(commonprefix(texts), texts)  # noqa: RUF071  # strings, no paths
    if len(prefix) < _PREFIX_MIN:
        return ""
    column.note = f"{column.name} begins with {prefix}"
    column.cells = [text[len(prefix) :] for text in texts]
    return "common prefixes once"


def _at_border(prefix: str, texts: list[str]) -> str:
    """``prefix`` up to a character that ends a part of it, so that no word or number is split; not all of a text."""
    if any(len(text) == len(prefix) for text in texts):
        prefix = prefix[:-1]
    while prefix and (prefix[-1].isalnum() or prefix[-1] == " "):
        prefix = prefix[:-1]
    return prefix


def _lettered(column: _Column) -> str:
    """A column whose cells, or the elements of its lists, repeat: those get letters."""
    whole = [text for text in column.cells if text is not None]
    counted = Counter(part for text in whole for part in _parts(text) if len(part) >= _LETTERED_MIN)
    often = [part for part, times in counted.most_common(_LETTERED_MAX) if times >= 3]
    taken = {part for text in whole for part in _parts(text) if _LETTER.fullmatch(part)}
    if not often or taken:
        return ""
    letters = dict(zip(often, _letters(), strict=False))
    column.note = f"in {column.name}: " + "; ".join(f"{letter}={part}" for part, letter in letters.items())
    column.cells = [None if text is None else _with_letters(text, letters) for text in column.cells]
    return "repeated strings once"


def _parts(text: str) -> list[str]:
    """The parts that may have a letter of their own: the elements of a list, else the cell."""
    parts = _ELEMENT.findall(text[1:-1]) if text[0] == "[" else []
    return parts if f"[{_NEXT.join(parts)}]" == text else [text]


def _with_letters(text: str, letters: dict[str, str]) -> str:
    parts = _parts(text)
    shown = _NEXT.join(letters.get(part, part) for part in parts)
    return shown if parts == [text] else f"[{shown}]"


def _letters() -> Iterator[str]:
    """A to Z, then AA to ZZ."""
    return chain(_LETTERS, map("".join, product(_LETTERS, repeat=2)))
