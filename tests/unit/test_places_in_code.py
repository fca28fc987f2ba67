"""Where a page says that something is in a file of the code, it is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAID = re.compile(r"`([\w.]+)`(?: and `([\w.]+)`)? in \[`[^`]+`\]\(([^)#]+\.py)\)")
"""``Replica.commit`` and ``Replica.receive`` in a file."""


def said() -> list[tuple[str, Path]]:
    """Each name, with the file that a page says it is in."""
    found = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for one, other, place in SAID.findall(page.read_text(encoding="utf-8")):
            found += [(name, (page.parent / place).resolve()) for name in (one, other) if name]
    return found


def is_there(name: str, place: Path) -> bool:
    """Whether a class or function of that name, with the method behind the dot, is defined in a file."""
    text = place.read_text(encoding="utf-8")
    return all(re.search(rf"^ *(?:class|(?:async )?def) {part}\b", text, re.MULTILINE) for part in name.split("."))


def test_what_pages_say_is_in_a_file_is_there():
    places = said()
    assert ("Store.commit", ROOT / "daemon/crdtsyncd/storage/database.py") in places
    assert [(name, place.name) for name, place in places if not is_there(name, place)] == []
    assert not is_there("Store.commits", ROOT / "daemon/crdtsyncd/storage/database.py")
