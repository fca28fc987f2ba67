"""The clients that are known: where their settings lie, and how they name a server."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crdtsync.errors import InvalidRequest
from crdtsync.sessions.redaction.own import own_patterns
from crdtsync.sessions.redaction.redactor import Redactor

USER, PROJECT = "user", "project"
_NOT_IN_NAMES = re.compile(r"[^a-z0-9._-]+")
_NAME_MAX = 64  # characters


@dataclass(frozen=True, slots=True)
class McpClient:
    """One MCP client. ``user`` and ``project`` are its files, below the home and below the project's directory.

    ``home_variable`` names a variable that, if set, stands for the directory of the ``user`` file. ``section`` is where
    servers stand in the file.
    """

    name: str
    title: str
    user: str
    project: str | None = None
    section: str = "mcpServers"
    home_variable: str | None = None
    mac: str | None = None
    has_type: bool = False  # an entry says "type": "stdio"
    own_name: str = ""  # how it introduces itself to a server; "" where that was not looked at
    hooks: str | None = None  # its file of hooks, below the home or the project's directory

    def path(self, scope: str, home: Path, directory: Path, environment: Mapping[str, str]) -> Path:
        """The file for ``scope``; :class:`~crdtsync.errors.InvalidRequest` if this client has none for a project."""
        if scope == PROJECT:
            if self.project is None:
                raise InvalidRequest(f"{self.title} has no settings of a project: leave out --scope project")
            return directory / self.project
        return self._in_home(self._own_file, home, environment)

    def hooks_path(self, scope: str, home: Path, directory: Path, environment: Mapping[str, str]) -> Path:
        """The file of hooks for ``scope``; :class:`~crdtsync.errors.InvalidRequest` if this client has none."""
        if self.hooks is None:
            raise InvalidRequest(f"{self.title} has no hooks that are known here: leave out --hooks")
        return directory / self.hooks if scope == PROJECT else self._in_home(self.hooks, home, environment)

    @property
    def _own_file(self) -> str:
        return self.mac if self.mac and sys.platform == "darwin" else self.user

    def _in_home(self, path: str, home: Path, environment: Mapping[str, str]) -> Path:
        own = environment.get(self.home_variable) if self.home_variable else None
        return Path(own) / Path(path).name if own else home / path

    def is_there(self, home: Path, environment: Mapping[str, str]) -> bool:
        """Whether somebody on this machine uses it, by what it leaves in the home."""
        paths = [self._in_home(one, home, environment) for one in (self._own_file, self.hooks) if one]
        return any(path.exists() or (path.parent != home and path.parent.is_dir()) for path in paths)

    def agent_name(self, directory: str) -> str:
        """The name under which a session in ``directory`` writes, if it was given none."""
        return agent_name(self.own_name or self.name, directory)

    def entry(self, command: str, arguments: list[str]) -> dict[str, Any]:
        """The server, as this client writes it down."""
        start: dict[str, Any] = {"type": "stdio"} if self.has_type else {}
        return {**start, "command": command, "args": arguments}


CLIENTS = (
    McpClient(
        "claude-code", "Claude Code", ".claude.json", ".mcp.json", home_variable="CLAUDE_CONFIG_DIR", has_type=True,
        own_name="claude-code", hooks=".claude/settings.json",
    ),
    McpClient(
        "codex", "Codex", ".codex/config.toml", section="mcp_servers", home_variable="CODEX_HOME",
        own_name="codex-mcp-client", hooks=".codex/hooks.json",
    ),
    McpClient("cursor", "Cursor", ".cursor/mcp.json", ".cursor/mcp.json"),
    McpClient(
        "vscode", "VS Code", ".config/Code/User/mcp.json", ".vscode/mcp.json", section="servers", has_type=True,
        mac="Library/Application Support/Code/User/mcp.json",
    ),
    McpClient("gemini", "Gemini CLI", ".gemini/settings.json", ".gemini/settings.json"),
    McpClient(
        "claude-desktop", "Claude Desktop", ".config/Claude/claude_desktop_config.json",
        mac="Library/Application Support/Claude/claude_desktop_config.json",
    ),
)  # fmt: skip


def agent_name(own_name: str, directory: str) -> str:
    """A name for an agent that was given none: that of its program, and of the directory that it works in, without a
    secret in that: everybody reads who wrote something.
    """
    folder = os.path.basename(directory)  # noqa: PTH119  # of another machine, maybe
    parts = (own_name, Redactor(own_patterns()).text(folder))
    name = "-".join(_NOT_IN_NAMES.sub("-", part.lower()).strip("-._") for part in parts if part)
    return name.strip("-")[:_NAME_MAX] or "mcp"


def client(name: str) -> McpClient:
    """The client of that name; :class:`~crdtsync.errors.InvalidRequest` if none is known."""
    for one in CLIENTS:
        if one.name == name:
            return one
    raise InvalidRequest(f"no client is called {name!r}: there are {', '.join(one.name for one in CLIENTS)}")


def found(home: Path | None = None) -> list[McpClient]:
    """The clients that are used on this machine."""
    return [one for one in CLIENTS if one.is_there(home or Path.home(), os.environ)]
