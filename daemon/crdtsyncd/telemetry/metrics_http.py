"""``GET /metrics`` on loopback, for Prometheus: as much of HTTP/1.1 as that takes, within bounds."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

from crdtsyncd.config.host_port import names_loopback, split_address
from crdtsyncd.telemetry.prometheus import CONTENT_TYPE

REQUEST_BYTES_MAX = 8 * 1024
"""A request for metrics."""
REQUEST_TIMEOUT_S = 5.0
"""Until a request for metrics is whole and answered."""
CONNECTIONS_MAX = 16
"""Connections for metrics, at once; then the oldest goes."""
METHODS = ("GET", "HEAD")
RETRY_S = 5.0
"""Between two attempts to get an address that another program has."""

_NOT_FOUND = "there is nothing but GET /metrics here\n"


class MetricsServer:
    """Answers with what ``render`` returns. One request a connection."""

    def __init__(self, render: Callable[[], str], tell: Callable[[str], None]) -> None:
        """``tell`` is told why the address cannot be had, and nothing (empty) once it can."""
        self._render = render
        self._tell = tell
        self._open: dict[asyncio.StreamWriter, None] = {}  # the oldest first
        self._server: asyncio.Server | None = None
        self._retrying: asyncio.Task[None] | None = None

    async def start(self, address: str) -> None:
        """Listen on ``HOST:PORT``, which the settings have checked to be loopback.

        Where it cannot be had, that is tried again and again: figures are not worth the agents' state.
        """
        if not await self._has(address):
            self._retrying = asyncio.create_task(self._retry(address))

    def close(self) -> None:
        """Listen no more."""
        if self._retrying is not None:
            self._retrying.cancel()
        if self._server is not None:
            self._server.close()

    async def _retry(self, address: str) -> None:
        has_it = False
        while not has_it:
            await asyncio.sleep(RETRY_S)
            has_it = await self._has(address)

    async def _has(self, address: str) -> bool:
        host, port = split_address(address)
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=REQUEST_BYTES_MAX)
        except OSError as error:
            why = "another program has it" if error.errno == errno.EADDRINUSE else error.strerror or error
            self._tell(f"metrics_listen = {address!r} cannot be had, and is tried again: {why}")
            return False
        self._tell("")
        return True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= CONNECTIONS_MAX:  # whoever asks in earnest has asked long ago
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        self._open[writer] = None
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head.decode("latin-1")))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asks so gets no answer
        finally:
            self._open.pop(writer, None)
            writer.close()

    def _answer(self, head: str) -> bytes:
        line, *headers = head.split("\r\n")
        fields = {name.strip().lower(): value.strip() for name, _, value in (each.partition(":") for each in headers)}
        if not names_loopback(fields.get("host", "localhost")):
            return _response("403 Forbidden", "ask for a loopback address\n")
        method, _, rest = line.partition(" ")
        if rest.partition(" ")[0].partition("?")[0] != "/metrics":
            return _response("404 Not Found", _NOT_FOUND)
        if method not in METHODS:
            return _response("405 Method Not Allowed", _NOT_FOUND, more=f"Allow: {', '.join(METHODS)}\r\n")
        return _response("200 OK", self._render(), CONTENT_TYPE, with_body=method == "GET")


def _response(
    status: str, text: str, kind: str = "text/plain; charset=utf-8", with_body: bool = True, more: str = ""
) -> bytes:
    """``more``: further lines of the head."""
    body = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}Connection: close\r\n"
    return f"{head}\r\n".encode() + (body if with_body else b"")
