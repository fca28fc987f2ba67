"""Websockets between daemons: dial with jittered backoff, send in order.

Thirty hosts come back after a power cut, and each dials several others. If all of them tried again at once after each
failure, they would keep each other from answering. So each waits for a random part of a delay that doubles (full
jitter; Brooker, 2015). A peer that takes no more of what it is sent must not cost memory either: its connection is
closed at :data:`UNREAD_BYTES_MAX`, and both begin again from what they hold.
"""

from __future__ import annotations

import asyncio
import random
import struct
import termios
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from fcntl import ioctl
from typing import Any, Protocol

from crdtsyncd.peers.websocket_frames import Splitter, message_frame, whole_message
from crdtsyncd.security.peer_identity import DUPLICATE, REMOVED_CODE, Credentials, PeerIdentity
from crdtsyncd.security.tls import reason_of
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidURI
from websockets.frames import DATA_OPCODES, CloseCode, Frame, Opcode
from websockets.protocol import Event, Side, State

from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.limits import PEER_FRAME_BYTES_MAX
from crdtsync.wire.peer.changes import Ack

OPEN_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 2.0
BACKOFF_S_FIRST = 0.25
BACKOFF_S_MAX = 5.0
"""Between two attempts to reach a peer."""
REFUSED_BACKOFF_S_MAX = 30.0
"""Between two attempts to reach a peer, where one of the two refuses the other."""
STABLE_S = 5.0
TAKEN_AT_ONCE_MAX = 8
"""So many messages that come together are dealt with at once; the others when it is their turn."""
TURN_BYTES_MAX = 2048
"""Bytes of those in one turn, or one message: two hosts that meet send some ten short ones."""
UNREAD_BYTES_MAX = 16 * 1024 * 1024
"""Messages that wait for a peer to read. Changes and snapshots wait for its acknowledgements, beyond 4 MiB; other
messages, such as an answer to each probe, do not.
"""
_ACK = bytes([Ack.TYPE])
"""The second byte of an acknowledgement: see :func:`crdtsync.wire.peer.messages.type_of`."""
_MESSAGE_BYTES = 100
"""Bytes that a message takes beside its own while it waits."""
PINGS_MAX = 100
"""Pings of the websocket without a message between: no version of this daemon sends any."""
FAULT = "the peer broke the websocket protocol"
_FAULT_CODES = (CloseCode.PROTOCOL_ERROR, CloseCode.INVALID_DATA, CloseCode.MESSAGE_TOO_BIG)
_REFUSAL_CODES = (CloseCode.POLICY_VIOLATION, CloseCode.TRY_AGAIN_LATER)


NOT_CONNECTED = (OSError, TimeoutError, InvalidHandshake, InvalidURI, ConnectionClosed, ValueError)
"""Errors of an address that leads nowhere. ValueError: of one, given by another, that cannot be an address."""


class PeerSink(Protocol):
    """Where the peers' connections report to."""

    def peer_opened(self, connection: PeerConnection) -> int:
        """A new connection; returns its number."""

    def peer_frame(self, conn: int, data: bytes) -> None:
        """One message from it."""

    def peer_closed(self, conn: int, reason: str) -> None:
        """It is gone."""

    def peer_count(self) -> int:
        """How many connections there are."""

    def dial_state(self, url: str, state: str, error: str) -> None:
        """How the attempts to reach an address go: ``down``, ``refused``, or ``removed``, as who answers says."""

    def misled(self, node: str, address: str, found: str) -> None:
        """At an address that a member says is its own, another one answers."""

    def is_linked(self, url: str) -> bool:
        """Whether the node that once answered at this address is connected some other way."""

    def credentials(self) -> Credentials | None:
        """The credentials for other nodes, and whom to trust; None: plain text on loopback."""

    def recognise(self, certificate: bytes | None, asked: str) -> PeerIdentity:
        """The owner of this certificate (DER), who asks for that name; and why it is refused."""

    def turn_due(self) -> int:
        """The number of the turn in which what has been reported will be dealt with; 0: it has been."""

    async def breathe(self) -> None:
        """Wait until what was reported has been dealt with, so that one peer cannot take all turns."""

    def may_go_on(self, connection: PeerConnection, then: Callable[[], object]) -> bool:
        """Whether it may bring more; else ``then`` is called when it may."""

    def log(self, event: str, level: str = "info", **fields: object) -> None:
        """Log one event."""


