"""Each room's ``__init__`` is its tour: it names what is in the room, and nothing that is not there."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

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


def test_a_tour_names_every_module_and_room_in_it():
    assert len(ROOMS) > 80
    for name, tour in ROOMS.items():
        folder, text = tour.parent, tour_of(name)
        modules = {file.stem for file in folder.glob("*.py")} - {"__init__", "__main__"}
        rooms = {file.parent.name for file in folder.glob("*/__init__.py")}
        named = set(re.findall(r"``(\w+)``", text)) | COMMANDS.get(name, set())
        assert modules | rooms <= named, name
        listed = {word for line in LISTED.findall(text) for word in re.findall(r"``(\w+)``", line)}
        assert listed <= modules | {entry.name for entry in folder.iterdir()}, name


def test_what_a_tour_refers_to_is_there():
    texts = {name: tour_of(name) for name in ROOMS}
    references = [
        (name, dotted) for name, text in texts.items() for dotted in ROLE.findall(text) + QUOTED.findall(text)
    ]
    assert references
    assert [reference for reference in references if not found(reference[1])] == []


def test_a_tour_imports_nothing():
    for name in ROOMS.keys() - set(WITH_CODE):
        body = ast.parse(ROOMS[name].read_text(encoding="utf-8")).body
        assert [type(statement) for statement in body] == [ast.Expr], name
