"""Websockets between daemons: accept, dial with jittered backoff, send in order."""

from __future__ import annotations

import asyncio
import random
import socket
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

from crdtsyncd.config import is_loopback, split_address
from websockets.asyncio.client import connect
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.frames import CloseCode
from websockets.protocol import State

from crdtsync.errors import ConfigError
from crdtsync.wire.limits import PEER_FRAME_BYTES_MAX

OPEN_TIMEOUT_S = 10.0
PING_INTERVAL_S = 10.0
PING_TIMEOUT_S = 20.0
CLOSE_TIMEOUT_S = 2.0
BACKOFF_S_FIRST = 0.25
BACKOFF_S_MAX = 5.0
STABLE_S = 5.0
DUPLICATE = "duplicate"
FAULT = "the peer broke the websocket protocol"
_FAULT_CODES = (CloseCode.PROTOCOL_ERROR, CloseCode.INVALID_DATA, CloseCode.MESSAGE_TOO_BIG)


class Sink(Protocol):
    """Where the peers' connections report to."""

    def peer_opened(self, connection: PeerConnection) -> int:
        """A new connection; returns its number."""

    def peer_frame(self, conn: int, data: bytes) -> None:
        """One message from it."""

    def peer_latency(self, conn: int, rtt_ms: float) -> None:
        """A round trip took so long."""

    def peer_closed(self, conn: int, reason: str) -> None:
        """It is gone."""

    def peer_count(self) -> int:
        """How many connections there are."""

    def dial_state(self, url: str, state: str, error: str) -> None:
        """How the attempts to reach an address go."""

    def is_linked(self, url: str) -> bool:
        """Whether the node that once answered at this address is connected some other way."""

    async def breathe(self) -> None:
        """Wait until what was reported has been dealt with, so that one peer cannot take all turns."""

    def log(self, event: str, level: str = "info", **fields: object) -> None:
        """Log one event."""


class PeerConnection:
    """One open connection: messages go out in the order of :meth:`send`."""

    def __init__(self, socket: Connection, url: str, dialled: bool) -> None:
        self.url = url
        self.dialled = dialled
        self.close_reason = ""
        self._socket = socket
        self._outbox: deque[bytes] = deque()
        self._wake = asyncio.Event()

    def send(self, data: bytes) -> None:
        """Queue a message. The queue is bounded by the credit that the peer's acknowledgements give."""
        self._outbox.append(data)
        self._wake.set()

    def close(self, reason: str) -> None:
        """Close with a reason that the peer gets to read."""
        self.close_reason = self.close_reason or reason
        self._wake.set()

    async def run(self, sink: Sink) -> str:
        """Pump messages both ways until the connection ends. Returns why it ended."""
        conn = sink.peer_opened(self)
        sender = asyncio.create_task(self._send_all())
        reason = "closed"
        try:
            async for message in self._socket:
                if isinstance(message, str):
                    self.close("text messages are not part of the protocol")
                    sink.log("peer_refused", level="warning", url=self.url, reason=self.close_reason)
                    await self._socket.close(CloseCode.UNSUPPORTED_DATA, self.close_reason)
                    break
                if self.close_reason:
                    break
                sink.peer_frame(conn, message)
                if self._socket.latency:
                    sink.peer_latency(conn, self._socket.latency * 1000)
                await sink.breathe()
        except ConnectionClosed:
            pass
        finally:
            reason = self._reason()
            if reason.startswith(FAULT):
                sink.log("peer_refused", level="warning", url=self.url, reason=reason)
            self._wake.set()
            sender.cancel()
            sink.peer_closed(conn, reason)
            await asyncio.wait([sender])  # unlike awaiting it, this lets a cancellation of this task through
        return reason

    def _reason(self) -> str:
        if self.close_reason:
            return self.close_reason
        sent, received = self._socket.protocol.close_sent, self._socket.protocol.close_rcvd
        if sent is not None and sent.code in _FAULT_CODES:
            return f"{FAULT}: {sent.reason or 'its frames are malformed'}"
        if received is not None and received.reason:
            return f"the peer closed the connection: {received.reason}"
        return "the peer went away" if received is not None else "the connection broke"

    async def _send_all(self) -> None:
        with suppress(ConnectionClosed):
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._outbox:
                    await self._socket.send(self._outbox.popleft())
                if self.close_reason:
                    await self._socket.close(1008, self.close_reason.encode()[:120].decode(errors="ignore"))
                    return


