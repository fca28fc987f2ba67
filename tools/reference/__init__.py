"""The pages of ``docs/reference``: each is made from the code that it describes, and never edited by hand.

A table that people copy from the code is wrong after the next change. So, for example, the page on the peer protocol is
made from the message classes: :mod:`tools.reference.peer_protocol` is one function that returns the text::

    @page("docs/reference/peer-protocol.md")
    def peer_protocol() -> str:
        ...

``./dev docs --write`` writes all pages. ``./dev docs`` fails if a page is not what its function returns. To add a page,
add a module to this package with such a function: all modules here are imported, and nothing else lists them.
:mod:`tools.reference.markdown` turns docstrings and rows into Markdown.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
COMMAND: Final = "./dev docs --write"

Page = Callable[[], str]

MARK: Final = f"<!-- Made from the code by {COMMAND}; what is written here by hand is lost. -->\n\n"

_PAGES: Final[dict[str, tuple[Page, str]]] = {}


def page(path: str, *, is_marked: bool = True) -> Callable[[Page], Page]:
    """Make the decorated function the source of the page at ``path``, from the project's root.

    A page that is not marked has words by hand, which its function keeps.
    """

    def enter(make: Page) -> Page:
        assert path not in _PAGES, f"{path} has two functions"
        _PAGES[path] = make, MARK if is_marked else ""
        return make

    return enter


def pages() -> dict[Path, str]:
    """The text of every page, by its place."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return {ROOT / path: mark + make().strip() + "\n" for path, (make, mark) in sorted(_PAGES.items())}


def stale() -> list[Path]:
    """The pages that are not what the code says, or are not there."""
    return [place for place, text in pages().items() if not place.exists() or place.read_text(encoding="utf-8") != text]


def write() -> list[Path]:
    """Write the stale pages, and return them."""
    changed = stale()
    for place, text in pages().items():
        if place in changed:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
    return changed
