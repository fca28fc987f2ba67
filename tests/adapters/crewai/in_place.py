"""A pytest plugin: CrewAI's own tests get these adapters where they ask for SQLite, LanceDB or Qdrant."""

from __future__ import annotations

import importlib.machinery
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote

import crewai.flow.persistence
import crewai.flow.persistence.sqlite

from crdtsync.adapters.crewai import CrdtFlowPersistence, CrdtMemoryStorage


class Flows(CrdtFlowPersistence):
    """One that takes the path of a database for the place of its keys."""

    db_path: str = ""

    def __init__(self, db_path: str | None = None, /, **fields: Any) -> None:
        path = db_path or fields.pop("db_path", None) or tempfile.mkdtemp()
        fields |= {"db_path": str(path), "llm_settings": {"base_url": "http://localhost:11434/v1"}}
        super().__init__(os.environ["SOCKET"], prefix=place(path), **fields)


class Memories(CrdtMemoryStorage):
    """Likewise; how long vectors are, it finds out itself."""

    def __init__(self, path: str | Path | None = None, **_: Any) -> None:
        super().__init__(os.environ["SOCKET"], prefix=place(path or tempfile.mkdtemp()))


def place(path: str | Path) -> str:
    """Keys of one test begin with this."""
    return f"suite/{quote(str(path), safe='')}"


def module(name: str, **names: Any) -> None:
    """A module that is imported already."""
    made = sys.modules[name] = ModuleType(name)
    made.__spec__ = importlib.machinery.ModuleSpec(name, None)
    vars(made).update(names)


crewai.flow.persistence.SQLiteFlowPersistence = crewai.flow.persistence.sqlite.SQLiteFlowPersistence = Flows
module("crewai.memory.storage.lancedb_storage", LanceDBStorage=Memories)
module("crewai.memory.storage.qdrant_edge_storage", QdrantEdgeStorage=Memories)
module("qdrant_edge")
