"""The page of bounds: its words are written by hand, its figures come from the constants in the code.

A section names a room in ``In `crdtsync.wire`:``, and each row of its table a constant in that room, its value with a
unit, and what it bounds. :func:`bounds` gives the page with every value as the code has it now. Who changes a constant
writes the page again with ``./dev docs --write``; who adds a bound adds its row, with any figure, and does the same.
"""

from __future__ import annotations

import importlib
import re

from tools.reference import ROOT, page

PAGE = ROOT / "docs/reference/bounds.md"
UNITS = {"KiB": 1024, "MiB": 1024**2, "h": 3600 * 1000}
"""What a unit stands for where it is not that of the constant itself."""

ROOM = re.compile(r"^In `([\w.]+)`:$")
ROW = re.compile(r"^\| `([\w.]+)` \| [\d,.]+ (.*?) \| (.*) \|$")


@page("docs/reference/bounds.md", is_marked=False)
def bounds() -> str:
    """The page as it should be."""
    room, lines = "", []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        named, row = ROOM.match(line), ROW.match(line)
        if named is not None:
            room = named[1]
        if row is None:
            lines.append(line)
        else:
            lines.append(f"| `{row[1]}` | {figure(f'{room}.{row[1]}', row[2])} {row[2]} | {row[3]} |")
    return "\n".join(lines) + "\n"


def names() -> list[str]:
    """Every constant that the page names, in the page's order."""
    room, found = "", []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        named, row = ROOM.match(line), ROW.match(line)
        room = room if named is None else named[1]
        if row is not None:
            found.append(f"{room}.{row[1]}")
    return found


def figure(name: str, unit: str) -> str:
    """The value of a constant, in a unit.

    :raises ValueError: it is no short number of such units: write the row with another one.
    """
    value = value_of(name) / UNITS.get(unit, 1)
    if value != round(value, 3):
        raise ValueError(f"{name} is {value_of(name):,}, which is no short number of {unit}")
    return f"{value:,.0f}" if value == int(value) else f"{value:,}"


def value_of(name: str) -> float:
    """The value of a constant of a module, or of a class in one."""
    owner, _, constant = name.rpartition(".")
    module, _, inner = owner.rpartition(".")
    holder = getattr(importlib.import_module(module), inner) if inner[0].isupper() else importlib.import_module(owner)
    value = getattr(holder, constant)
    if type(value) not in (int, float):
        raise TypeError(f"{name} is {value!r}, and no number")
    return float(value)
