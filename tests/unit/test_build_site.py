"""Pages are staged for the site with links that work there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import build_site
from tools.docstring_roles import plain


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page in a folder of the documentation, of a checkout of its own."""
    for name, place in (("DOCS", "docs"), ("STAGED", "build/docs"), ("ROOT", "")):
        monkeypatch.setattr(build_site, name, tmp_path / place)
    for file in (
        "docs/how-to/page.md",
        "docs/other.md",
        "docs/how-to/picture.svg",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "code.py",
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("# Nothing\n")
    return tmp_path / "docs/how-to/page.md"


@pytest.mark.parametrize(
    "here, there",
    [
        ("see [other](../other.md#part)", "see [other](../other.md#part)"),
        ("see [the changelog](../../CHANGELOG.md)", "see [the changelog](../changelog.md)"),
        ("see [`code.py`](../../code.py), or [x](#y)", "see `code.py`, or [x](#y)"),
        ("see [elsewhere](https://example.org/a.md)", "see [elsewhere](https://example.org/a.md)"),
        ("![a picture](picture.svg)", "![a picture](picture.svg)"),
        ("```\n[code](../../code.py)\n```", "```\n[code](../../code.py)\n```"),
    ],
    ids=["page", "beside", "no page", "elsewhere", "picture", "code block"],
)
def test_links_lead_where_the_site_has_pages(page: Path, here: str, there: str):
    page.write_text(here)
    build_site.stage()
    assert (build_site.STAGED / "how-to/page.md").read_text() == there


def test_what_is_gone_is_staged_no_longer(page: Path):
    build_site.stage()
    page.unlink()
    build_site.stage()
    assert not (build_site.STAGED / "how-to/page.md").exists()
    assert (build_site.STAGED / "other.md").exists()


def test_what_has_not_changed_is_not_written_again(page: Path):
    build_site.stage()
    before = (build_site.STAGED / "other.md").stat().st_mtime_ns
    page.write_text("new")
    build_site.stage()
    assert (build_site.STAGED / "other.md").stat().st_mtime_ns == before
    assert (build_site.STAGED / "how-to/page.md").read_text() == "new"


@pytest.mark.parametrize(
    "here, there",
    [
        (":class:`Client`", "`Client`"),
        (":meth:`~crdtsync.Client.get` or :func:`it <a.b>`", "`get` or `it`"),
        ("``code``, and :raises Refused: no", "``code``, and :raises Refused: no"),
    ],
)
def test_roles_in_docstrings_become_code(here: str, there: str):
    assert plain(here) == there


def test_the_menu_names_every_page_once():
    menu = (build_site.ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"^ +- (?:[^#\n]*: )?([\w/.-]+\.md)$", menu, re.MULTILINE)
    pages = [str(place.relative_to(build_site.STAGED)) for place in build_site.places().values()]
    assert sorted(named) == sorted(page for page in pages if page.endswith(".md"))
