"""MCP over HTTP on loopback, for clients that start no process: one server for many agents of this host.

Any program of the host can connect to a port on loopback, and so can a web page that the user looks at. So each
request shows a token, which a file of the user holds, and requests for another host or from another origin are
refused (by the SDK), which stops pages that have a name resolve to loopback.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from crdtsync.context.extras import need
from crdtsync.errors import InvalidRequest
from crdtsync.mcp.server import build
from crdtsync.mcp.session import Options

PORT = 7478
_TOKEN_CHARS_MIN = 20

_Scope = MutableMapping[str, Any]
_App = Callable[[_Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


async def serve_http(options: Options, host: str, port: int, token: str, ready: Callable[[str], None]) -> None:
    """Speak MCP at ``http://HOST:PORT/mcp`` until it is told to end; ``ready`` is called with that address.

    Raises :class:`~crdtsync.errors.InvalidRequest` for a host that is not loopback, and OSError if the port is taken.
    """
    uvicorn = need("uvicorn", "mcp")
    server, sessions = build(options)
    with _listening(host, port) as listener:
        name = f"[{host}]" if ":" in host else host
        ready(f"http://{name}:{listener.getsockname()[1]}/mcp")
        app = _guarded(server.streamable_http_app(host=host), token)
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2)
        try:
            await uvicorn.Server(config).serve(sockets=[listener])
        finally:
            await sessions.close()


def token_in(path: Path) -> str:
    """The token that a file holds; it is made, for its owner alone, if there is none.

    Raises :class:`~crdtsync.errors.InvalidRequest` for a file that others may read, or that holds no token.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(FileExistsError), os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(secrets.token_urlsafe(32) + "\n")
    if path.stat().st_mode & 0o077:
        message = f"others may read the token in {path}: chmod 600 {path}, and delete it to have a new one"
        raise InvalidRequest(message)
    token = path.read_text().strip()
    if len(token) < _TOKEN_CHARS_MIN or not token.isascii() or not token.isprintable():
        message = f"{path} holds no token of {_TOKEN_CHARS_MIN} characters or more: delete it to have one made"
        raise InvalidRequest(message)
    return token


def _listening(host: str, port: int) -> socket.socket:
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        message = f"{host!r} is no address of loopback: use 127.0.0.1 or ::1; other hosts run a server of their own"
        raise InvalidRequest(message)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def _guarded(app: _App, token: str) -> _App:
    """``app``, for requests that show the token."""
    wanted = f"Bearer {token}".encode()

    async def guard(
        scope: _Scope, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        if scope["type"] == "http":
            shown = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            if not hmac.compare_digest(shown, wanted):
                challenge = (b"www-authenticate", b"Bearer")
                await send({"type": "http.response.start", "status": 401, "headers": [challenge]})
                await send({"type": "http.response.body", "body": b"show the token of this server\n"})
                return
        await app(scope, receive, send)

    return guard
