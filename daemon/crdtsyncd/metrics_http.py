"""``GET /metrics`` on loopback, for Prometheus: as much of HTTP/1.1 as that takes, within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import urlsplit

from crdtsyncd.exits import AddressTaken
from crdtsyncd.hostport import is_loopback, split_address
from crdtsyncd.metrics import CONTENT_TYPE

REQUEST_BYTES_MAX = 8 * 1024
REQUEST_TIMEOUT_S = 5.0
CONNECTIONS_MAX = 16

_NOT_FOUND = "there is nothing but GET /metrics here\n"


class MetricsServer:
    """Answers with what ``render`` returns. One request a connection."""

    def __init__(self, render: Callable[[], str]) -> None:
        self._render = render
        self._open: dict[asyncio.StreamWriter, None] = {}  # the oldest first

    async def listen(self, address: str) -> asyncio.Server:
        """Listen on ``HOST:PORT``, which the settings have checked to be loopback.

        :raises ConfigError: it cannot be had.
        """
        host, port = split_address(address)
        try:
            return await asyncio.start_server(self._serve, host, port, limit=REQUEST_BYTES_MAX)
        except OSError as error:
            raise AddressTaken(
                f"metrics_listen = {address!r}: cannot listen there: {error.strerror or error}; choose another port"
            ) from None

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
        if not _is_local(fields.get("host", "localhost")):  # a web page that had a name point here (DNS rebinding)
            return _response("403 Forbidden", "ask for a loopback address\n")
        method, _, rest = line.partition(" ")
        if method not in ("GET", "HEAD") or rest.partition(" ")[0].partition("?")[0] != "/metrics":
            return _response("404 Not Found", _NOT_FOUND)
        return _response("200 OK", self._render(), CONTENT_TYPE, with_body=method == "GET")


def _is_local(host: str) -> bool:
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False


def _response(status: str, text: str, kind: str = "text/plain; charset=utf-8", with_body: bool = True) -> bytes:
    body = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + (body if with_body else b"")
