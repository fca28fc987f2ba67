"""Dialling peers: how long it waits, what it reports, and that nothing stops it for good."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from crdtsyncd.peers import listen as accepting
from crdtsyncd.peers import websocket_peer
from crdtsyncd.peers.listen import addresses, listen
from crdtsyncd.peers.websocket_peer import (
    BACKOFF_S_FIRST,
    BACKOFF_S_MAX,
    REFUSED_BACKOFF_S_MAX,
    TURN_BYTES_MAX,
    AnotherAnswers,
    PeerConnection,
    TlsRefused,
    Tries,
    attempt,
    dial_forever,
)
from crdtsyncd.security.peer_identity import Credentials, PeerIdentity
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Origin

from crdtsync.errors import ConfigError
from crdtsync.wire.peer.changes import Ack


class Sink:
    """Notes what is reported."""

    def __init__(self) -> None:
        self.states: list[tuple[str, str]] = []
        self.astray: list[tuple[str, str, str]] = []
        self.logged: list[dict[str, object]] = []
        self.frames: list[bytes] = []
        self.linked = False
        self.due = 0
        self.shown: Credentials | None = None
        self.count = 0
        self.connection: PeerConnection | None = None
        self.closed = asyncio.Event()
        self.reason = ""
        self.then: Callable[[], object] | None = None
        self.is_open = True

    def peer_opened(self, connection: PeerConnection) -> int:
        self.connection = connection
        self.count += 1
        return 1

    def peer_frame(self, _conn: int, data: bytes) -> None:
        self.frames.append(data)

    def peer_closed(self, _conn: int, reason: str) -> None:
        self.count -= 1
        self.reason = reason
        self.closed.set()

    def peer_count(self) -> int:
        return self.count

    def dial_state(self, _url: str, state: str, error: str) -> None:
        self.states.append((state, error))

    def misled(self, node: str, address: str, found: str) -> None:
        self.astray.append((node, address, found))

    def is_linked(self, _url: str) -> bool:
        return self.linked

    def credentials(self) -> Credentials | None:
        return self.shown

    def recognise(self, _certificate: bytes | None, _asked: str) -> PeerIdentity:
        return PeerIdentity("")

    def turn_due(self) -> int:
        return self.due

    async def breathe(self) -> None:
        await asyncio.sleep(0)

    def may_go_on(self, _connection: PeerConnection, then: Callable[[], object]) -> bool:
        self.then = None if self.is_open else then
        return self.is_open

    def log(self, event: str, level: str = "info", **fields: object) -> None:
        self.logged.append({"event": event, **fields})


@pytest.fixture
async def sink() -> Sink:
    return Sink()


class Clock:
    """Counts the waits of a dialler, and ends it after some."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, waits_max: int) -> None:
        self.bounds: list[tuple[float, float]] = []
        self._waits_max = waits_max
        monkeypatch.setattr(random, "uniform", self._uniform)
        monkeypatch.setattr(asyncio, "sleep", self._sleep)

    def _uniform(self, low: float, high: float) -> float:
        self.bounds.append((low, high))
        return high

    async def _sleep(self, _delay_s: float) -> None:
        if len(self.bounds) >= self._waits_max:
            raise asyncio.CancelledError


def unreachable(error: Exception | None) -> Callable[[str, Sink], Any]:
    @asynccontextmanager
    async def connected(_url: str, _sink: Sink) -> AsyncIterator[None]:
        if error is not None:
            raise error
        yield

    return connected


async def dial(sink: Sink) -> None:
    with pytest.raises(asyncio.CancelledError):
        await dial_forever("ws://127.0.0.1:1", sink)


async def test_the_delay_doubles_up_to_its_maximum_with_full_jitter(
    monkeypatch: pytest.MonkeyPatch, sink: Sink
) -> None:
    clock = Clock(monkeypatch, 12)
    monkeypatch.setattr(websocket_peer, "_connected", unreachable(ConnectionRefusedError(111, "Connection refused")))
    await dial(sink)
    assert [low for low, _ in clock.bounds] == [0] * 12
    highest = [high for _, high in clock.bounds]
    assert highest[:4] == [BACKOFF_S_FIRST * 2**n for n in (1, 2, 3, 4)]
    assert highest == sorted(highest)
    assert highest[-1] == BACKOFF_S_MAX
    assert set(sink.states) == {("down", "Connection refused")}


