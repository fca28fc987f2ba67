"""Questions about the texts of :mod:`benchmarks.context.corpora`, each with the string that answers it.

They are drawn evenly, by rules that know nothing of what is left out:

- ``json``: a field of a record that some other field names: the answer must stand in that record's row, or in what is
  said of all rows; of a string of over 120 characters, six words from its middle
- ``log``, ``transcript``: how a line goes on that does not report a test that passed
- ``traceback``: what was raised, and in which file and line
- ``code``: the signature of a function, the first sentence of its docstring; and a line of its body, for which the
  question itself is handed to ``compress`` as the query, as whoever asks it would
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from benchmarks.context.corpora import Text
from crdtsync.context import compress

QUESTIONS = {"json": 65, "log": 25, "traceback": 40, "code": 50, "transcript": 20}
MODEL = "gpt-5"
_LONG_CHARS, _LINE_CHARS_MIN, _LINE_CHARS_MAX = 120, 16, 160
_PASSED = re.compile(r"\bPASSED\b|\.\.\. ok$|--- PASS")
_RULER = re.compile(r"([-=_*#~])\1{8,}")
_ROWS = re.compile(r"^.{0,60}\b[\d,]+ rows\b")
_FRAME = re.compile(r'File "(?:[^"]*/)?([^"/]+)", line (\d+), in (\S+)')

T = TypeVar("T")


class Question(NamedTuple):
    """What is asked of a text; ``is_answered`` says of the compact text whether the answer is in there."""

    text: Text
    asked: str
    is_answered: Callable[[str], bool]
    is_query: bool = False


def questions(corpora: Mapping[str, Sequence[Text]]) -> dict[str, list[Question]]:
    """200 questions, of each kind as many as ``QUESTIONS`` says."""
    found: dict[str, list[Question]] = {}
    for kind, wanted in QUESTIONS.items():
        each = [list(_OF_KIND[kind](text)) for text in corpora[kind]]
        places = [place for place in each if place]
        share = -(-wanted // len(places))
        found[kind] = list(islice(_by_turns([_drawn(place, share) for place in places]), wanted))
    return found


def answered(asked: Sequence[Question]) -> list[Question]:
    """Those whose answer is still in the compact text."""
    texts: dict[str, str] = {}
    good = []
    for one in asked:
        if one.is_query:
            short = compress(one.text.content, model=MODEL, query=one.asked).text
        else:
            if one.text.name not in texts:
                texts[one.text.name] = compress(one.text.content, model=MODEL).text
            short = texts[one.text.name]
        if one.is_answered(short):
            good.append(one)
    return good


def _drawn(values: Sequence[T], wanted: int) -> list[T]:
    """So many of ``values``, evenly."""
    return [values[int(i * len(values) / wanted)] for i in range(wanted)] if len(values) > wanted else list(values)


def _by_turns(places: Sequence[Sequence[T]]) -> Iterator[T]:
    for turn in range(max(map(len, places), default=0)):
        yield from (place[turn] for place in places if turn < len(place))


def _of_json(text: Text) -> Iterator[Question]:
    value = json.loads(text.content)
    lists = [value] if isinstance(value, list) else [one for one in value.values() if isinstance(one, list)]
    for records in lists:
        leaves = [dict(leaves_of(record)) for record in records if isinstance(record, dict)]
        times = Counter(leaf for record in leaves for leaf in record.values())
        for record in leaves:
            names = [leaf for leaf in record.values() if times[leaf] == 1 and 4 <= len(leaf) <= 60 and leaf.isascii()]
            for field, leaf in record.items():
                if names and leaf != names[0] and len(leaf) >= 3:
                    answer = " ".join(leaf.split()[len(leaf.split()) // 2 :][:6]) if len(leaf) > _LONG_CHARS else leaf
                    yield Question(text, f"What is {field} of {names[0]}?", in_row(names[0], answer))


def leaves_of(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The path and the text of each number and string."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves_of(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from leaves_of(inner, f"{path}.{number}")
    elif value not in (None, True, False):
        yield path, str(value)


def in_row(name: str, answer: str) -> Callable[[str], bool]:
    """In the row that has ``name``, read as a reader reads a table: with what all rows have, and its letters."""

    def look(short: str) -> bool:
        plain = answer.replace("\n", " ")
        return any(name in row and plain in row for row in _rows(short))

    return look


def _rows(short: str) -> Iterator[str]:
    """The rows of all tables, each in full."""
    begins: dict[str, str] = {}
    letters: dict[str, dict[str, str]] = {}
    names: list[str] = []
    always = ""
    for line in short.replace("\\n", " ").replace('\\"', '"').split("\n"):
        noted = _ROWS.search(line)
        if noted is not None:
            notes = re.split(r"; (?=\S+ begins with |in \S+: [A-Z]{1,2}=|[^\s;=]+=.*? in all|\S+ counts from )", line)
            begins = dict(found.groups() for note in notes if (found := re.search(r"(\S+) begins with (.*)", note)))  # type: ignore[misc]
            letters = {
                found[1]: _letters(found[2]) for note in notes if (found := re.fullmatch(r"in (\S+): (.*)", note))
            }
            always, names = line, []
        elif not names and always:
            names = line.strip().split("|")
        elif always:
            cells = line.strip().split("|")
            if len(cells) == len(names):
                pairs = zip(names, cells, strict=True)
                cells = [begins.get(name, "") + _told(cell, letters.get(name, {})) for name, cell in pairs]
            yield f"{'|'.join(cells)}|{always}"


def _letters(note: str) -> dict[str, str]:
    parts = re.split(r"(?:^|; )([A-Z]{1,2})=", note)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _told(cell: str, letters: Mapping[str, str]) -> str:
    if cell[:1] != "[":
        return letters.get(cell, cell)
    return ", ".join(letters.get(part, part) for part in cell[1:-1].split(", "))


def _of_lines(text: Text) -> Iterator[Question]:
    for line in _lines(text.content):
        if not _PASSED.search(line) and _LINE_CHARS_MIN <= len(line) <= _LINE_CHARS_MAX and len(line.split()) > 2:
            words = line.split()
            yield Question(text, f"What follows {' '.join(words[:-2])!r}?", has(" ".join(words[-2:])))


def _lines(content: str) -> Iterator[str]:
    """The lines of a log, or of all that tools answered in a transcript."""
    if not content.startswith("{"):
        yield from content.splitlines()
        return
    for record in map(json.loads, content.splitlines()):
        for part in record["content"]:
            if part["type"] == "tool_result" and not part["content"].startswith("["):
                yield from part["content"].splitlines()


def has(answer: str) -> Callable[[str], bool]:
    """Anywhere, in these words."""
    answer = _RULER.sub(r"\1\1\1", answer)

    def look(short: str) -> bool:
        return answer in short or answer in " ".join(short.replace("\\n", " ").replace('\\"', '"').split())

    return look


def _of_traces(text: Text) -> Iterator[Question]:
    for trace in re.split(r"Traceback \(most recent call last\):\n", text.content)[1:]:
        frames = _FRAME.findall(trace)
        raised = re.search(r"^[\w.]+(?:Error|Exception|Warning)\b.*$", trace, re.MULTILINE)
        if frames and raised:
            file, line, function = frames[-1]
            yield Question(text, f"What was raised in {function} at line {line}?", has(raised[0]))
            yield Question(text, f"Where was {raised[0]!r} raised?", has(f"{file}:{line} {function}"))


def _of_code(text: Text) -> Iterator[Question]:
    lines = text.content.splitlines()
    for node in ast.walk(ast.parse(text.content)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        yield Question(text, f"What does {node.name} take?", has(lines[node.lineno - 1].strip()))
        said = (ast.get_docstring(node) or "").split("\n")[0].strip()
        if said:
            yield Question(text, f"What is {node.name} for?", has(said))
        returned = [one for one in ast.walk(node) if isinstance(one, ast.Return) and one.value is not None]
        if returned:
            answer = lines[returned[-1].lineno - 1].strip()
            yield Question(text, f"return of {node.name}", has(answer), is_query=True)


_OF_KIND: dict[str, Callable[[Text], Iterator[Question]]] = {
    "json": _of_json, "log": _of_lines, "traceback": _of_traces, "code": _of_code, "transcript": _of_lines,
}  # fmt: skip