def _logging_handshakes(sink: Sink) -> type[ServerConnection]:
    """A connection that logs why no websocket came of it; the library drops it without a word."""

    class Logging(ServerConnection):
        async def handshake(self, *args: Any, **options: Any) -> None:
            try:
                await super().handshake(*args, **options)
            except asyncio.CancelledError:
                self._refused(f"not within {OPEN_TIMEOUT_S:.0f} s")
                raise
            except Exception as error:
                self._refused(str(error) or type(error).__name__)
                raise
            if self.protocol.state is not State.OPEN:
                self._refused(str(self.protocol.handshake_exc or "the connection ended"))

        def _refused(self, why: str) -> None:
            reason = f"no websocket handshake: {why}"
            sink.log("peer_refused", level="warning", url=_url_of(self), reason=reason)

    return Logging


def _url_of(socket: ServerConnection) -> str:
    remote = socket.remote_address
    return f"{remote[0]}:{remote[1]}" if remote else "?"


async def listen(where: str | socket.socket, sink: Sink, connections_max: int) -> Server:
    """Accept peers on ``HOST:PORT``, or on a socket that listens already.

    :raises ConfigError: the port is in use, or not to be had.
    """
    place: dict[str, Any] = {}
    if isinstance(where, str):
        place["host"], place["port"] = split_address(where)
    else:
        place["sock"] = where

    async def accept(connection: ServerConnection) -> None:
        remote, url = connection.remote_address, _url_of(connection)
        refusal = _refusal(str(remote[0]) if remote else "", sink.peer_count(), connections_max)
        if refusal:
            sink.log("peer_refused", level="warning", url=url, reason=refusal)
            await connection.close(1013, refusal)
            return
        await PeerConnection(connection, url, dialled=False).run(sink)

    try:
        return await serve(
            accept,
            **place,
            create_connection=_logging_handshakes(sink),
            compression=None,
            max_size=PEER_FRAME_BYTES_MAX,
            max_queue=4,
            open_timeout=OPEN_TIMEOUT_S,
            ping_interval=PING_INTERVAL_S,
            ping_timeout=PING_TIMEOUT_S,
            close_timeout=CLOSE_TIMEOUT_S,
            server_header=None,
        )
    except OSError as error:
        why = "it is in use by another program" if error.errno == 98 else (error.strerror or str(error))
        raise ConfigError(f"cannot listen on {where}: {why}; choose another address with --listen") from None


def addresses(server: Server) -> list[str]:
    """``HOST:PORT`` of everything that a server listens on, with the port that it was given for port 0."""
    names = [socket.getsockname()[:2] for socket in server.sockets]
    return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in names]


def _refusal(host: str, count: int, connections_max: int) -> str:
    if not is_loopback(host):
        return "plain text connections are for loopback addresses only"
    return f"this node has {count} peer connections, the most that it may have" if count >= connections_max else ""


async def dial_forever(url: str, sink: Sink) -> None:
    """Keep a connection to ``url``.

    Full jitter over an exponentially growing delay (Brooker, 2015), until cancelled.
    """
    failures = 0
    loop = asyncio.get_running_loop()
    while True:
        if sink.is_linked(url):
            await asyncio.sleep(random.uniform(0.5, 1.5))
            continue
        started_s = loop.time()
        try:
            async with _connected(url) as socket:
                reason = await PeerConnection(socket, url, dialled=True).run(sink)
            failures = 0 if loop.time() - started_s > STABLE_S else failures + 1
            state = "down"
        except (OSError, TimeoutError, InvalidHandshake, InvalidURI, ConnectionClosed) as error:
            failures += 1
            reason = str(getattr(error, "strerror", "") or str(error) or type(error).__name__)
            state = "refused" if isinstance(error, ConnectionRefusedError) else "down"
        if not reason.startswith(DUPLICATE):
            sink.dial_state(url, state, reason)
        delay_s = min(BACKOFF_S_MAX, BACKOFF_S_FIRST * 2 ** min(failures, 10))
        await asyncio.sleep(random.uniform(0, delay_s))


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Connection]:
    async with connect(
        url,
        compression=None,
        max_size=PEER_FRAME_BYTES_MAX,
        max_queue=4,
        open_timeout=OPEN_TIMEOUT_S,
        ping_interval=PING_INTERVAL_S,
        ping_timeout=PING_TIMEOUT_S,
        close_timeout=CLOSE_TIMEOUT_S,
        proxy=None,
        user_agent_header=None,
    ) as socket:
        yield socket