@pytest.mark.parametrize(
    "error,state",
    [(ConnectionRefusedError(111, "Connection refused"), "down"), (TimeoutError(), "down"),
     (OSError(113, "No route"), "down"),
     (InvalidHandshake("not a websocket"), "down"), (ConnectionClosed(None, None), "down")],
)  # fmt: skip
async def test_whatever_fails_is_reported_in_words_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, sink: Sink, error: Exception, state: str
) -> None:
    Clock(monkeypatch, 3)
    monkeypatch.setattr(websocket_peer, "_connected", unreachable(error))
    await dial(sink)
    assert len(sink.states) == 3
    for found, reason in sink.states:
        assert found == state
        assert reason


async def test_who_is_refused_does_not_fill_the_log_of_the_other(monkeypatch: pytest.MonkeyPatch, sink: Sink) -> None:
    clock = Clock(monkeypatch, 12)
    monkeypatch.setattr(websocket_peer, "_connected", unreachable(TlsRefused("its certificate has expired")))
    await dial(sink)
    assert set(sink.states) == {("refused", "its certificate has expired")}
    assert clock.bounds[-1][1] == REFUSED_BACKOFF_S_MAX


@pytest.mark.parametrize("address", ["[::1", "host:abc", "host:99999", "a..b:1", "\xe9" * 70 + ":1", "user@host:1"])
async def test_what_cannot_be_an_address_is_reported_and_does_not_end_the_dialling(sink: Sink, address: str) -> None:
    context = ssl.create_default_context()
    sink.shown = Credentials(context, context, "x")
    assert await attempt(f"wss://{address}", sink, Tries()) == Tries(1)
    ((state, reason),) = sink.states
    assert state == "down"
    assert reason


async def test_nothing_is_said_to_another_than_the_one_wanted(monkeypatch: pytest.MonkeyPatch, sink: Sink) -> None:
    @asynccontextmanager
    async def connected(_url: str, _sink: Sink) -> AsyncIterator[tuple[None, str]]:
        yield None, "a" * 32

    monkeypatch.setattr(websocket_peer, "_connected", connected)
    with pytest.raises(AnotherAnswers) as another:
        await attempt("wss://127.0.0.1:1", sink, Tries(), "b" * 32)
    assert another.value.node == "a" * 32
    assert sink.count == 0


async def test_a_node_that_is_linked_already_is_not_dialled(monkeypatch: pytest.MonkeyPatch, sink: Sink) -> None:
    Clock(monkeypatch, 3)
    sink.linked = True
    await dial(sink)
    assert sink.states == []


@pytest.mark.parametrize("is_long, failures", [(True, 0), (False, 8)])
async def test_after_a_connection_that_held_the_delay_begins_anew(
    monkeypatch: pytest.MonkeyPatch, sink: Sink, is_long: bool, failures: int
) -> None:
    """And not after one that ended at once: a peer that takes each and drops it would be dialled without a pause."""

    class Held:
        dial_state = "down"

        def __init__(self, *_args: object, **_named: object) -> None:
            pass

        async def run(self, _sink: Sink) -> str:
            return "it ended"

    @asynccontextmanager
    async def connected(_url: str, _sink: Sink) -> AsyncIterator[tuple[None, str]]:
        yield None, ""

    monkeypatch.setattr(websocket_peer, "PeerConnection", Held)
    monkeypatch.setattr(websocket_peer, "_connected", connected)
    monkeypatch.setattr(websocket_peer, "STABLE_S", -1.0 if is_long else 60.0)
    assert (await attempt("ws://127.0.0.1:1", sink, Tries(7))).failures == failures


# -- a real listener ---------------------------------------------------------------------------------------------------


@asynccontextmanager
async def listening(sink: Sink, connections_max: int = 5) -> AsyncIterator[str]:
    server = await listen("127.0.0.1:0", sink, connections_max)
    try:
        yield addresses(server)[0]
    finally:
        server.close(close_connections=True)
        await asyncio.wait_for(server.wait_closed(), 10)


