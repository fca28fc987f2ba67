"""Accepting peers: bounded in number before anything is known of them, by TLS or in plain text on loopback.

Sockets are accepted here and not by the event loop's servers, which drop a failed TLS handshake without a word: so the
reason of every refusal is logged, what has not finished its handshakes is counted, and a change of the members takes
effect with the next connection.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from crdtsyncd.config.exit_status import AddressTaken
from crdtsyncd.config.host_port import is_loopback, names_loopback, split_address
from crdtsyncd.peers.websocket_peer import (
    CLOSE_TIMEOUT_S,
    OPEN_TIMEOUT_S,
    Counted,
    PeerConnection,
    PeerSink,
)
from crdtsyncd.security.peer_identity import PeerIdentity
from crdtsyncd.security.tls import name_asked_for, reason_of
from crdtsyncd.telemetry.log_rate_limit import stranger_refused
from websockets.asyncio.server import Server, ServerConnection
from websockets.exceptions import InvalidHeader
from websockets.frames import CloseCode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from crdtsync.wire.limits import PEER_FRAME_BYTES_MAX

OPENING_CONNECTIONS_MAX = 128
"""Connections of which it is not known yet whether they are a member's; then the oldest goes."""
STRANGER_BYTES_MAX = 16 * 1024
"""Bytes taken over a connection in all, until it is a member's. A request for a websocket has some hundred bytes, one
to join less than 10,000, and a stranger has nothing else to say: 64 of them that each began a message of 8 MiB took
half a gigabyte (measured).
"""
ACCEPT_RETRY_S = 1.0
_BACKLOG = 256


class AcceptedConnection(Counted, ServerConnection):
    """A connection that logs why no websocket came of it; the library drops it without a word.

    It is a stranger's until :meth:`welcome`, and may send no more than :data:`STRANGER_BYTES_MAX` in all.
    """

    sink: PeerSink
    settled: asyncio.Event
    """It has been recognised, or is over: it no longer counts as one that is being opened."""
    came_from = "?"
    """As an address: who has broken off has none any more."""
    is_stranger = True
    _is_refused = False

    def welcome(self) -> None:
        """It is a member's: its messages may be as long as they get."""
        self.is_stranger = False
        self.take_messages_to(PEER_FRAME_BYTES_MAX)

    def data_received(self, data: bytes) -> None:
        """See the library."""
        if self.is_stranger and self.received_bytes + len(data) > STRANGER_BYTES_MAX:
            if not self.transport.is_closing():
                self._refused(f"it sent over {STRANGER_BYTES_MAX:,} bytes before it was known for a member")
                self.transport.abort()
            return
        super().data_received(data)

    async def handshake(self, *args: Any, **options: Any) -> None:
        """See the library."""
        try:
            await super().handshake(*args, **options)
        except asyncio.CancelledError:
            self._no_handshake(f"not within {OPEN_TIMEOUT_S:.0f} s")
            raise
        except Exception as error:
            self._no_handshake(str(error) or type(error).__name__)
            raise
        if self.protocol.state is not State.OPEN:
            self._no_handshake(str(self.protocol.handshake_exc or "the connection ended"))

    def _no_handshake(self, why: str) -> None:
        self._refused(f"no websocket handshake: {why}")

    def _refused(self, why: str) -> None:
        if not self._is_refused:
            self._is_refused = True
            stranger_refused(self.sink.log, self.came_from, why)


class PeerProtocol(ServerProtocol):
    """Takes handshakes of daemons, and none that a web page has its browser make: that says where the page is from.

    Without TLS the name that was asked for has to be this machine's, too: a page can have a name of its own point here.
    """

    def __init__(self, *, is_plain: bool) -> None:
        super().__init__(origins=[None], max_size=STRANGER_BYTES_MAX)
        self._is_plain = is_plain

    def process_request(self, request: Request) -> tuple[str, str | None, str | None]:
        """See the library."""
        host = ",".join(request.headers.get_all("Host"))
        if self._is_plain and not names_loopback(host):
            raise InvalidHeader("Host", host)
        return super().process_request(request)


