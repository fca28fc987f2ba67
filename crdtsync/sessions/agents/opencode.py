"""OpenCode's sessions: rows of ``opencode.db`` in its directory, each here a file ``exports/ID.json``.

It has no files of its own, but imports and exports JSON. So a session is written as a file as its ``export`` does, in
lines that only grow: one for each message, and its record as the end of the file. That is what it imports, too.
"""

# ruff: noqa: D102, ARG002  # the methods are those of Agent

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from crdtsync.sessions.agents.agent import OPENCODE, Agent
from crdtsync.sessions.agents.description import NOTE, Description, added, as_dict, as_list, as_text, records

_SESSION = "SELECT * FROM session WHERE id = ?"
_MESSAGES = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
_PARTS = "SELECT message_id, id, data FROM part WHERE session_id = ? ORDER BY id"
_MODEL = 'SELECT data FROM message WHERE data LIKE \'%"role":"user"%\' ORDER BY time_created DESC LIMIT 1'
_NAMES = {"project_id": "projectID", "parent_id": "parentID", "directory": "directory", "title": "title",
          "slug": "slug", "version": "version", "path": "path", "agent": "agent"}  # fmt: skip


class OpenCode(Agent):
    """OpenCode. Importing adds the messages that its database lacks, and leaves the others as they are."""

    name, title, folder, variable = OPENCODE, "OpenCode", ".local/share/opencode", "XDG_DATA_HOME"
    below, is_export = "opencode", True
    ids = re.compile(r"ses_[A-Za-z0-9]{1,60}")

    def found(self, root: Path, session: str = "*") -> list[Path]:
        if (root / "opencode.db").exists():
            with _database(root) as rows:
                chosen = rows.execute(
                    "SELECT id, time_updated FROM session WHERE ? IN ('*', id)", (session,)
                ).fetchall()
                for name, updated_ms in chosen:
                    if self.ids.fullmatch(name):
                        _export(rows, root / self.place(root, name, ""), name, updated_ms)
        return [path for path in root.glob(f"exports/{session}.json") if self.ids.fullmatch(path.stem)]

    def session_of(self, path: Path) -> str:
        return path.stem

    def model(self, root: Path) -> str:
        with suppress(OSError, ValueError, sqlite3.Error, TypeError):
            with _database(root) as rows:
                (used,) = rows.execute(_MODEL).fetchone()
            model = as_dict(json.loads(used).get("model"))
            return f"{model['providerID']}/{model['modelID']}"
        with suppress(OSError, ValueError):
            folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
            return as_text(as_dict(json.loads((folder / "opencode" / "opencode.json").read_text())).get("model"))
        return ""

    def side_files(self, path: Path) -> dict[str, Path]:
        self.found(path.parent.parent, path.stem)  # so that who follows the file sees what is new
        return {}

    def place(self, root: Path, session: str, cwd: str, before: str = "", time: str = "") -> str:
        return f"exports/{session}.json"

    def resume_command(self, session: str, main: Path) -> str:
        return f"opencode import {shlex.quote(str(main))} && opencode --session {session}"

    def described(self, lines: Iterable[bytes], before: Description | None = None) -> Description:
        about = before or Description()
        lines = list(lines)
        for message in messages_in(lines):
            info = as_dict(message.get("info"))
            about.cwd = about.cwd or as_text(as_dict(info.get("path")).get("cwd"))
            about.model = as_text(info.get("modelID")) or about.model
            used = as_dict(info.get("tokens"))
            cached = added(as_dict(used.get("cache")), "read", "write")
            about.tokens = added(used, "input", "output", "reasoning") + cached or about.tokens
            if is_said(message):
                about.said(said_text(message))
        for end in (line for line in lines if line.startswith(b'],"info":')):
            info = as_dict(next(records([end[9:-1]]), {}))
            about.cwd = as_text(info.get("directory")) or about.cwd
            about.title, about.version = as_text(info.get("title")) or about.title, as_text(info.get("version"))
        return about

    def new_id(self, uuid: str) -> str:
        return f"ses_{uuid.replace('-', '')[:26]}"


@contextmanager
def _database(root: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"{(root / 'opencode.db').as_uri()}?mode=ro", uri=True, timeout=10)) as rows:
        rows.row_factory = sqlite3.Row
        yield rows


def _export(rows: sqlite3.Connection, path: Path, session: str, updated_ms: int) -> None:
    if path.exists() and path.stat().st_mtime_ns >= updated_ms * 1_000_000:
        return
    row = dict(rows.execute(_SESSION, (session,)).fetchone())
    info: dict[str, Any] = {"id": session, **{name: row[column] for column, name in _NAMES.items() if row.get(column)}}
    info["time"] = {"created": row["time_created"], "updated": updated_ms}
    parts: dict[str, list[dict[str, Any]]] = {}
    for message, name, data in rows.execute(_PARTS, (session,)):
        part = {**json.loads(data), "id": name, "sessionID": session, "messageID": message}
        parts.setdefault(message, []).append(part)
    messages = [{"info": {**json.loads(data), "id": name, "sessionID": session}, "parts": parts.get(name, [])}
                for name, data in rows.execute(_MESSAGES, (session,))]  # fmt: skip
    path.parent.mkdir(exist_ok=True, mode=0o700)
    partial = path.with_suffix(".partial")
    partial.write_bytes(b"".join(document(messages, info)))
    partial.chmod(0o600)
    os.utime(partial, ns=(updated_ms * 1_000_000, updated_ms * 1_000_000))
    partial.replace(path)


def document(messages: Iterable[dict[str, Any]], info: dict[str, Any]) -> Iterable[bytes]:
    """The lines of a file that OpenCode imports."""
    yield b'{"messages":[\n'
    for number, message in enumerate(messages):
        yield (
            b"," * (number > 0)
            + json.dumps(message, ensure_ascii=False, sort_keys=True).encode("utf-8", "replace")
            + b"\n"
        )
    yield b'],"info":' + json.dumps(info, ensure_ascii=False, sort_keys=True).encode("utf-8", "replace") + b"}"


def messages_in(lines: Iterable[bytes]) -> Iterable[dict[str, Any]]:
    """The messages that stand in lines of such a file."""
    return (one for one in records(line.lstrip(b",") for line in lines) if "parts" in one)


def is_said(message: dict[str, Any]) -> bool:
    """Whether a person said this, and not the harness."""
    return as_dict(message.get("info")).get("role") == "user" and not said_text(message).startswith(NOTE)


def said_text(message: dict[str, Any]) -> str:
    """What a person said in a message."""
    parts = map(as_dict, as_list(message.get("parts")))
    return "\n".join(as_text(part.get("text")) for part in parts if part.get("type") == "text")
