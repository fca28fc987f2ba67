"""Finds out what kind of content a text is, by its looks."""

from __future__ import annotations

import json
import re
from collections import Counter

KINDS = ("json", "log", "code", "diff", "html", "markdown", "prose")

_SAMPLE = 20_000  # characters that are looked at
_OFTEN = 8  # lines of one shape
_DIFF = re.compile(r"^(diff --git |--- \S.*\n\+\+\+ \S|@@ -\d+(,\d+)? \+\d+(,\d+)? @@)", re.MULTILINE)
_HTML = re.compile(r"<(!doctype html|html|head|body|div|table|p|ul|h[1-6])\b[^>]*>", re.IGNORECASE)
_LOG_LINE = re.compile(
    r"^\W{0,3}(\d{4}[-/]\d\d[-/]\d\d[T ]?|\d\d:\d\d:\d\d|[A-Z][a-z]{2} +\d+ \d\d:\d\d|\[? *\d+\.\d{3,}\]?)"
    r"|\b(DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|PASSED|FAILED|SKIPPED)\b"
    r"|\.\.\. (ok|FAIL|ERROR|skipped)\b|^\s*--- (PASS|FAIL|SKIP): "
    r"|^Traceback |^  File \"|^\s+at \S+\("
    r"|\[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d |^time=|^\w*(level|severity)=\w"
)
_NUMBER = re.compile(r"\d+")
_SAID = re.compile(r"[^\W\d_]{3,}.*[^\w][^\W\d_]{3,}")
_MARKDOWN = re.compile(r"^(#{1,6} \S|[-*+] \S|\d+\. \S|```|> \S|\|.*\|$)")
_CODE_LINE = re.compile(
    r"^\s*("
    r"(def|class|import|async|await|raise|function|const|let|var|export|public|private|func|fn|impl|use|package) "
    r"|from \S+ import |return\b|#include |struct |interface |@\w+|self\."
    r"|[\w.]+(: [\w\[\], |.]+)? [-+]?= "
    r"|(if|for|while|with|try|else|elif|except|switch|case)\b.*[:{]$|(if|for|while) ?\("
    r"|[}\])]+[;,:]?$|.*[;{]$|[\w.]+\(.*\)$"
    r")"
)


def detect(text: str) -> str:
    """One of :data:`KINDS`; "prose" where nothing else shows."""
    head = text[:_SAMPLE]
    if _is_json(text):
        return "json"
    if _DIFF.search(head):
        return "diff"
    if len(_HTML.findall(head)) >= 3:
        return "html"
    lines = [line for line in head.splitlines() if line.strip()]
    if not lines:
        return "prose"
    code = _share(lines, _CODE_LINE)
    if (_share(lines, _LOG_LINE) >= 0.4 and len(lines) >= 5) or (code < 0.8 and _repeats(lines)):
        return "log"
    if code >= 0.3:
        return "code"
    return "markdown" if _share(lines, _MARKDOWN) >= 0.1 else "prose"


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return is_json_lines(text)
    return True


def is_json_lines(text: str) -> bool:
    """Whether each line is a JSON object of its own, and there are at least two."""
    lines = text.split("\n")
    if len(lines) < 2 or not all(line.startswith("{") for line in lines[:3] if line):
        return False
    try:
        return all(isinstance(json.loads(line), dict) for line in lines if line.strip())
    except (ValueError, RecursionError):
        return False


def _repeats(lines: list[str]) -> bool:
    """Whether most lines say one of a few things of words, over and over, with other numbers."""
    shapes = Counter(_NUMBER.sub("0", line.strip()) for line in lines)
    often = sum(times for shape, times in shapes.items() if times >= _OFTEN and _SAID.search(shape))
    return often >= 0.6 * len(lines)


def _share(lines: list[str], pattern: re.Pattern[str]) -> float:
    return sum(pattern.search(line) is not None for line in lines) / len(lines)
