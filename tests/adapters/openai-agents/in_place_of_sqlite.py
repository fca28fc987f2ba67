"""A pytest plugin: the SDK's own tests of sessions get CrdtSession where they ask for SQLiteSession."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import agents

from crdtsync.adapters.openai_agents import CrdtSession


class InPlaceOfSqlite(CrdtSession):
    """One that takes the path of a database for the place of its keys."""

    def __init__(self, session_id: str, db_path: str | Path = ":memory:", **options: Any) -> None:
        super().__init__(session_id, os.environ["SOCKET"], prefix=f"suite/{quote(str(db_path), safe='')}", **options)


agents.SQLiteSession = InPlaceOfSqlite
