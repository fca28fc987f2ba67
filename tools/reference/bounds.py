"""The page of bounds: which constants, by room, is written by hand; value and meaning come from the code.

A section names a room in ``In `crdtsync.wire`:``, and each row of its table a constant in that room with a unit. To add
a bound, write its docstring below the constant, add a row with any figure, and run ``./dev docs --write``. A row whose
constant has no docstring keeps its words.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re
from functools import cache
from types import ModuleType

from tools.reference import ROOT, page
from tools.reference.markdown import inline

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
            name = f"{room}.{row[1]}"
            lines.append(f"| `{row[1]}` | {figure(name, row[2])} {row[2]} | {meaning(name) or row[3]} |")
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
    """The value of a constant of a module, or of a class in one.

    :raises SystemExit: the code has none of that name: it has moved, or is gone.
    """
    try:
        module, holder, constant = _place(name)
        value = getattr(getattr(module, holder) if holder else module, constant)
    except (ImportError, AttributeError):
        raise SystemExit(
            f"{PAGE.relative_to(ROOT)} names {name}, which the code does not have: move its row below the room where "
            "it is now, name it as it is called now, or take the row out"
        ) from None
    if type(value) not in (int, float):
        raise TypeError(f"{name} is {value!r}, and no number")
    return float(value)


def meaning(name: str) -> str:
    """The docstring below a constant, or nothing."""
    module, holder, constant = _place(name)
    body = _statements(module)
    if holder:
        body = next(one.body for one in body if isinstance(one, ast.ClassDef) and one.name == holder)
    for statement, following in itertools.pairwise(body):
        match statement, following:
            case (
                ast.Assign(targets=[ast.Name(id=found)]) | ast.AnnAssign(target=ast.Name(id=found)),
                ast.Expr(value=ast.Constant(value=str() as text)),
            ) if found == constant:
                return inline(text).removesuffix(".").replace("|", "\\|")
    return ""


@cache
def _statements(module: ModuleType) -> list[ast.stmt]:
    return ast.parse(inspect.getsource(module)).body


def _place(name: str) -> tuple[ModuleType, str, str]:
    """The module of a constant, the name of the class that holds it or nothing, and its own name."""
    owner, _, constant = name.rpartition(".")
    module, _, holder = owner.rpartition(".")
    if holder[0].isupper():
        return importlib.import_module(module), holder, constant
    return importlib.import_module(owner), "", constant