class Acceptor:
    """The server, as the websocket library takes it for the event loop's."""

    def __init__(self, sockets: list[socket.socket], sink: PeerSink, make: Callable[[], AcceptedConnection]) -> None:
        self.sockets = tuple(sockets)
        self._sink = sink
        self._make = make
        self._opening: dict[asyncio.Task[None], str] = {}
        self._loop = asyncio.get_running_loop()
        self._tasks = [self._loop.create_task(self._accept(sock)) for sock in sockets]

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The event loop."""
        return self._loop

    def is_serving(self) -> bool:
        """Whether connections are accepted."""
        return bool(self._tasks)

    def close(self) -> None:
        """Accept no more, and drop those that have not finished their handshakes."""
        for task in [*self._tasks, *self._opening]:
            task.cancel()
        self._tasks = []
        for sock in self.sockets:
            sock.close()

    async def wait_closed(self) -> None:
        """Until that is done."""
        await asyncio.gather(*self._opening, return_exceptions=True)

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                sock, remote = await self._loop.sock_accept(listening)
            except OSError as error:
                self._sink.log("accept_failed", level="error", reason=error.strerror or str(error))
                await asyncio.sleep(ACCEPT_RETRY_S)
                continue
            if len(self._opening) >= OPENING_CONNECTIONS_MAX:
                oldest = next(iter(self._opening))
                stranger_refused(
                    self._sink.log,
                    self._opening.pop(oldest),
                    f"{OPENING_CONNECTIONS_MAX} connections have not finished their handshakes, and this is the oldest",
                )
                oldest.cancel()
            task = self._loop.create_task(self._open(sock, _url(remote)))
            self._opening[task] = _url(remote)
            task.add_done_callback(lambda done: self._opening.pop(done, None))

    async def _open(self, sock: socket.socket, url: str) -> None:
        """Shake hands and find out who it is. Where this ends before that, the connection is dropped."""
        connection = self._make()
        connection.came_from = url
        try:
            sock.setblocking(False)
            with suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            credentials = self._sink.credentials()
            secured: dict[str, Any] = {}
            if credentials is not None:
                secured["ssl"] = credentials.listening
                secured["ssl_handshake_timeout"] = OPEN_TIMEOUT_S
                secured["ssl_shutdown_timeout"] = CLOSE_TIMEOUT_S
            transport, _ = await self._loop.connect_accepted_socket(lambda: connection, sock, **secured)
        except OSError as error:
            sock.close()
            stranger_refused(self._sink.log, url, f"no TLS handshake: {reason_of(error) or _broken(error)}")
            return
        except asyncio.CancelledError:
            sock.close()
            raise
        try:
            await connection.settled.wait()
        except asyncio.CancelledError:
            transport.abort()
            raise


async def listen(where: str | socket.socket, sink: PeerSink, connections_max: int) -> Server:
    """Accept peers on ``HOST:PORT``, or on a socket that listens already.

    :raises ConfigError: the port is in use, or not to be had.
    """

    async def accept(connection: AcceptedConnection) -> None:
        await _serve(connection, sink, connections_max)

    async def open_sockets() -> Any:  # Any: the library wants asyncio's own server, and uses what Acceptor has
        return Acceptor(await _bind(where) if isinstance(where, str) else [where], sink, make)

    def make() -> AcceptedConnection:
        connection = AcceptedConnection(
            PeerProtocol(is_plain=sink.credentials() is None),
            server,
            ping_interval=None,
            close_timeout=CLOSE_TIMEOUT_S,
            max_queue=4,
        )
        connection.sink, connection.settled = sink, asyncio.Event()
        return connection

    server = Server(open_sockets, lambda connection: _handle(server, connection, accept))
    try:
        return await server
    except OSError as error:
        why = "it is in use by another program" if error.errno == 98 else (error.strerror or str(error))
        raise AddressTaken(f"cannot listen on {where}: {why}; choose another address with --listen") from None


async def _bind(where: str) -> list[socket.socket]:
    host, port = split_address(where)
    found = await asyncio.to_thread(  # unlike uvloop's, which ignores an interface that is not there
        socket.getaddrinfo, host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, kind, number, _, address in dict.fromkeys(found):
            sock = socket.socket(family, kind, number)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(address)
            sock.listen(_BACKLOG)
            sock.setblocking(False)
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets


async def _handle(
    server: Server, connection: ServerConnection, accept: Callable[[AcceptedConnection], Awaitable[None]]
) -> None:
    """Serve a connection as the library does, from its handshake to its end."""
    assert isinstance(connection, AcceptedConnection)
    try:
        async with asyncio.timeout(OPEN_TIMEOUT_S):
            await connection.handshake(None, None, None)
        if connection.protocol.state is not State.OPEN:
            connection.transport.abort()
            return
        server.all_connections.add(connection)
        connection.start_keepalive()
        async with connection:
            await accept(connection)
    except Exception:  # noqa: BLE001  # it has been logged; nothing of this connection may reach another
        connection.transport.abort()
    finally:
        connection.settled.set()
        server.all_connections.discard(connection)
        task = asyncio.current_task()
        assert task is not None
        server.handler_tasks.discard(task)


async def _serve(connection: AcceptedConnection, sink: PeerSink, connections_max: int) -> None:
    remote, url = connection.remote_address, _url(connection.remote_address)
    secured = connection.transport.get_extra_info("ssl_object")
    count = sink.peer_count()
    node, joins, refusal, code = PeerIdentity("")
    if secured is not None:
        node, joins, refusal, code = sink.recognise(secured.getpeercert(True), name_asked_for(secured))
    elif not is_loopback(str(remote[0]) if remote else ""):
        refusal = "plain text connections are for loopback addresses only"
    if count >= connections_max:
        code = code if refusal else CloseCode.TRY_AGAIN_LATER
        refusal = refusal or f"this node has {count} peer connections, the most that it may have"
    if refusal:
        stranger_refused(sink.log, url, refusal)
        await connection.close(code, _short(refusal))
        return
    if not joins:
        connection.welcome()
    connection.settled.set()
    await PeerConnection(connection, url, dialled=False, node=node, joins=joins).run(sink)


def _broken(error: OSError) -> str:
    if isinstance(error, ConnectionResetError):
        return "it broke the connection off, as one does that does not take this node's certificate"
    return error.strerror or str(error) or type(error).__name__


def _short(reason: str) -> str:
    return reason.encode()[:120].decode(errors="ignore")


def _url(remote: Any) -> str:
    return f"{remote[0]}:{remote[1]}" if remote else "?"


def addresses(server: Server) -> list[str]:
    """``HOST:PORT`` of everything that a server listens on, with the port that it was given for port 0."""
    names = [sock.getsockname()[:2] for sock in server.sockets]
    return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in names]
