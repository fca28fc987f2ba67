"""One word for one thing: the glossary defines each once, and the pages leave its list of other words alone."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tools.check_docs import prose

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = (ROOT / "docs/reference/glossary.md").read_text(encoding="utf-8")
TERM = re.compile(r"^- \*\*([^*]+)\*\*", re.MULTILINE)
ROW = re.compile(r"^\| ([a-z][a-z ,]*) \| (.*) \|$", re.MULTILINE)
OTHER_WORDS = [word for words, _ in ROW.findall(GLOSSARY) for word in words.split(", ") if words != "not"]
PAGES = [
    *(
        ROOT / name
        for name in ("README.md", "CONTRIBUTING.md", "tests/README.md", "docs/README.md", "docs/tutorial.md")
    ),
    *sorted((ROOT / "docs/how-to").glob("*.md")),
    *sorted((ROOT / "docs/explanation").glob("*.md")),
]


def test_each_term_is_defined_once():
    terms = Counter(term.lower() for term in TERM.findall(GLOSSARY))
    assert len(terms) > 50
    assert [term for term, count in terms.items() if count > 1] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_use_the_words_of_the_glossary(page: Path):
    assert "transaction" in OTHER_WORDS
    pattern = re.compile(rf"\b({'|'.join(OTHER_WORDS)})s?\b", re.IGNORECASE)
    assert [(number, found[0]) for number, line in prose(page) if (found := pattern.search(line))] == []
