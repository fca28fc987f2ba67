"""Each room's ``__init__`` is its tour: it names what is in the room, and nothing that is not there."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest
from crdtsyncd.cli.app import SECTIONS

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    ".".join(tour.parent.relative_to(place).parts): tour
    for place, top in ((ROOT, "crdtsync"), (ROOT / "daemon", "crdtsyncd"))
    for tour in sorted((place / top).rglob("__init__.py"))
}
WITH_CODE = (
    "crdtsync",
    "crdtsync.adapters.agent_framework",
    "crdtsync.adapters.crewai",
    "crdtsync.adapters.google_adk",
    "crdtsync.adapters.langgraph",
    "crdtsync.adapters.llama_index",
    "crdtsync.adapters.openai_agents",
    "crdtsync.adapters.pydantic_ai",
    "crdtsync.client",
    "crdtsync.context",
    "crdtsync.coordination",
    "crdtsync.sessions",
    "crdtsyncd.doctor",
)
"""Rooms whose ``__init__`` does something too."""

COMMANDS: dict[str, set[str]] = {}
"""By room, the modules that the table of commands names: their tours need not."""
for place in (place for section in SECTIONS.values() for place in section.values()):
    room, module = place.partition(":")[0].split(".")
    COMMANDS.setdefault(f"crdtsyncd.cli.commands.{room}", set()).add(module)

ROLE = re.compile(r":(?:mod|class|func|meth|data):`~?((?:crdtsync|crdtsyncd)(?:\.\w+)+)`")
LISTED = re.compile(r"^- (``[a-z]\w*``(?:(?:,| and) ``\w+``)*): ", re.MULTILINE)
"""A line for modules or rooms."""
QUOTED = re.compile(r"``((?:crdtsync|crdtsyncd)(?:\.\w+)+)``")


def tour_of(name: str) -> str:
    """The docstring of a room, from its file: importing it is not what is tested."""
    return ast.get_docstring(ast.parse(ROOMS[name].read_text(encoding="utf-8"))) or ""


def found(dotted: str) -> bool:
    """Whether there is a module of that name, or something of that name in a module."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            there: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(there, part):
                return False
            there = getattr(there, part)
        return True
    return False


@pytest.mark.parametrize("name", ROOMS)
def test_a_tour_names_every_module_and_room_in_it(name: str):
    folder = ROOMS[name].parent
    modules = {file.stem for file in folder.glob("*.py")} - {"__init__", "__main__"}
    rooms = {file.parent.name for file in folder.glob("*/__init__.py")}
    named = set(re.findall(r"``(\w+)``", tour_of(name))) | COMMANDS.get(name, set())
    assert modules | rooms <= named
    listed = {word for line in LISTED.findall(tour_of(name)) for word in re.findall(r"``(\w+)``", line)}
    assert listed <= modules | {entry.name for entry in folder.iterdir()}


@pytest.mark.parametrize("name", ROOMS)
def test_what_a_tour_refers_to_is_there(name: str):
    text = tour_of(name)
    assert [dotted for dotted in ROLE.findall(text) + QUOTED.findall(text) if not found(dotted)] == []


@pytest.mark.parametrize("name", [name for name in ROOMS if name not in WITH_CODE])
def test_a_tour_imports_nothing(name: str):
    body = ast.parse(ROOMS[name].read_text(encoding="utf-8")).body
    assert [type(statement) for statement in body] == [ast.Expr]
