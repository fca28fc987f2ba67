"""The page of rooms: every folder of the code with the first paragraph of its tour."""

from __future__ import annotations

import ast
from pathlib import Path

from tools.reference import ROOT, page
from tools.reference.markdown import inline, prose, table

INTRODUCTION = """
# Rooms of the code

Each room is a folder whose ``__init__.py`` is its tour: what the room is for, what to open first, how its modules fit
together, and what it may import. Start with the tours of [the core](../../crdtsync/core/__init__.py) and of
[the daemon](../../daemon/crdtsyncd/__init__.py). [Architecture](../explanation/architecture.md) follows a write, a
change, a snapshot and a failure through the rooms. Imports run downwards only; ``./dev lint`` holds that.
"""
TOPS = (ROOT / "crdtsync", ROOT / "daemon" / "crdtsyncd")


@page("docs/reference/rooms.md")
def rooms() -> str:
    """The page."""
    rows = [_row(tour) for top in TOPS for tour in sorted(top.rglob("__init__.py"))]
    return "\n\n".join([prose(INTRODUCTION), table(("room", "is for"), rows)])


def _row(tour: Path) -> tuple[str, str]:
    docstring = ast.get_docstring(ast.parse(tour.read_text(encoding="utf-8"))) or ""
    place = tour.relative_to(ROOT)
    title, _, rest = inline(docstring.partition("\n\n")[0]).partition(": ")
    said = rest if rest and " " not in title else f"{title}: {rest}" if rest else title
    return f"[`{place.parent}`](../../{place})", said[0].upper() + said[1:]
