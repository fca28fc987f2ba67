"""Source code: signatures, docstrings and imports stay; bodies are left out, but for what a query asks for.

    def pay(invoice: Invoice, *, dry_run: bool = False) -> Receipt:
        \"\"\"Pay an invoice once.\"\"\"
        …  # 31 lines left out (12-42)

A grammar of tree-sitter says where a body begins and ends. Code in a language without an installed grammar is told by
its indentation: what is deeper than a definition's first lines is its body.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import import_module
from typing import Any

from crdtsync.context.compact.result import CompactDraft
from crdtsync.context.compact.words import content_words, words

_LANGUAGES = {
    "python": (r"^\s*(def \w+\(.*:|from [\w.]+ import |import \w+$|class \w+.*:$|async def )", "tree_sitter_python"),
    "typescript": (r"^\s*(interface \w+ \{|type \w+ =|.*\): \w+ \{|export (type|interface))", "tree_sitter_typescript"),
    "javascript": (r"^\s*(const \w+ = |function |let |var |export |import .* from )", "tree_sitter_javascript"),
    "go": (r"^(package \w+$|func |import \()", "tree_sitter_go"),
    "rust": (r"^\s*(fn |pub fn |impl |use \w+::|let mut |pub struct )", "tree_sitter_rust"),
    "java": (r"^\s*(public |private |protected |import java|package [\w.]+;)", "tree_sitter_java"),
    "c": (r"^\s*(#include |#define |static |void \w+\(|int \w+\()", "tree_sitter_c"),
}
_BODIES = {"block", "statement_block", "compound_statement", "function_body", "constructor_body"}
_OWNERS = re.compile(r"function|method|constructor|fn_item|func_literal|arrow_function|lambda")
_OPENS = re.compile(r"(async )?(def|fn|func|function|sub)\b|.*\)\s*(->.*)?[{:]$")
_LINE_MAX = 500  # characters of a line that opens something
_BODY_MIN = (6, 3, 2, 2, 2)  # lines from which on a body is left out, by level
_DOC_MAX = (10**9, 4, 2, 1, 0)  # lines of the comment at the beginning of a body that stay, by level


def compact_code(text: str, level: int, query: str | None) -> CompactDraft:
    """``text``, source code of some language, at ``level``."""
    lines = text.split("\n")
    asked = content_words(query or "")
    left_out: list[str] = []
    out: list[str] = []
    at = 0
    for begin, last in _bodies(text, lines):
        if begin < at:
            continue
        first = begin + min(_documentation(lines, begin, last), _DOC_MAX[level])
        if last - first + 1 < _BODY_MIN[level] or _is_asked(asked, lines[max(at, begin - 2) : last + 1]):
            continue
        out += lines[at:first]
        indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
        out.append(f"{indent}… {last - first + 1} lines ({first + 1}-{last + 1})")
        left_out.append(f"{first + 1}-{last + 1}")
        at = last + 1
    out += lines[at:]
    said = [f"the bodies in lines {', '.join(left_out[:200])}"] if left_out else []
    return CompactDraft(_squeezed(out, level), ["bodies left out"] if left_out else [], said)


def _is_asked(asked: set[str], lines: list[str]) -> bool:
    """Whether a definition is what the query asks for: half of its words, or a whole name, are there."""
    return bool(asked) and len(asked & words("\n".join(lines))) * 2 >= len(asked) + 1


def _squeezed(lines: list[str], level: int) -> str:
    """Without blank lines; from level 2 on also without lines that are only a comment."""
    kept = [line.rstrip() for line in lines if line.strip()]
    if level >= 2:
        kept = [line for line in kept if not re.match(r"\s*(#(?!include|define|!)|//|\*|/\*)", line)]
    return "\n".join(kept)


def _documentation(lines: list[str], first: int, last: int) -> int:
    """How many lines the docstring takes with which the body begins."""
    found = re.match(r"\s*[rbuf]?(\"\"\"|''')", lines[first], re.IGNORECASE) if first <= last else None
    if found is None:
        return 0
    rest = lines[first][found.end() :]
    if found[1] in rest:
        return 1
    return next((i - first + 1 for i in range(first + 1, last + 1) if found[1] in lines[i]), 0)


def _bodies(text: str, lines: list[str]) -> list[tuple[int, int]]:
    """The first and the last line of each body of a function, as indexes, outermost first."""
    parser = _parser(_language(lines))
    return _parsed(parser, text, lines) if parser is not None else _indented(lines)


def _language(lines: list[str]) -> str:
    """The language whose telling lines are the most, or "" if none has any."""
    head = [line[:_LINE_MAX] for line in lines[:2_000]]
    scores = {name: sum(re.search(looks, line) is not None for line in head) for name, (looks, _) in _LANGUAGES.items()}
    best = max(scores, key=lambda name: scores[name])
    return best if scores[best] else ""


@lru_cache(maxsize=16)
def _parser(language: str) -> Any:  # tree_sitter.Parser, where it is installed
    if not language:
        return None
    try:
        tree_sitter, grammar = import_module("tree_sitter"), import_module(_LANGUAGES[language][1])
    except ImportError:
        return None
    make = getattr(grammar, "language", None) or grammar.language_typescript
    return tree_sitter.Parser(tree_sitter.Language(make()))


def _parsed(parser: Any, text: str, lines: list[str]) -> list[tuple[int, int]]:
    tree = parser.parse(text.encode("utf-8", "replace"))
    bodies: list[tuple[int, int]] = []
    waiting = [tree.root_node]
    while waiting:
        node = waiting.pop()
        body = next((child for child in node.children if child.type in _BODIES), None)
        if body is not None and _OWNERS.search(node.type):
            first, last = body.start_point[0], body.end_point[0]
            signature = body.prev_sibling
            if body.children and body.children[0].type == "{":
                first += 1
            elif signature is not None and signature.end_point[0] == first:
                first += 1  # what stands in the line of the signature stays
            if lines[last].strip().startswith("}"):
                last -= 1
            if first <= last:
                bodies.append((first, last))
        waiting.extend(node.children)
    return sorted(bodies, key=lambda one: (one[0], -one[1]))


def _indented(lines: list[str]) -> list[tuple[int, int]]:
    """Bodies by indentation: what is deeper than a line that opens a function."""
    bodies = []
    open_at: list[tuple[int, int]] = []  # the depth of each function around the line, and its own line
    for i, line in enumerate([*lines, "end"]):
        said = line.lstrip()
        depth = len(line) - len(said)
        while said and open_at and open_at[-1][0] >= depth:
            _, begin = open_at.pop()
            if i - begin > 1:
                bodies.append((begin + 1, i - 1))
        if len(said) <= _LINE_MAX and _OPENS.match(said):
            open_at.append((depth, i))
    return sorted(bodies)
