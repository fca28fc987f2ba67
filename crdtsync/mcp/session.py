"""What one MCP client is to the daemon: an agent with a name, and a memory of what it has read."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from mcp import MCPError
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import INTERNAL_ERROR

from crdtsync.client import AsyncClient, AsyncSession
from crdtsync.context import AsyncViews
from crdtsync.context.tokens import ANY_MODEL
from crdtsync.errors import CrdtSyncError
from crdtsync.mcp.install.clients import agent_name
from crdtsync.visible import readable

SESSION_HEADER = "mcp-session-id"
_OF_PYTHON = " (Client.put_blob, crdtsync blob put)"  # what the sentences of client and daemon name, and no tool has
SESSIONS_MAX = 1_000
"""Sessions over HTTP; with more, the one that began first is forgotten, with what it has read."""
NAMES_MAX = 64
"""Agents of a server over HTTP: each has a connection to the daemon."""
VIEWS_MAX = 8
"""Sessions whose views are kept, at most 16 MiB of text each."""
ALONE_S = 900
"""So long an agent over HTTP has a claim or task in hand, since nobody tells that it has gone."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How the server was started. ``agent`` None: the name that the MCP client gives itself."""

    socket: str | None = None
    space: str | None = None
    agent: str | None = None
    agent_key: Path | str | None = None
    model: str = ANY_MODEL
    read_only: bool = False
    tools: tuple[str, ...] = ()
    memory_server: bool = False


@dataclass
class Callers:
    """The sessions of all MCP clients of this server, over one connection to the daemon for each name."""

    options: ServerOptions
    _clients: dict[str, AsyncClient] = field(default_factory=dict)
    _sessions: dict[tuple[str, str], AsyncSession] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._views = lru_cache(VIEWS_MAX)(AsyncViews)

    def of(self, context: Context[Any, Any]) -> AsyncSession:
        """The session of the client that called; it remembers what that client has read, and nobody else."""
        caller = (context.headers or {}).get(SESSION_HEADER, "")  # over stdin there is one client
        return self._session(caller, name_from(context.session.client_params))

    @staticmethod
    def ends_with_server(context: Context[Any, Any]) -> bool:
        """Whether the caller is the one client of this process. Over HTTP nobody tells that a caller has gone."""
        return context.headers is None

    def some(self) -> AsyncSession:
        """A session for what a client asks without saying who it is: names to choose from, and the whole state."""
        return self._session("", name_from(None))

    def views(self, session: AsyncSession) -> AsyncViews:
        """Its views. They keep what they have read: a second view reads only what has changed."""
        return self._views(session, model=self.options.model)

    def _session(self, caller: str, own_name: str) -> AsyncSession:
        name = self.options.agent or own_name
        session = self._sessions.get((caller, name))
        if session is None:
            if name not in self._clients:
                if len(self._clients) >= NAMES_MAX:
                    message = f"{NAMES_MAX} agents use this server already: start another, or give it --agent"
                    raise CrdtSyncError(message)
                self._clients[name] = AsyncClient(
                    self.options.socket, self.options.space, name, agent_key=self.options.agent_key
                )
            if len(self._sessions) >= SESSIONS_MAX:
                del self._sessions[next(iter(self._sessions))]
            session = self._sessions[caller, name] = self._clients[name].session()
        return session

    async def close(self) -> None:
        """Close every connection."""
        for client in self._clients.values():
            await client.close()
        self._clients.clear()


def name_from(params: Any) -> str:  # the SDK's InitializeRequestParams, or None before the handshake
    """A name for an agent that was given none: the MCP client's own, and the directory that it works in."""
    info = getattr(params, "client_info", None)
    return agent_name(getattr(info, "name", None) or "mcp", os.getcwd())  # noqa: PTH109


@asynccontextmanager
async def told(kind: Callable[[str], Exception] = ToolError) -> AsyncIterator[None]:
    """Errors of the daemon become errors of the tool, with the sentence that says what to do; or those of ``kind``."""
    try:
        yield
    except CrdtSyncError as error:
        message = error.message.replace(_OF_PYTHON, "")
        raise kind(f"{readable(message)} [{error.code}]") from error


def failure(message: str) -> MCPError:
    """The error of what is no tool: a resource, a prompt, a completion."""
    return MCPError(INTERNAL_ERROR, message)
