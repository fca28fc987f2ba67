"""Agents by name, their sessions on this machine, and where one that comes from elsewhere belongs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from crdtsync.errors import InvalidRequest
from crdtsync.sessions.agents.agent import CodingAgent
from crdtsync.sessions.agents.claude_code import ClaudeCode
from crdtsync.sessions.agents.codex import Codex
from crdtsync.sessions.agents.gemini_cli import GeminiCli
from crdtsync.sessions.agents.opencode import OpenCode

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
FILE_BYTES_MAX = 512 * 1024 * 1024
"""Bytes of one file of a session: a larger one is left out, or refused if it is the first one."""

AGENTS: dict[str, CodingAgent] = {one.name: one for one in (ClaudeCode(), Codex(), GeminiCli(), OpenCode())}


@dataclass(frozen=True, slots=True)
class Local:
    """A session on this machine: its main file, and those beside it by their names."""

    agent: CodingAgent
    id: str
    main: Path

    def files(self) -> dict[str, Path]:
        """All files but the main one."""
        return self.agent.side_files(self.main)


def agent_named(name: str) -> CodingAgent:
    """The agent, or :class:`~crdtsync.errors.InvalidRequest` that says which there are."""
    if name not in AGENTS:
        raise InvalidRequest(f"{name!r} is no agent whose sessions are known here: {', '.join(AGENTS)}")
    return AGENTS[name]


def check_id(session: str) -> str:
    """``session`` if it can be the id of a session: it becomes part of a path."""
    if not _ID.fullmatch(session):
        raise InvalidRequest(f"{session[:80]!r} is no id of a session: the agent shows it, and crdtsync session ls")
    return session


def find(agent: str | None, session: str | None) -> Local:
    """A session on this machine: that of this id, or whose id alone begins so; or the one that was written last.

    Raises :class:`~crdtsync.errors.InvalidRequest` if there is none.
    """
    chosen = list(AGENTS.values()) if agent is None else [agent_named(agent)]
    wanted = "*" if session is None else check_id(session)
    there = [(one, path) for one in chosen for path in one.found(one.root(), wanted)]
    there = [(one, path) for one, path in there if session in (None, one.session_of(path))]
    if not there and session is not None:
        all_there = [(one, path) for one in chosen for path in one.found(one.root())]
        there = [(one, path) for one, path in all_there if one.session_of(path).startswith(session)]
        if len({one.session_of(path) for one, path in there}) > 1:
            raise InvalidRequest(f"several sessions begin with {session}: give more of the id")
    if not there:
        where = ", ".join(str(one.root()) for one in chosen)
        what = "no session" if session is None else f"no session {session}"
        raise InvalidRequest(f"there is {what} below {where}: give the id that the agent shows")
    one, path = max(there, key=lambda pair: pair[1].stat().st_mtime_ns)
    return Local(one, one.session_of(path), path)
