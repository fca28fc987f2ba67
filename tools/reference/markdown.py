"""Markdown from docstrings and rows: one sentence a line, so that a diff shows which sentence changed.

Docstrings here know a small part of reStructuredText: paragraphs, titles underlined with ``---``, lists with ``-``,
simple tables between lines of ``===``, indented blocks after ``::``, and ``:param name:`` fields at the end. For
example, ``See :mod:`crdtsync.wire.peer`. It is small.`` becomes two lines, the first with `` `crdtsync.wire.peer` ``.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence

_ROLE = re.compile(r":\w+:`~?([^`]+)`")
_LITERAL = re.compile(r"``(.+?)``", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.!?]) +(?=[A-Z`*\[])")
_FIELD = re.compile(r"^:param (\w+): (.*(?:\n {4}.*)*)$", re.MULTILINE)
_FIRST_FIELD = re.compile(r"^:\w+.*:", re.MULTILINE)
_RULE = re.compile(r"^=+( +=+)+$")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a cell is Markdown already."""
    escaped = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in (head, *rows)]
    escaped.insert(1, ["---"] * len(head))
    return "\n".join(f"| {' | '.join(row)} |" for row in escaped)


def with_table(text: str, made: str) -> str:
    """A page with one of its tables made anew: the one with the same head.

    :raises ValueError: the page has none or several.
    """
    head = made.partition("\n")[0]
    lines = text.splitlines()
    if lines.count(head) != 1:
        raise ValueError(f"{lines.count(head)} tables begin with {head}: there must be one")
    first = lines.index(head)
    end = next((at for at in range(first, len(lines)) if not lines[at].startswith("|")), len(lines))
    return "\n".join([*lines[:first], made, *lines[end:]]) + "\n"


def with_section(text: str, heading: str, made: str) -> str:
    """A page with all that is between a heading and the next one made anew."""
    lines = text.splitlines()
    first = lines.index(heading) + 1
    end = next((at for at in range(first, len(lines)) if lines[at].startswith("#")), len(lines))
    rest = ["", *lines[end:]] if end < len(lines) else []
    return "\n".join([*lines[:first], "", made.strip(), *rest]) + "\n"


def inline(text: str) -> str:
    """A piece of a docstring, on one line."""
    return _LITERAL.sub(r"`\1`", _ROLE.sub(r"`\1`", " ".join(text.split())))


def sentences(text: str) -> str:
    """A paragraph of a docstring, each sentence on a line of its own."""
    return _SENTENCE_END.sub("\n", inline(text))


def docstring(thing: object) -> str:
    """The docstring of a module, class or function, without its fields and their like."""
    text = inspect.getdoc(thing) or ""
    first = _FIRST_FIELD.search(text)
    return (text if first is None else text[: first.start()]).strip()


def summary(thing: object) -> str:
    """The first paragraph of a docstring."""
    return inline(docstring(thing).partition("\n\n")[0])


def parameters(thing: object) -> dict[str, str]:
    """What a docstring says of each parameter or field."""
    return {name: inline(text) for name, text in _FIELD.findall(inspect.getdoc(thing) or "")}


def prose(text: str, level: int = 2) -> str:
    """A docstring as Markdown; its titles become headings of that level."""
    blocks: list[str] = []
    is_literal = False
    for block in re.split(r"\n{2,}", text.strip("\n")):
        if is_literal and block.startswith(" "):
            blocks.append(f"```text\n{textwrap.dedent(block).rstrip()}\n```")
            continue
        is_literal = block.endswith("::")
        blocks.append(_block(block.removesuffix(":") if is_literal else block, level))
    return "\n\n".join(blocks)


def _block(block: str, level: int) -> str:
    lines = block.splitlines()
    if len(lines) == 2 and set(lines[1]) == {"-"}:
        return f"{'#' * level} {inline(lines[0])}"
    if _RULE.match(lines[0]):
        return _simple_table(lines)
    if lines[0].startswith("- "):
        return "\n".join(f"- {inline(item)}" for item in re.split(r"^- ", block, flags=re.MULTILINE)[1:])
    return sentences(block)


def _simple_table(lines: list[str]) -> str:
    starts = [match.start() for match in re.finditer("=+", lines[0])]
    ends = [*starts[1:], None]

    def cells(line: str) -> list[str]:
        return [inline(line[start:end]) for start, end in zip(starts, ends, strict=True)]

    rules = [number for number, line in enumerate(lines) if _RULE.match(line)]
    return table(cells(lines[1]), [cells(line) for line in lines[rules[1] + 1 : rules[2]]])
