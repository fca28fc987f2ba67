"""Agents by name, their sessions on this machine, and where one that comes from elsewhere belongs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from crdtsync.errors import InvalidRequest
from crdtsync.sessions.agents import claude_code, codex
from crdtsync.sessions.agents.description import Description

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
FILE_BYTES_MAX = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Agent:
    """One coding agent: its files, by functions of the module that knows them.

    ``variable`` names a variable that, if set, stands for its directory ``folder`` below the home.
    """

    name: str
    title: str
    folder: str
    variable: str
    found: Callable[..., list[Path]]
    session_of: Callable[[Path], str]
    side_files: Callable[[Path], dict[str, Path]]
    described: Callable[[Iterable[bytes], Description | None], Description]
    place: Callable[[str, str, str], str]
    side_place: Callable[[Path, str], Path]
    resume_command: Callable[[str], list[str]]

    def root(self, environment: Mapping[str, str] = os.environ) -> Path:
        """Its directory on this machine."""
        given = environment.get(self.variable)
        return Path(given) if given else Path(environment.get("HOME") or Path.home()) / self.folder


AGENTS = {
    name: Agent(name, title, folder, variable, module.found, module.session_of, module.side_files, module.described,
                module.place, module.side_place, module.resume_command)
    for name, title, folder, variable, module in (
        ("claude-code", "Claude Code", ".claude", "CLAUDE_CONFIG_DIR", claude_code),
        ("codex", "Codex", ".codex", "CODEX_HOME", codex),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Local:
    """A session on this machine: its main file, and those beside it by their names."""

    agent: Agent
    id: str
    main: Path

    def files(self) -> dict[str, Path]:
        """All files but the main one."""
        return self.agent.side_files(self.main)


def agent_named(name: str) -> Agent:
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
    """A session on this machine: that of this id, or the one that was written last.

    Raises :class:`~crdtsync.errors.InvalidRequest` if there is none.
    """
    chosen = list(AGENTS.values()) if agent is None else [agent_named(agent)]
    wanted = "*" if session is None else check_id(session)
    there = [(one, path) for one in chosen for path in one.found(one.root(), wanted)]
    there = [(one, path) for one, path in there if session in (None, one.session_of(path))]
    if not there:
        where = ", ".join(str(one.root()) for one in chosen)
        what = "no session" if session is None else f"no session {session}"
        raise InvalidRequest(f"there is {what} below {where}: give the id that the agent shows")
    one, path = max(there, key=lambda pair: pair[1].stat().st_mtime_ns)
    return Local(one, one.session_of(path), path)
