"""No room names one above it, not even for a type checker: import-linter only looks at imports that are carried out."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINTED = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
CONTRACTS = {one["id"]: one for one in LINTED}


@pytest.mark.parametrize("contract", ["client-rooms"])
def test_no_type_is_of_a_room_above(contract: str):
    (container,) = CONTRACTS[contract]["containers"]
    layers = enumerate(CONTRACTS[contract]["layers"])
    depth = {room.strip(): number for number, layer in layers for room in layer.split("|")}
    upwards = []
    for room, own in depth.items():
        for file in (ROOT / container.replace(".", "/") / room).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{container}."):
                    named = str(node.module).removeprefix(f"{container}.").partition(".")[0]
                    upwards += [f"{file.name} names {node.module}"] if depth[named] < own else []
    assert upwards == []