async def test_messages_go_out_in_order_and_then_the_reason(sink: Sink) -> None:
    async with listening(sink) as address, connect(f"ws://{address}", compression=None) as peer:
        await peer.send(b"first")
        async with asyncio.timeout(60):
            while sink.connection is None or not sink.frames:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        for n in range(100):
            sink.connection.send(bytes([n]))
        sink.connection.close("because of a test")
        assert [await peer.recv() for _ in range(100)] == [bytes([n]) for n in range(100)]
        with pytest.raises(ConnectionClosed, match="because of a test"):
            await peer.recv()
        await asyncio.wait_for(sink.closed.wait(), 10)
        assert sink.reason == "because of a test"


@pytest.mark.parametrize("due", [0, 7])
async def test_messages_come_in_order_however_they_are_taken_in(sink: Sink, due: int) -> None:
    """Some at once, the others when it is their turn; one of them in pieces."""
    sink.due = due
    sent = [b"%d" % n for n in range(300)]
    async with listening(sink) as address, connect(f"ws://{address}", compression=None) as peer:
        for number, message in enumerate(sent):
            await peer.send([message[:1], message[1:]] if number % 50 == 40 else message)
        async with asyncio.timeout(60):
            while len(sink.frames) < len(sent):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    assert sink.frames == sent


async def test_short_messages_are_taken_at_once_and_what_is_more_waits_for_its_turn(sink: Sink) -> None:
    long, ack = b"l" * TURN_BYTES_MAX, Ack(1, []).encode()
    async with listening(sink) as address, connect(f"ws://{address}", compression=None) as peer:
        async with asyncio.timeout(60):
            while sink.connection is None:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        socket = sink.connection._socket
        sink.due = 1
        assert socket.take is not None
        assert [socket.take(each) for each in (b"first", b"second", long, b"third")] == [True, True, False, True]
        sink.due = 2  # the turn is over, and another one due
        assert [socket.take(each) for each in (long, b"fourth")] == [True, False]
        sink.due = 3
        assert [socket.take(each) for each in (b"fifth", ack)] == [True, False]
        sink.due = 4
        assert socket.take(ack)
        sink.due = 0  # nothing waits
        assert socket.take(long)
        sink.connection.close("because of a test")
        assert not socket.take(b"too late")
        with pytest.raises(ConnectionClosed):
            await peer.recv()
    assert sink.frames == [b"first", b"second", b"third", long, b"fifth", ack, long]


async def test_one_that_brings_too_much_waits_and_nothing_is_lost_or_doubled(sink: Sink) -> None:
    async with listening(sink) as address, connect(f"ws://{address}", compression=None) as peer:
        sink.is_open = False
        for n in range(20):
            await peer.send(b"%d" % n)
        async with asyncio.timeout(60):
            while sink.then is None or not sink.frames:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        assert sink.frames == [b"0"]
        sink.is_open = True
        sink.then()
        async with asyncio.timeout(60):
            while len(sink.frames) < 20:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert sink.frames == [b"%d" % n for n in range(20)]


