"""What a signal handler of the caller's raises in the middle of a call comes out as it is, and the client goes on."""

import asyncio
import contextlib
import signal
import socket
import threading

import pytest

from crdtsync import AsyncClient, Client
from crdtsync.client.blocking.stream import Channel
from crdtsync.client.protocol import frames
from crdtsync.client.protocol.frames import MessageReader
from crdtsync.client.protocol.in_flight import InFlight
from crdtsync.client.values import encoding as values
from crdtsync.errors import InvalidRequest

WROTE = {"token": "c1.t", "version": "v1.own", "siblings": 0, "replaced": None, "behind": False}
GOT = {"value": b"\x2a", "kind": "register", "version": "v1.a", "siblings": 0}  # 42
LARGE = "A" * 1_000_000


class Alarm(Exception):
    """What a caller's handler raises."""


KINDS = (Alarm, KeyboardInterrupt, TimeoutError, ValueError, KeyError)
"""Also those that the system and the decoding raise themselves."""


@pytest.fixture
def connect(daemon):
    clients = []

    def make(*scenes):
        daemon.play(*scenes)
        clients.append(Client(daemon.path, agent="me", timeout=60))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def alarm(request):
    """The signal, whose handler raises; it must go to the main thread, which runs the test."""

    def interrupt(*_):
        raise request.param("the caller's own")

    before = signal.signal(signal.SIGALRM, interrupt)
    yield request.param
    signal.signal(signal.SIGALRM, before)


def send_alarm():
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)


def answering(peer):
    """A scene: whatever is asked is answered, until the client goes."""
    peer.greet()
    while True:
        try:
            request_id, operation, _ = peer.receive()
        except EOFError:
            return
        peer.reply(request_id, WROTE if operation == "set" else GOT)


def once(monkeypatch, place, name, error, *, before=True):
    """The next call of it, in the main thread, ends with that error: a handler's, before the work or after it."""
    original = getattr(place, name)

    def torn(*arguments, **options):
        if threading.current_thread() is not threading.main_thread():
            return original(*arguments, **options)
        monkeypatch.setattr(place, name, original)
        if not before:
            original(*arguments, **options)
        raise error

    monkeypatch.setattr(place, name, torn)


@pytest.mark.parametrize("alarm", KINDS, indirect=True)
def test_a_signal_in_the_middle_of_sending(connect, alarm):
    is_over = threading.Event()

    def stalls(peer):
        peer.greet()
        peer.socket.recv(4)  # it has begun, and there is no room for all
        send_alarm()
        is_over.wait(60)
        peer.wait_for_end()

    client = connect(stalls, answering)
    with pytest.raises(alarm, match="the caller's own"):
        client.set("k", LARGE)
    is_over.set()
    assert client.get("k") == 42
    assert client.set("k", 1) == "c1.t"


@pytest.mark.parametrize("alarm", KINDS, indirect=True)
def test_a_signal_in_the_middle_of_receiving(connect, alarm):
    is_over = threading.Event()

    def stalls(peer):
        peer.greet()
        peer.receive()
        with contextlib.suppress(OSError):
            peer.socket.sendall(b"\x00\x10\x00\x00" + b"\xff" * 200_000)
            send_alarm()
            peer.socket.sendall(b"\xff" * 200_000)  # of no meaning to who does not know where he is
        is_over.wait(60)

    client = connect(stalls, answering)
    with pytest.raises(alarm, match="the caller's own"):
        client.get("k")
    is_over.set()
    assert client.get("k") == 42


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "place, name, before",
    [
        (Channel, "receive", False),
        (MessageReader, "feed", True),
        (MessageReader, "feed", False),
        (InFlight, "deliver", True),
        (frames, "unpackb", True),
        (frames, "unpackb", False),
    ],
)
def test_whatever_was_received_and_not_handed_out_is_asked_again(connect, monkeypatch, place, name, before, kind):
    """Also for the thread that waits beside; the interrupted one is the leader, which reads for both."""
    are_asked = threading.Event()

    def both_at_once(peer):
        peer.greet()
        requests = [peer.receive() for _ in range(2)]
        are_asked.wait(60)
        collected = []
        sock, peer.socket = peer.socket, type("Collector", (), {"sendall": lambda _, data: collected.append(data)})()
        for request_id, _, _ in requests:
            peer.reply(request_id, GOT)
        sock.sendall(b"".join(collected))
        peer.socket = sock
        peer.wait_for_end()

    client = connect(both_at_once, answering)
    outcome = []

    def beside():
        while client._connection._leader is None:
            threading.Event().wait(0.001)
        thread_get = client.get
        releaser = threading.Thread(target=release)
        releaser.start()
        outcome.append(thread_get("k", timeout=60))

    def release():
        while not client._connection._followers:
            threading.Event().wait(0.001)
        are_asked.set()

    thread = threading.Thread(target=beside, daemon=True)
    thread.start()
    once(monkeypatch, place, name, kind("the caller's own"), before=before)
    with pytest.raises(kind, match="the caller's own"):
        client.get("k")
    thread.join(60)
    assert outcome == [42]
    assert client.get("k") == 42