class Counted(Connection):
    """A connection that counts what comes in, also of messages that are not yet whole.

    A message that came whole is offered to ``take`` first: the library would hand it to a task that has to be woken,
    which takes another round of the event loop. If it came in one frame and at once, the library never sees it.
    """

    received_bytes = 0
    take: Callable[[bytes], bool] | None = None
    waiting = 0
    """How many messages the library holds that nobody has read; whoever reads them counts down."""
    _pings = 0
    _offers = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._splitter = Splitter()
        self._is_server = self.protocol.side is Side.SERVER  # and so sends unmasked, and gets masked frames
        self._frame_bytes_max = self.protocol.max_message_size or 0  # the library refuses longer messages, and says so

    def take_messages_to(self, bytes_max: int) -> None:
        """Take messages of so many bytes from now on."""
        self.protocol.max_message_size = self._frame_bytes_max = bytes_max

    def data_received(self, data: bytes) -> None:
        """See the library."""
        self.received_bytes += len(data)
        self._offers = TAKEN_AT_ONCE_MAX
        for piece, is_frame in self._splitter.split(data):
            if not (is_frame and self._takes_frame(piece)):
                super().data_received(piece)

    def _takes_frame(self, frame: bytes) -> bool:
        """Whether the frame was a message, and has been taken."""
        protocol, take = self.protocol, self.take
        if take is None or self.waiting or not self._offers or len(frame) > self._frame_bytes_max:
            return False
        if protocol.state is not State.OPEN or protocol.current_size is not None:  # amid a message in several frames
            return False
        message = whole_message(frame, self._is_server)
        if message is None:
            return False
        self._offers -= 1
        return take(message)

    @property
    def can_send(self) -> bool:
        """Whether what is sent now goes out, and at once."""
        return self.protocol.state is State.OPEN and not self.paused and not self.transport.is_closing()

    def send_at_once(self, message: bytes) -> None:
        """Send a binary message. To be called while nothing else is being sent, and :attr:`can_send`."""
        self.transport.write(message_frame(message, not self._is_server))

    def process_event(self, event: Event) -> None:
        """See the library."""
        if isinstance(event, Frame) and event.opcode is Opcode.PING:
            self._pings += 1
            if self._pings == PINGS_MAX:  # each is answered, whether the other side reads the answers or not
                self.protocol.fail(CloseCode.PROTOCOL_ERROR, f"{PINGS_MAX} pings and no message")
                self.send_data()
                self.transport.close()  # and read no further
                self.loop.call_later(CLOSE_TIMEOUT_S, self.transport.abort)
        elif isinstance(event, Frame) and event.opcode in DATA_OPCODES:
            self._pings = 0
            is_whole = event.fin and event.opcode is Opcode.BINARY
            if is_whole and not self.waiting and self._offers and self.take is not None:
                self._offers -= 1
                if self.take(bytes(event.data)):
                    return
            self.waiting += event.fin
        super().process_event(event)


class Outgoing(Counted, ClientConnection):
    """One that this side has dialled."""


OPTIONS: dict[str, Any] = {
    "compression": None,
    "max_size": PEER_FRAME_BYTES_MAX,
    "max_queue": 4,
    "ping_interval": None,  # the core's own probes say more: see crdtsync.core.peers.liveness
    "close_timeout": CLOSE_TIMEOUT_S,
    "create_connection": Outgoing,
    "proxy": None,
    "user_agent_header": None,
}
"""How this side of a connection that it dials behaves."""


