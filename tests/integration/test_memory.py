"""What others can make a daemon hold in memory, before it knows who they are and afterwards."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from threading import Event, Thread
from time import monotonic

import pytest
from crdtsyncd.security.tls import JOIN_NAME, joining_context
from websockets.exceptions import ConnectionClosed

from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX, PEER_FRAME_BYTES_MAX
from crdtsync.wire.peer.base import Message
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.meshing import Links
from crdtsync.wire.peer.messages import FEATURES, MESSAGES
from crdtsync.wire.requests import REQUESTS
from tests.harness import Daemon, RawError
from tests.harness.users import ForeignAgent, User, connect_as
from tests.harness.workers import in_threads
from tests.harness.worst import WORST, Maker, worst_requests
from tests.integration.test_peer_abuse import Stranger
from tests.integration.witness import rss_bytes, undisturbed

pytestmark = pytest.mark.integration

MIB = 1024 * 1024
GROWN_BYTES_MAX = 64 * MIB
BEGUN_MESSAGE = b"\x82\xff" + struct.pack(">Q", PEER_FRAME_BYTES_MAX) + bytes(4)
"""The head of a message of the largest size, masked with zeros."""
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Gauge:
    """The most memory that a process has had since."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.before_bytes = self.peak_bytes = rss_bytes(pid)
        self._is_over = Event()
        self._thread = Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._is_over.wait(0.02):
            with suppress(FileNotFoundError):
                self.peak_bytes = max(self.peak_bytes, rss_bytes(self._pid))

    def stop(self) -> int:
        """How much it has grown, at its peak."""
        self._is_over.set()
        self._thread.join()
        self.peak_bytes = max(self.peak_bytes, rss_bytes(self._pid))
        return self.peak_bytes - self.before_bytes


@contextmanager
def grows_little(daemon: Daemon, bytes_max: int = GROWN_BYTES_MAX) -> Iterator[None]:
    """The daemon's memory grows by no more than this meanwhile, at its peak."""
    gauge = Gauge(daemon.pid)
    try:
        yield
    finally:
        grown_bytes = gauge.stop()
    assert grown_bytes < bytes_max, f"{grown_bytes / MIB:.0f} MiB more at the peak"


# -- who is no member --------------------------------------------------------------------------------------------------


def begin_message(daemon: Daemon, name: str, _number: int) -> socket.socket:
    """A connection of a stranger, who has sent nearly all of the largest message, or as much as was taken."""
    host, port = daemon.address.split(":")
    plain = socket.create_connection((host, int(port)), timeout=60)
    secured = joining_context().wrap_socket(plain, server_hostname=name, do_handshake_on_connect=False)
    with suppress(OSError):  # however it is thrown out
        secured.sendall(UPGRADE)
        assert secured.recv(4096).startswith(b"HTTP/1.1 101")
        secured.sendall(BEGUN_MESSAGE + bytes(PEER_FRAME_BYTES_MAX - 1))
    return secured


@pytest.mark.parametrize("name", [JOIN_NAME, "host.example"], ids=["asks to join", "shows no certificate"])
def test_who_is_no_member_is_held_to_16_kib(name: str) -> None:
    with ExitStack() as stack:
        daemon = stack.enter_context(Daemon("host-a", insecure_loopback=False))
        daemon.client().cluster_init()
        witness = stack.enter_context(undisturbed(daemon))
        with grows_little(daemon, 24 * MIB):
            for start in range(0, 64, 16):
                for connection in in_threads(partial(begin_message, daemon, name), range(start, start + 16)):
                    stack.enter_context(connection)
            witness.works()
        assert any("16,384 bytes before" in event["reason"] for event in daemon.log_events("peer_refused"))


# -- who begins a request and does not end it --------------------------------------------------------------------------


def half_requests(daemon: Daemon, connections: list[socket.socket]) -> None:
    """Each attaches, and sends of a request of the largest size all but one byte, or as much as is taken."""
    for number, connection in enumerate(connections):
        agent = ForeignAgent(connection, f"half-{number}")
        connection.setblocking(False)
        with suppress(BlockingIOError):
            agent.send_bytes(struct.pack(">I", AGENT_FRAME_BYTES_MAX))
            while True:
                connection.send(bytes(MIB))


