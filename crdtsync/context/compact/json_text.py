"""JSON in fewer tokens: arrays of records as tables, other objects as indented lines, long strings cut.

    {"user": {"name": "Ann", "tags": ["a", "b"]}, "items": [{"id": 1, "n": 2}, {"id": 2, "n": 5}]}

becomes

    user:
     name: Ann
     tags: [a, b]
    items: 2 rows; id counts from 1
     n
     2
     5

At level 0 nothing is left out. From level 1 on, strings are cut, and from level 2 on, rows and elements from the
middle: those that speak of errors, or differ from most, stay. A long string that is itself a log, code or JSON, such as
the answer of a tool in a transcript, is made compact as that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from crdtsync.context.compact.code import compact_code
from crdtsync.context.compact.detect import detect, is_json_lines
from crdtsync.context.compact.logs import compact_log
from crdtsync.context.compact.result import CompactDraft
from crdtsync.context.compact.tables import as_table, cell, is_table
from crdtsync.context.compact.words import content_words, is_telling, words

_LEAF_MAX = (10**9, 300, 200, 120, 60)  # characters of a string, by level
_LEAVES_MAX = (10**9, 120_000, 10_000, 3_000, 1_000)  # characters of all long strings: of few, each may have more
_REPORT_TIMES = 3  # a log, code or JSON within a string may have so much more, since it is compact already
_ROWS_MAX = (10**9, 10**9, 120, 40, 12)  # rows of a table and elements of a list, by level
_DEPTH_MAX = 60  # beyond it, compact JSON in one line


def compact_json(text: str, level: int, query: str | None) -> CompactDraft:
    """``text``, which is JSON or lines of JSON, at ``level``."""
    reports = {"log": compact_log, "code": compact_code, "json": _compact_inner}
    writer = _Writer(level, content_words(query or ""), asked=query, reports=reports)
    return _compacted(text, writer)


def _compact_inner(text: str, level: int, query: str | None) -> CompactDraft:
    """JSON within a string of JSON; a string in there is only cut, however often somebody put one into another."""
    return _compacted(text, _Writer(level, content_words(query or "")))


def _compacted(text: str, writer: _Writer) -> CompactDraft:
    value = [json.loads(line) for line in text.split("\n") if line.strip()] if is_json_lines(text) else json.loads(text)
    writer.long_strings = sum(len(one) > _LEAF_MAX[writer.level] for one in _strings(value))
    lines = writer.value(value, 0)
    return CompactDraft("\n".join(lines), list(dict.fromkeys(writer.transforms)), writer.said())


def _strings(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        else:
            waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()


@dataclass
class _Writer:
    level: int
    query: set[str]
    transforms: list[str] = field(default_factory=lambda: ["json as lines"])
    asked: str | None = None
    reports: Mapping[str, Callable[[str, int, str | None], CompactDraft]] = field(default_factory=dict)
    long_strings: int = 0
    parts_left_out: int = 0
    strings_cut: int = 0
    characters_cut: int = 0
    rows_cut: int = 0

    def said(self) -> list[str]:
        left_out = []
        if self.parts_left_out:
            left_out.append(f"parts of {self.parts_left_out:,} logs and sources in strings")
        if self.strings_cut:
            left_out.append(f"the ends of {self.strings_cut:,} long strings ({self.characters_cut:,} characters)")
        if self.rows_cut:
            left_out.append(f"{self.rows_cut:,} rows and elements of lists")
        return left_out

    def value(self, value: object, depth: int) -> list[str]:
        if depth > _DEPTH_MAX:
            return [json.dumps(value, ensure_ascii=False, separators=(",", ":"))]
        if isinstance(value, dict) and value:
            return self._record(value, depth)
        if isinstance(value, list) and value:
            return self._table(value) if is_table(value) else self._list(value, depth)
        return [self._leaf(value)]

    def _record(self, record: dict[str, Any], depth: int) -> list[str]:
        lines = []
        for name, value in record.items():
            inner = self.value(value, depth + 1)
            shown = cell(name)
            if len(inner) == 1 and not (isinstance(value, dict) and value):
                lines.append(f"{shown}: {inner[0]}")
            elif is_table(value):
                lines += [f"{shown}: {inner[0]}", *(f" {line}" for line in inner[1:])]
            else:
                lines += [f"{shown}:", *(f" {line}" for line in inner)]
        return lines

    def _table(self, records: list[dict[str, Any]]) -> list[str]:
        records = [self._shortened(record) for record in records]
        lines, transforms = as_table(records, self._kept(records))
        self.transforms += transforms
        return lines

    def _list(self, values: list[Any], depth: int) -> list[str]:
        kept = self._kept(values)
        if not any(isinstance(value, dict | list) and value for value in values):
            leaves = [self._leaf(values[i]) for i in kept]
            left = len(values) - len(kept)
            return [f"[{', '.join(leaves)}{f', … {left:,} left out' if left else ''}]"]
        lines, last = [], -1
        for i in kept:
            if i - last > 1:
                lines.append(f"[… {i - last - 1:,} left out]")
            inner = self.value(values[i], depth + 1)
            lines += [f"- {inner[0]}", *(f"  {line}" for line in inner[1:])]
            last = i
        left = len(values) - 1 - last
        return [*lines, f"[… {left:,} left out]"] if left else lines

    def _leaf(self, value: object) -> str:
        return cell(self._cut(value) if isinstance(value, str) else value)

    def _shortened(self, value: Any) -> Any:  # JSON of any shape
        if not self.long_strings:
            return value
        if isinstance(value, str):
            return self._cut(value)
        if isinstance(value, dict):
            return {name: self._shortened(inner) for name, inner in value.items()}
        return [self._shortened(inner) for inner in value] if isinstance(value, list) else value

    def _cut(self, text: str) -> str:
        if len(text) <= _LEAF_MAX[self.level]:
            return text
        most = max(_LEAF_MAX[self.level], _LEAVES_MAX[self.level] // max(1, self.long_strings))
        if (kind := detect(text)) in self.reports:
            draft = self.reports[kind](text, self.level, self.asked)
            self.transforms += draft.transforms
            self.parts_left_out += bool(draft.left_out)
            text, most = draft.text, most * _REPORT_TIMES
        if len(text) <= most:
            return text
        self.strings_cut += 1
        self.characters_cut += len(text) - most
        self.transforms.append("long strings cut")
        return f"{text[: most * 2 // 3]}…[{len(text):,} characters]…{text[len(text) - most // 3 :]}"

    def _kept(self, values: list[Any]) -> list[int]:
        """Which of ``values`` are shown: all, or the first, the last and the most telling ones, in their order."""
        most = _ROWS_MAX[self.level]
        if len(values) <= most:
            return list(range(len(values)))
        self.rows_cut += len(values) - most
        self.transforms.append("rows left out")
        ends = {*range(most // 3), *range(len(values) - most // 6, len(values))}
        rest = [i for i in range(len(values)) if i not in ends]
        rest.sort(key=lambda i: (-self._score(values[i]), i))
        return sorted(ends | set(rest[: most - len(ends)]))

    def _score(self, value: object) -> int:
        text = json.dumps(value, ensure_ascii=False)
        return (2 * len(self.query & words(text)) if self.query else 0) + is_telling(text)
