"""Listens for this machine's browsers, and answers them."""

from __future__ import annotations

import errno
import ipaddress
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from crdtsync import AsyncClient
from crdtsync.errors import CrdtSyncError, InvalidRequest
from crdtsync.loopback import is_loopback, listening
from crdtsync.ui.calls import CALLS, Doctor, ShownSpace
from crdtsync.ui.guard import Doorkeeper, Guard
from crdtsync.ui.live import Live
from crdtsync.ui.plain import number, plain

PORT = 7479
REQUEST_BYTES_MAX = 2 << 20
"""Bytes that the page sends at once."""

SPACES_MAX = 100
"""That the pages of one server look at, each by a session of its own."""

PART_BYTES = 512 * 1024
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types of blobs that the page shows. Others, such as SVG, may hold what a browser would run."""
ASSETS = Path(__file__).parent / "assets"


@dataclass(frozen=True, slots=True)
class PageOptions:
    """How the page was started. ``certificate`` and ``private_key`` are files (PEM); without them it listens on
    loopback only. ``doctor`` looks this host over.
    """

    host: str = "127.0.0.1"
    port: int = PORT
    read_only: bool = False
    certificate: str | None = None
    private_key: str | None = None
    doctor: Doctor | None = None


async def serve(client: AsyncClient, options: PageOptions, ready: Callable[[str], None]) -> None:
    """Serve the page until it is told to end; ``ready`` gets each address that lets one browser in.

    Raises :class:`~crdtsync.errors.InvalidRequest` for an address beyond loopback without a certificate, for one that
    no browser can open, for what is no certificate with its key, and for a port that is taken.
    """
    with _listening(options) as listener:
        port = listener.getsockname()[1]
        name = f"[{options.host}]" if ":" in options.host else options.host
        is_tls = options.certificate is not None
        base = f"{'https' if is_tls else 'http'}://{name}:{port}/"
        hosts = {f"{host}:{port}" for host in (name, "localhost", socket.gethostname())}
        keeper = Doorkeeper(lambda word: ready(f"{base}#{word}"))
        page = Page(client, keeper, options, cookie=f"crdtsync-ui-{port}")
        app = Guard(page.app(), keeper, hosts, is_tls=is_tls, cookie=page.cookie)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, timeout_graceful_shutdown=1, lifespan="off", ws="none",
            server_header=False, ssl_certfile=options.certificate, ssl_keyfile=options.private_key,
        )  # fmt: skip
        await uvicorn.Server(config).serve(sockets=[listener])


class Page:
    """The page's files, its calls, and its news."""

    def __init__(self, client: AsyncClient, keeper: Doorkeeper, options: PageOptions, *, cookie: str) -> None:
        self.cookie = cookie
        self._client = client
        self._keeper = keeper
        self._options = options
        self._spaces: dict[str | None, tuple[ShownSpace, Live]] = {}

    def app(self) -> Starlette:
        """The program that answers a browser that :class:`~crdtsync.ui.guard.Guard` has let through."""
        return Starlette(
            routes=[
                Route("/", lambda _: FileResponse(ASSETS / "index.html"), methods=["GET"]),
                Mount("/assets", StaticFiles(directory=ASSETS)),
                Route("/live", self._news, methods=["GET"]),
                Route("/blob", self._blob, methods=["GET"]),
                Route("/login", self._login, methods=["POST"]),
                Route("/api/{name}", self._call, methods=["POST"]),
            ]
        )

    async def _login(self, request: Request) -> Response:
        word = (await _sent(request)).get("word")
        found = self._keeper.let_in(word) if isinstance(word, str) else None
        if found is None:
            message = "this address was used already, or is not the newest: open the one that crdtsync ui printed last"
            return _error(403, "used", message)
        place, cookie = found
        response = JSONResponse({"result": place})
        is_tls = self._options.certificate is not None
        response.set_cookie(self.cookie, cookie, path=place, httponly=True, samesite="strict", secure=is_tls)
        return response

    async def _call(self, request: Request) -> Response:
        given, found = await _sent(request), CALLS.get(request.path_params["name"])
        if found is None:
            return _error(404, "not_found", f"nothing is called {request.path_params['name']}")
        if found.writes and self._options.read_only:
            return _error(403, "read_only", "this page was started with --read-only")
        try:
            space, _ = self._space(given.pop("space", None))
            return JSONResponse({"result": plain(await found.function(space, **given))})
        except CrdtSyncError as error:
            return _error(200, error.code, error.message)
        except (TypeError, ValueError) as error:
            return _error(400, "invalid_request", str(error))

    async def _blob(self, request: Request) -> Response:
        """The bytes of a blob: pictures of harmless types to be shown, all else to be saved."""
        asked = request.query_params
        try:
            blob = await self._space(asked.get("space"))[0].state.get_blob(asked.get("key", ""))
        except CrdtSyncError as error:
            return _error(404, error.code, error.message)

        if blob is None:
            return _error(404, "absent", "there is no such blob")

        async def parts() -> AsyncIterator[bytes]:
            while part := await blob.read(PART_BYTES):
                yield part

        is_picture = blob.media_type in PICTURES
        headers = {"content-length": str(blob.size)} | ({} if is_picture else {"content-disposition": "attachment"})
        kind = blob.media_type if is_picture else "application/octet-stream"
        return StreamingResponse(parts(), media_type=kind, headers=headers)

    def _space(self, name: str | None) -> tuple[ShownSpace, Live]:
        if name not in self._spaces:
            if len(self._spaces) >= SPACES_MAX:
                self._spaces.clear()
            space = ShownSpace(self._client, name, self._options.doctor)
            self._spaces[name] = space, Live(space.state)
        return self._spaces[name]

    async def _news(self, request: Request) -> Response:
        _, live = self._space(request.query_params.get("space"))
        hello = {"agent": self._client.agent, "space": self._client.space, "read_only": self._options.read_only}

        async def events() -> AsyncIterator[bytes]:
            yield f"event: hello\ndata: {json.dumps(hello)}\n\n".encode()
            async for event in live.events():
                yield event

        return StreamingResponse(events(), media_type="text/event-stream")


async def _sent(request: Request) -> dict[str, Any]:
    """The object that the page sent."""
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > REQUEST_BYTES_MAX:
            raise HTTPException(413, f"a request may have {REQUEST_BYTES_MAX:,} bytes")
    try:
        given = json.loads(content, object_hook=number)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise HTTPException(400, "send a JSON object")
    return given


def _error(status: int, code: str, message: str) -> Response:
    return JSONResponse({"error": {"code": code, "message": message}}, status)


def _listening(options: PageOptions) -> socket.socket:
    host = options.host
    if (options.certificate is None) != (options.private_key is None):
        raise InvalidRequest("a certificate goes with its key: give both --certificate and --private-key")
    if options.certificate is None and host != "localhost" and not is_loopback(host):
        raise InvalidRequest(f"{host} is not loopback: give --certificate and --private-key, or use 127.0.0.1")
    with suppress(ValueError):
        if ipaddress.ip_address(host).is_unspecified:
            message = f"browsers do not open {host}: give --listen the address or the name that they will open"
            raise InvalidRequest(message)
    if options.certificate is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(options.certificate, options.private_key)
        except OSError as error:
            message = f"{options.certificate} is no certificate, or {options.private_key} not its key, in PEM: {error}"
            raise InvalidRequest(message) from None
    try:
        return listening(host, options.port, anywhere=True)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        message = f"port {options.port} of {host} is in use: give --listen another one, or 0 for any that is free"
        raise InvalidRequest(message) from None
