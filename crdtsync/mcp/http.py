"""MCP over HTTP on loopback, for clients that start no process: one server for many agents of this host.

Each request shows a token (:mod:`crdtsync.loopback`), and requests for another host or from another origin are
refused (by the SDK), which stops pages that have a name resolve to loopback.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from crdtsync.context.extras import need
from crdtsync.loopback import listening
from crdtsync.mcp.server import build
from crdtsync.mcp.session import ServerOptions

_Scope = MutableMapping[str, Any]
_App = Callable[[_Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


async def serve_http(options: ServerOptions, host: str, port: int, token: str, ready: Callable[[str], None]) -> None:
    """Speak MCP at ``http://HOST:PORT/mcp`` until it is told to end; ``ready`` is called with that address.

    Raises :class:`~crdtsync.errors.InvalidRequest` for a host that is not loopback, and OSError if the port is taken.
    """
    uvicorn = need("uvicorn", "mcp")
    server, sessions = build(options)
    with listening(host, port) as listener:
        name = f"[{host}]" if ":" in host else host
        ready(f"http://{name}:{listener.getsockname()[1]}/mcp")
        app = _guarded(server.streamable_http_app(host=host), token)
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2)
        try:
            await uvicorn.Server(config).serve(sockets=[listener])
        finally:
            await sessions.close()


def _guarded(app: _App, token: str) -> _App:
    """``app``, for requests that show the token."""
    wanted = token.encode()

    async def guard(
        scope: _Scope, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        if scope["type"] == "http":
            header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            scheme, _, shown = header.partition(b" ")
            if not hmac.compare_digest(shown.strip(), wanted) or scheme.lower() != b"bearer":
                challenge = (b"www-authenticate", b"Bearer")
                await send({"type": "http.response.start", "status": 401, "headers": [challenge]})
                await send({"type": "http.response.body", "body": b"show the token of this server\n"})
                return
        await app(scope, receive, send)

    return guard
