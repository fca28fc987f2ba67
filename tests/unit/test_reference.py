"""Reference pages are what the code says, a page that is not is named with the command that mends it, and docstrings
become Markdown.
"""

from __future__ import annotations

import sys

import pytest

from crdtsync.wire.peer.messages import MESSAGES
from tests.simulator.faults import FAULTS
from tools import check_docs, reference
from tools.reference.markdown import docstring, parameters, prose, table, with_section


def test_every_page_is_what_the_code_says():
    assert reference.pages()
    assert reference.stale() == []


def test_every_message_and_each_of_its_fields_is_on_the_page():
    page = reference.pages()[reference.ROOT / "docs/reference/peer-protocol.md"]
    for number, cls in MESSAGES.items():
        section = page.partition(f"\n### {cls.__name__.upper()}\n\nType {number}.\n")[2].partition("\n### ")[0]
        assert [name for name in cls.__annotations__ if f"\n| `{name}` |" not in section] == []


def test_every_planted_fault_is_on_its_page_with_what_it_breaks():
    page = reference.pages()[reference.ROOT / "docs/reference/planted-faults.md"]
    assert [fault for fault in FAULTS if f"\n| {fault.name.replace('_', ' ')} | " not in page] == []
    assert "\n| no causal gate | A change is applied although what its author had seen is not there yet | " in page


def test_a_stale_page_fails_the_check_and_is_written_anew(tmp_path, monkeypatch, capsys):
    reference.pages()  # so that all are known
    path = "docs/reference/peer-protocol.md"
    monkeypatch.setattr(reference, "_PAGES", {path: reference._PAGES[path]})
    monkeypatch.setattr(reference, "ROOT", tmp_path)
    monkeypatch.setattr(check_docs, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["./dev docs"])
    (tmp_path / "docs").mkdir()
    assert check_docs.main() == 1
    assert path in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["./dev docs", "--write"])
    assert check_docs.main() == 0
    monkeypatch.setattr(sys, "argv", ["./dev docs"])
    assert check_docs.main() == 0
    page = tmp_path / path
    page.write_text(page.read_text().replace("0 to 16", "0 to 17"))
    assert check_docs.main() == 1
    assert f"write it anew with: {reference.COMMAND}" in capsys.readouterr().out


def example(key: str) -> None:
    """Does this. Then ``that``.

    More of it,
    in two lines.

    :param key: which
        one
    :raises ValueError: never
    """


def test_a_docstring_and_what_it_says_of_parameters():
    assert docstring(example) == "Does this. Then ``that``.\n\nMore of it,\nin two lines."
    assert parameters(example) == {"key": "which one"}


@pytest.mark.parametrize(
    "text, markdown",
    [
        ("One. Two\nlines: ``a``. `b`", "One.\nTwo lines: `a`.\n`b`"),
        ("See :mod:`~a.b`.", "See `a.b`."),
        ("Title\n-----", "## Title"),
        ("- one\n- two\n  lines", "- one\n- two lines"),
        ("So::\n\n    a\n      b\n\nThen", "So:\n\n```text\na\n  b\n```\n\nThen"),
        ("==  ===\na   b\n==  ===\n1   x|y\n2   z z\n==  ===", "| a | b |\n| --- | --- |\n| 1 | x\\|y |\n| 2 | z z |"),
    ],
)
def test_prose(text, markdown):
    assert prose(text) == markdown


def test_a_cell_of_a_table_stays_one_line():
    assert table(["a"], [["1\n2"]]) == "| a |\n| --- |\n| 1 2 |"


def test_a_section_made_anew_ends_where_the_next_one_begins():
    assert with_section("# A\n\n## B\n\nold\n\nolder\n\n### C\n\nc\n", "## B", "new\n") == (
        "# A\n\n## B\n\nnew\n\n### C\n\nc\n"
    )
    assert with_section("## B\n\nold\n", "## B", "new") == "## B\n\nnew\n"