class PeerConnection:
    """One open connection: messages go out in the order of :meth:`send`.

    ``node`` is the node that the other side's key belongs to, empty in plain text; ``joins``: that is not known yet.
    """

    def __init__(self, socket: Counted, url: str, dialled: bool, node: str = "", joins: bool = False) -> None:
        self.url = url
        self.dialled = dialled
        self.node = node
        self.joins = joins
        self.close_reason = ""
        self._socket = socket
        self._outbox: deque[bytes] = deque()
        self._outbox_bytes = 0
        self._wake = asyncio.Event()
        self._may_go_on = asyncio.Event()
        self._sent_bytes = 0
        self._flow = (0, 0, 0)
        self._was_heard = False

    def send(self, data: bytes) -> None:
        """Send a message, at once if it can be: a task would be woken only when the turn under way has ended.

        Else it is queued, and a peer for which too much is queued is cut off.
        """
        if self.close_reason:
            return
        if self._outbox or not self._socket.can_send:
            self._outbox.append(data)
            self._outbox_bytes += len(data) + _MESSAGE_BYTES
            if self._outbox_bytes > UNREAD_BYTES_MAX:
                self._outbox.clear()
                self.close(f"it does not read: over {UNREAD_BYTES_MAX:,} bytes wait for it")
            self._wake.set()
            return
        self._sent_bytes += len(data)
        self._socket.send_at_once(data)

    def close(self, reason: str) -> None:
        """Close with a reason that the peer gets to read; if it reads nothing, without."""
        if not self.close_reason:
            self.close_reason = reason
            asyncio.get_running_loop().call_later(CLOSE_TIMEOUT_S, self._socket.transport.abort)
        self._wake.set()

    def has_flowed(self, bytes_min: int) -> bool:
        """Whether so many bytes have come in since this was last asked, or have got to the other host while more were,
        and still are, under way: what its kernel takes at once says nothing about who ought to read it there.
        """
        received, arrived, sent = (
            self._socket.received_bytes,
            self._sent_bytes - self._unacknowledged(),
            self._sent_bytes,
        )
        before, self._flow = self._flow, (received, arrived, sent)
        is_slow = arrived + bytes_min < before[2]
        return received - before[0] >= bytes_min or (is_slow and arrived - before[1] >= bytes_min)

    def _unacknowledged(self) -> int:
        """How many bytes the kernel of the other host has not acknowledged, SIOCOUTQ in tcp(7)."""
        transport = self._socket.transport
        if transport.is_closing():
            return 0
        queued = struct.unpack("i", ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, b"\0" * 4))[0]
        return int(transport.get_write_buffer_size()) + int(queued)

    async def run(self, sink: PeerSink) -> str:
        """Pump messages both ways until the connection ends. Returns why it ended."""
        conn = sink.peer_opened(self)
        sender = asyncio.create_task(self._send_all())
        turn = taken_bytes = 0  # the last one in which messages were taken at once, and of them: no peer can fill it

        def take(message: bytes) -> bool:
            nonlocal turn, taken_bytes
            due = sink.turn_due()
            before_bytes = taken_bytes if due and due == turn else 0
            # Somebody waits for what the turn commits, and nearly nobody for an acknowledgement.
            is_later = before_bytes + len(message) > TURN_BYTES_MAX or message[1:2] == _ACK
            if self.close_reason or (before_bytes and is_later) or not sink.may_go_on(self, self._may_go_on.set):
                return False
            sink.peer_frame(conn, message)
            turn, taken_bytes = sink.turn_due(), before_bytes + len(message)
            return True

        self._socket.take = take
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
                self._was_heard = True
                sink.peer_frame(conn, message)
                await sink.breathe()
                while not sink.may_go_on(self, self._may_go_on.set):
                    self._may_go_on.clear()
                    await self._may_go_on.wait()
                self._socket.waiting -= 1
        except ConnectionClosed:
            pass
        finally:
            self._socket.take = None
            reason = self._reason()
            if reason.startswith(FAULT):
                sink.log("peer_refused", level="warning", url=self.url, reason=reason)
            self._wake.set()
            sender.cancel()
            sink.peer_closed(conn, reason)
            await asyncio.wait([sender])  # unlike awaiting it, this lets a cancellation of this task through
        return reason

    @property
    def dial_state(self) -> str:
        """The end of a connection: ``refused`` if the other side said nothing but why not."""
        received = self._socket.protocol.close_rcvd
        if self._was_heard or received is None or self.close_reason:
            return "down"
        if received.code == REMOVED_CODE:
            return "removed"
        return "refused" if received.code in _REFUSAL_CODES else "down"

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
                    data = self._outbox.popleft()
                    self._outbox_bytes -= len(data) + _MESSAGE_BYTES
                    self._sent_bytes += len(data)
                    await self._socket.send(data)
                if self.close_reason:
                    await self._socket.close(1008, self.close_reason.encode()[:120].decode(errors="ignore"))
                    return