def test_a_wait_that_is_interrupted_beside_the_one_who_reads_costs_nothing(connect):
    def one_connection(peer):
        peer.greet()
        first = peer.receive()[0]
        is_led.set()
        peer.receive()
        while not client._connection._followers:
            threading.Event().wait(0.001)
        send_alarm()
        third = peer.receive()[0]
        peer.reply(first, GOT)
        peer.reply(third, GOT)

    def interrupt(*_):
        raise Alarm

    is_led = threading.Event()
    client = connect(one_connection)
    outcome = []
    leader = threading.Thread(target=lambda: outcome.append(client.get("slow")), daemon=True)
    leader.start()
    assert is_led.wait(60)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(Alarm):
            client.get("k")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert client.get("k") == 42
    leader.join(60)
    assert outcome == [42]


def test_an_end_of_a_wait_that_is_interrupted_leaves_no_leader_behind(connect, monkeypatch):
    client = connect(answering)
    once(monkeypatch, client._connection, "_leave", Alarm())
    with pytest.raises(Alarm):
        client.get("k")
    assert client.get("k", timeout=60) == 42


def test_a_reconnect_that_is_interrupted_sends_all_that_others_wait_for(connect, monkeypatch):
    """Where an interrupt came before the frames were sent again, nobody would ever answer them."""

    def greets(peer):
        peer.greet()
        peer.wait_for_end()

    client = connect(lambda peer: peer.greet(), greets, answering)
    once(monkeypatch, InFlight, "replay", Alarm())
    with pytest.raises(Alarm):
        client.get("k")
    assert client.get("k", timeout=60) == 42


def test_a_watch_that_is_interrupted_is_told_again(connect, monkeypatch):
    def watched(*keys):
        def scene(peer):
            if not keys:
                idle(peer)
                return
            peer.greet()
            request_id, _, _ = peer.receive()
            with contextlib.suppress(OSError):  # the interrupt may come before all is sent
                peer.reply(request_id, {})
                for key in keys:
                    peer.events(request_id, {"event": "snapshot", "key": key, "token": None})
            peer.wait_for_end()

        return scene

    def idle(peer):
        peer.greet()
        peer.wait_for_end()

    client = connect(watched(), watched("lost"), watched("told"))
    watch = client.watch()
    once(monkeypatch, MessageReader, "feed", Alarm(), before=False)
    with pytest.raises(Alarm):
        watch.next(10)
    assert watch.next(10).key == "told"


@pytest.mark.parametrize("kind", [BlockingIOError, ConnectionResetError])
def test_an_error_of_the_systems_is_no_interrupt(kind):
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    if kind is ConnectionResetError:
        theirs.close()
        assert not channel.send(b"x", float("inf"))
        assert channel.receive(float("inf")) == b""
    else:
        assert channel.receive(0.0) is None
        theirs.close()
    channel.close()


def test_encoding_that_is_interrupted_blames_no_argument(monkeypatch):
    for place in (values, frames):
        once(monkeypatch, place, "packb", ValueError("the caller's own"))
        with pytest.raises(ValueError, match=r"^the caller's own$"):
            values.encode("x") if place is values else frames.encode_request(1, "get", {})
    once(monkeypatch, values, "unpackb", Alarm())
    with pytest.raises(Alarm):
        values.decode(b"\x2a")
    with pytest.raises(InvalidRequest):
        frames.encode_request(1, "get", {"key": object()})


@pytest.mark.parametrize("place", ["feed", "write"])
def test_with_asyncio_an_interrupt_ends_the_connection_and_not_the_client(daemon, monkeypatch, place):
    """A loop that is run again after it, as a REPL does."""
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        daemon.play(answering, answering)
        client = AsyncClient(daemon.path, agent="me", timeout=60)

        async def get():
            return await client.get("k")

        assert runner.run(get()) == 42
        if place == "feed":
            once(monkeypatch, MessageReader, "feed", KeyboardInterrupt(), before=False)
        else:
            link = client._connection._link
            assert link is not None
            monkeypatch.setattr(link, "transport", Interrupting(link.transport))
        with pytest.raises(KeyboardInterrupt):
            runner.run(get())
        assert runner.run(get()) == 42
        runner.run(client.close())


class Interrupting:
    """A transport in whose ``write`` the interrupt comes when half is sent."""

    def __init__(self, transport):
        self.abort = transport.abort
        self._write = transport.write

    def write(self, data):
        self._write(data[: len(data) // 2])
        raise KeyboardInterrupt