@pytest.mark.skipif(os.geteuid() != 0, reason="other users' connections take root")
def test_half_requests_take_bounded_memory_and_keep_no_other_user_waiting(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon(socket_mode="0666")
    for place in (daemon.base, daemon.run):
        place.chmod(0o755)
    with undisturbed(daemon) as witness, ExitStack() as stack:
        connections = [stack.enter_context(one) for one in connect_as(User(12345, 12345), daemon.socket, 150)]
        with grows_little(daemon):
            half_requests(daemon, connections)
            for _ in range(3):
                for connection in connections:
                    with suppress(BlockingIOError, ConnectionError):
                        connection.send(bytes(MIB))
                witness.works()
            with daemon.raw("large") as agent:
                agent.write("set", key="large", value=bytes(MIB - 5))


@pytest.mark.skipif(os.geteuid() != 0, reason="other users' connections take root")
def test_one_user_cannot_take_all_places(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon(socket_mode="0666", agents_max=80)
    for place in (daemon.base, daemon.run):
        place.chmod(0o755)
    with ExitStack() as stack:
        crowds = [(12345, 100), (12346, 100)]
        attached = []
        for uid, count in crowds:
            connections = connect_as(User(uid, uid), daemon.socket, count)
            places = 0
            for connection in connections:
                stack.enter_context(connection)
                with suppress(RawError, OSError, EOFError):
                    ForeignAgent(connection, "one-of-many")
                    places += 1
            attached.append(places)
        assert attached == [48, 12], "three quarters of the 64 that are for all, and three quarters of the rest"
        for _ in range(16):
            stack.enter_context(daemon.raw("operator")).call("get", key="absent")


# -- who does not read -------------------------------------------------------------------------------------------------


def flood(stranger: Stranger, data: bytes, bytes_max: int) -> int:
    """Send the same again and again and read nothing, until that is over; how much was taken."""
    sent_bytes = 0
    stranger.socket.socket.settimeout(5)
    with suppress(OSError):
        while sent_bytes < bytes_max:
            stranger.socket.socket.sendall(data)
            sent_bytes += len(data)
    return sent_bytes


def frame(opcode: int, payload: bytes) -> bytes:
    return bytes((0x80 | opcode, 0x80 | len(payload))) + bytes(4) + payload


def test_who_pings_and_does_not_read_the_pongs_is_cut_off() -> None:
    with Daemon() as daemon, undisturbed(daemon) as witness, Stranger(daemon) as deaf:
        deaf.receive(Links)
        with grows_little(daemon), deaf.socket.recv_flow_control:  # its thread does not read while this is held
            flood(deaf, frame(9, bytes(125)) * 500, 64 * MIB)
            witness.works()
        assert "100 pings and no message" in daemon.wait_log("peer_down")["reason"]


# -- each message and each request at its worst ------------------------------------------------------------------------

CASES = [(kind, makers[at]) for kind, makers in WORST.items() for at in range(len(makers))]
SHORT_S, SHORT_BYTES = 0.5, 24 * MIB


def test_no_message_is_forgotten() -> None:
    assert WORST.keys() == set(MESSAGES.values())


def say_the_worst(daemon: Daemon, kind: type[Message], make: Maker, for_s: float, bytes_max: int) -> None:
    """A peer says nothing else for so long, and comes back when it is thrown out."""
    ends_s, sent_bytes = monotonic() + for_s, 0
    while monotonic() < ends_s and sent_bytes < bytes_max:
        with Stranger(daemon, hello=kind is not Hello, features=FEATURES) as peer, suppress(ConnectionClosed, OSError):
            peer.socket.socket.settimeout(10)
            for message in make():
                peer.send_bytes(message)
                sent_bytes += len(message)
                if monotonic() >= ends_s or sent_bytes >= bytes_max:
                    break


@pytest.fixture(scope="module")
def target() -> Iterator[Daemon]:
    with Daemon() as daemon:
        yield daemon


@pytest.mark.slow  # endurance: each message again and again
@pytest.mark.parametrize("kind,make", CASES, ids=[f"{kind.__name__}-{at}" for at, (kind, _) in enumerate(CASES)])
def test_no_message_takes_much_memory(target: Daemon, kind: type[Message], make: Maker) -> None:
    with undisturbed(target) as witness, grows_little(target):
        say_the_worst(target, kind, make, SHORT_S, SHORT_BYTES)
        witness.works()


@pytest.fixture(scope="module")
def served() -> Iterator[Daemon]:
    with Daemon() as daemon:
        yield daemon


@pytest.mark.slow
@pytest.mark.parametrize("name", REQUESTS)
def test_no_request_takes_much_memory(served: Daemon, name: str) -> None:
    with undisturbed(served) as witness, grows_little(served):
        for payload in worst_requests(name):
            with served.raw("worst") as agent:
                agent.send_frame(payload)
                agent.receive()
        witness.works()