class TlsRefused(ConnectionError):
    """No TLS connection came about, and why."""


class AnotherAnswers(Exception):  # what happened, which is nobody's fault here
    """The key that was shown is that of another member than the one that was looked for: of ``node``."""

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.node = node


async def dial_forever(url: str, sink: PeerSink) -> None:
    """Keep a connection to ``url``.

    Full jitter over an exponentially growing delay (Brooker, 2015), until cancelled.
    """
    tries = Tries()
    while True:
        if sink.is_linked(url):
            await asyncio.sleep(random.uniform(0.5, 1.5))
            continue
        tries = await attempt(url, sink, tries)
        await asyncio.sleep(backoff_s(tries))


RESET = (
    "it ended the connection in the TLS handshake, as a node of another cluster does: "
    "crdtsync cluster join INVITE makes this node a member"
)


class Tries(NamedTuple):
    """How many attempts in a row have failed. ``is_refused``: the last one since one side refuses the other."""

    failures: int = 0
    is_refused: bool = False


def backoff_s(tries: Tries) -> float:
    """How long to wait until the next attempt. A node that is refused is told so, and logged, at each of them."""
    most_s = REFUSED_BACKOFF_S_MAX if tries.is_refused else BACKOFF_S_MAX
    return random.uniform(0, min(most_s, BACKOFF_S_FIRST * 2 ** min(tries.failures, 10)))


async def attempt(url: str, sink: PeerSink, tries: Tries, wanted: str = "") -> Tries:
    """Connect to ``url`` and stay until the connection ends. Returns how the attempts have gone by now.

    :raises AnotherAnswers: the node ``wanted``, if one is given, is not the one that answers.
    """
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    try:
        async with _connected(url, sink) as (socket, node):
            if wanted and node != wanted:
                raise AnotherAnswers(node)
            connection = PeerConnection(socket, url, dialled=True, node=node)
            reason = await connection.run(sink)
        failures = 0 if loop.time() - started_s > STABLE_S else tries.failures + 1
        state = connection.dial_state
    except NOT_CONNECTED as error:
        failures = tries.failures + 1
        reason = reason_of(error) or str(getattr(error, "strerror", "") or str(error) or type(error).__name__)
        refused = isinstance(error, TlsRefused) or bool(reason_of(error))  # by the peer, not for want of one
        state = "refused" if refused else "down"
        if refused and failures == 1:
            sink.log("peer_refused", level="warning", url=url, reason=reason)
    if not reason.startswith(DUPLICATE):
        sink.dial_state(url, state, reason)
    return Tries(failures, state != "down")


@asynccontextmanager
async def _connected(url: str, sink: PeerSink) -> AsyncIterator[tuple[Outgoing, str]]:
    credentials = sink.credentials() if url.startswith("wss:") else None
    if credentials is None and url.startswith("wss:"):
        raise TlsRefused("this node speaks plain text on loopback only (insecure_loopback), and no TLS")
    secured: dict[str, Any] = (
        {} if credentials is None else {"ssl": credentials.dialling, "server_hostname": credentials.name}
    )
    try:
        async with connect(url, **secured, **OPTIONS, open_timeout=OPEN_TIMEOUT_S) as socket:
            assert isinstance(socket, Outgoing)
            node = _proven(socket, sink) if credentials is not None else ""
            yield socket, node
    except ConnectionResetError:
        if credentials is None:
            raise
        raise ConnectionResetError(RESET) from None
    except InvalidMessage as error:
        if credentials is not None and isinstance(error.__cause__, EOFError):
            raise TlsRefused(
                "it ended the connection after the TLS handshake: it does not take this node's certificate, and its "
                "log says why"
            ) from None
        raise


def _proven(socket: Connection, sink: PeerSink) -> str:
    """The node whose key the other side has proven.

    :raises TlsRefused: it is none that may be spoken to.
    """
    secured = socket.transport.get_extra_info("ssl_object")
    found = sink.recognise(secured.getpeercert(True), "")
    if found.refusal:
        raise TlsRefused(found.refusal)
    return found.node