UPGRADE = (
    "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


async def test_what_a_kernel_takes_for_who_does_not_read_is_no_flow_and_a_slow_reader_is(sink: Sink) -> None:
    loop = asyncio.get_running_loop()
    async with listening(sink) as address:
        host, port = address.split(":")
        with socket.create_connection((host, int(port)), timeout=10) as peer:
            peer.sendall(UPGRADE.encode())
            peer.setblocking(False)
            assert b"101" in await loop.sock_recv(peer, 4096)
            async with asyncio.timeout(60):
                while sink.connection is None:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
            connection, flows = sink.connection, []
            for _ in range(4):  # a few kB now and then: all of it fits between the kernels, and nobody reads it
                connection.send(b"x" * 4000)
                async with asyncio.timeout(60):
                    while connection._unacknowledged():  # noqa: ASYNC110
                        await asyncio.sleep(0.001)
                flows.append(connection.has_flowed(1024))
            assert flows == [False] * 4
            connection.send(b"x" * 2**25)  # more than fits
            connection.has_flowed(1024)
            async with asyncio.timeout(60):
                while not connection.has_flowed(1024):  # it is read, bit by bit
                    await loop.sock_recv(peer, 2**16)
            async with asyncio.timeout(60):
                while connection.has_flowed(1024):  # noqa: ASYNC110  # nobody reads any more, and no kernel takes more
                    await asyncio.sleep(0.2)
            assert connection._unacknowledged() > 0
            connection.close("because of a test")


async def test_a_long_reason_is_cut_to_what_a_close_frame_holds(sink: Sink) -> None:
    async with listening(sink) as address, connect(f"ws://{address}") as peer:
        await peer.send(b"first")
        async with asyncio.timeout(60):
            while sink.connection is None:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        sink.connection.close("é" * 300)
        with pytest.raises(ConnectionClosed, match=r"é{50}"):
            await peer.recv()


async def test_who_does_not_read_what_is_queued_for_it_is_cut_off(sink: Sink) -> None:
    async with listening(sink) as address, connect(f"ws://{address}", max_queue=1, close_timeout=0.1) as peer:
        await peer.send(b"first")
        async with asyncio.timeout(60):
            while sink.connection is None:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        for _ in range(60):
            sink.connection.send(bytes(1024 * 1024))
            await asyncio.sleep(0)
        await asyncio.wait_for(sink.closed.wait(), 10)
    assert sink.reason == "it does not read: over 16,777,216 bytes wait for it"


async def test_text_is_refused_in_words(sink: Sink) -> None:
    async with listening(sink) as address, connect(f"ws://{address}") as peer:
        await peer.send("hello?")
        with pytest.raises(ConnectionClosed, match="text messages"):
            await peer.recv()
        await asyncio.wait_for(sink.closed.wait(), 10)
    assert [entry["event"] for entry in sink.logged] == ["peer_refused"]


async def test_one_too_many_is_told_and_logged(sink: Sink) -> None:
    async with listening(sink, connections_max=0) as address, connect(f"ws://{address}") as peer:
        with pytest.raises(ConnectionClosed, match="0 peer connections"):
            await peer.recv()
    assert sink.logged[0]["event"] == "peer_refused"


HANDSHAKE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


async def test_what_is_no_websocket_is_logged(sink: Sink) -> None:
    async with listening(sink) as address:
        host, port = address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"what\r\n\r\n")
        await reader.read()
        writer.close()
        await writer.wait_closed()
    (entry,) = sink.logged
    assert entry["event"] == "peer_refused"
    assert "no websocket handshake" in str(entry["reason"])
    assert str(entry["url"]).startswith("127.0.0.1:")


ORIGINS = ("https://evil.example", "http://localhost", "null", "http://127.0.0.1:7420")


@pytest.mark.parametrize("origin", ORIGINS)
async def test_a_handshake_of_a_browser_is_refused_wherever_its_page_is_from(sink: Sink, origin: str) -> None:
    async with listening(sink) as address:
        with pytest.raises(InvalidStatus, match="403"):
            await connect(f"ws://{address}", origin=Origin(origin))
    (entry,) = sink.logged
    assert f"invalid Origin header: {origin}" in str(entry["reason"])


@pytest.mark.parametrize("host", ["evil.example", "evil@localhost", "", "localhost\r\nHost: evil.example"])
async def test_without_tls_the_name_that_was_asked_for_is_loopbacks(sink: Sink, host: str) -> None:
    async with listening(sink) as address:
        reader, writer = await asyncio.open_connection(*address.split(":"))
        writer.write(f"GET / HTTP/1.1\r\nHost: {host}\r\n{HANDSHAKE}\r\n".encode())
        assert (await reader.read()).startswith(b"HTTP/1.1 400")
        writer.close()
        async with connect(f"ws://localhost:{address.split(':')[1]}"):
            pass
    assert "Host header" in str(sink.logged[0]["reason"])


async def test_connections_without_a_handshake_are_bounded_and_the_oldest_goes(
    monkeypatch: pytest.MonkeyPatch, sink: Sink
) -> None:
    monkeypatch.setattr(accepting, "OPENING_CONNECTIONS_MAX", 3)
    async with listening(sink) as address:
        host, port = address.split(":")
        opened = [await asyncio.open_connection(host, int(port)) for _ in range(4)]
        assert await asyncio.wait_for(opened[0][0].read(), 10) == b""
        async with connect(f"ws://{address}"):  # a peer that shakes hands gets in, and the next oldest goes
            assert await asyncio.wait_for(opened[1][0].read(), 10) == b""
        for _, writer in opened:
            writer.close()
    reasons = [str(entry["reason"]) for entry in sink.logged]
    assert sum("3 connections have not finished their handshakes" in reason for reason in reasons) == 2


async def test_a_port_in_use_is_refused_in_words(sink: Sink) -> None:
    async with listening(sink) as address:
        with pytest.raises(ConfigError, match=r"in use.*--listen"):
            (await listen(address, sink, 1)).close()
