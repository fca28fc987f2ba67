"""The blocking client's threads, against a daemon that misbehaves as a real one cannot be made to on demand."""

import contextlib
import gc
import threading
import time
from queue import Queue

import pytest

from crdtsync import (
    Client,
    CrdtSyncError,
    DaemonUnavailable,
    Timeout,
)
from crdtsync.causality import Writer
from crdtsync.client.protocol.in_flight import Pending
from crdtsync.wire.tokens import encode_token
from tests.harness.workers import in_a_child

WROTE = {"token": "c1.t", "version": "v1.own", "siblings": 0, "replaced": None, "behind": False}
GOT = {"value": b"\x2a", "kind": "register", "version": "v1.a", "siblings": 0}  # 42
SIBLING = {"kind": "register", "value": b"\x2a", "dot": "n.1.0", "agent": "a", "node": "n"}
CONFLICT = {"event": "conflict", "key": "k", "version": "v1.x", **SIBLING, "siblings": [SIBLING]}


@pytest.fixture
def connect(daemon):
    """A client of the scripted daemon; its timeout is a safety net, not what is tested."""
    clients = []

    def make(*scenes, **options):
        daemon.play(*scenes)
        clients.append(Client(daemon.path, agent="me", **{"timeout": 60, **options}))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def asking(peer):
    """Asks a resolver about one conflict."""
    peer.greet()
    request_id, _, _ = peer.receive()
    peer.reply(request_id, {"token": "c1.0"})
    peer.events(request_id, CONFLICT)
    peer.wait_for_end()


def in_thread(function):
    """Run it in a thread; what it returned or raised is in the list, once the thread has been joined."""
    outcome = []

    def run():
        try:
            outcome.append(function())
        except BaseException as error:  # noqa: BLE001  # looked at by the test
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, outcome


def test_threads_get_their_own_replies_in_whatever_order(connect):
    count = 8

    def scene(peer):
        peer.greet()
        requests = [peer.receive() for _ in range(count)]
        for request_id, _, arguments in reversed(requests):
            peer.reply(request_id, {**GOT, "value": bytes([int(arguments["key"])])})

    client = connect(scene)
    running = [in_thread(lambda key=str(number): client.get(key)) for number in range(count)]
    for thread, _ in running:
        thread.join(60)
    assert [outcome for _, outcome in running] == [[number] for number in range(count)]


def test_when_the_leader_leaves_another_reads(connect):
    def scene(peer):
        peer.greet()
        first, second, third = (peer.receive()[0] for _ in range(3))
        peer.reply(first, GOT)
        time.sleep(0.05)
        peer.reply(third, GOT)
        time.sleep(0.05)
        peer.reply(second, GOT)

    client = connect(scene)
    running = [in_thread(lambda: client.get("k")) for _ in range(3)]
    for thread, _ in running:
        thread.join(60)
    assert [outcome for _, outcome in running] == [[42]] * 3


def test_when_the_leader_times_out_another_reads(connect):
    is_asked, released = threading.Event(), threading.Event()

    def scene(peer):
        peer.greet()
        peer.receive()
        is_asked.set()
        patient, _, _ = peer.receive()
        assert released.wait(60)
        peer.reply(patient, GOT)

    client = connect(scene)
    impatient = in_thread(lambda: client.get("slow", timeout=0.3))
    assert is_asked.wait(60)
    patient = in_thread(lambda: client.get("k"))
    impatient[0].join(60)
    released.set()
    patient[0].join(60)
    assert isinstance(impatient[1][0], Timeout)
    assert patient[1] == [42]


def test_all_that_is_in_flight_is_sent_again_in_its_old_order(connect):
    count = 6
    before: list[int] = []
    after: list[int] = []

    def cut(peer):
        peer.greet()
        before.extend(peer.receive()[2]["n"] for _ in range(count))

    def whole(peer):
        peer.greet()
        for _ in range(count):
            request_id, _, arguments = peer.receive()
            after.append(arguments["n"])
            peer.reply(request_id, WROTE)

    client = connect(cut, whole)
    running = [in_thread(lambda: client.set("k", 1)) for _ in range(count)]
    for thread, _ in running:
        thread.join(60)
    assert [outcome for _, outcome in running] == [["c1.t"]] * count
    assert before == after == sorted(after)


def test_what_a_daemon_lacks_it_says_later_than_its_client_has_time(connect):
    """Also to who had asked another one, before the connection was lost, and waits for another thread to read."""
    is_asked = threading.Event()

    def one_node(peer):
        peer.greet()
        request_id, _, _ = peer.receive()
        peer.send([request_id, 3, ["default", encode_token([("default", 0, {Writer(1): 1})])]])
        peer.reply(request_id, GOT)
        peer.receive()
        is_asked.set()
        peer.receive()

    def another(peer):
        peer.greet()
        asked = [peer.receive() for _ in range(2)]
        assert asked[1][2]["timeout"] <= 300
        time.sleep(0.5)
        for request_id, _, arguments in asked:
            assert "need" in arguments
            peer.refuse(request_id, "timeout", missing={"a": 1})

    client = connect(one_node, another)
    assert client.get("k") == 42
    leader, led = in_thread(lambda: client.get("other"))
    assert is_asked.wait(60)
    with pytest.raises(Timeout) as timeout:
        client.get("k", timeout=0.3)
    leader.join(60)
    assert [timeout.value.missing, led[0].missing] == [{"a": 1}] * 2


def test_closing_ends_what_waits(connect, daemon):
    client = connect(daemon.idle)
    thread, outcome = in_thread(lambda: client.get("k"))
    time.sleep(0.05)
    client.close()
    thread.join(60)
    assert isinstance(outcome[0], DaemonUnavailable)
    with pytest.raises(DaemonUnavailable, match="closed"):
        client.get("k")
    client.close()


def test_closing_when_a_reply_has_just_come_leaves_no_socket_open(connect, monkeypatch):
    def scene(peer):
        peer.greet()
        peer.reply(peer.receive()[0], GOT)
        peer.wait_for_end()

    client = connect(scene)
    channel = client._connection._channel
    receive = channel.receive

    def receive_then_close(*args):
        data = receive(*args)
        in_thread(client.close)[0].join(60)
        return data

    monkeypatch.setattr(channel, "receive", receive_then_close)
    assert client.get("k") == 42
    assert channel._socket.fileno() == -1


def test_closing_during_a_reconnect_ends_what_waits_and_leaves_no_socket_open(connect):
    def cut(peer):
        peer.greet()
        peer.receive()

    def back(peer):
        peer.receive()
        client.close()
        peer.reply(1, {"database": b"d" * 16})
        peer.wait_for_end()

    client = connect(cut, back)
    with pytest.raises(DaemonUnavailable, match="closed"):
        client.get("k")
    assert client._connection._channel is None


def test_an_interrupt_leaves_a_client_that_works(connect, monkeypatch):
    def interrupted(peer):
        peer.greet()
        number = peer.receive()[0]
        with contextlib.suppress(OSError):  # the client may have hung up by now
            peer.reply(number, GOT)
        peer.wait_for_end()

    def afresh(peer):
        peer.greet()
        peer.reply(peer.receive()[0], {**GOT, "value": b"\x01"})

    client = connect(interrupted, afresh)
    channel = client._connection._channel

    def interrupt(*_):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(channel, "receive", interrupt)
    with pytest.raises(KeyboardInterrupt):
        client.get("k")
    assert client.get("k") == 1


def test_after_a_fork_the_child_has_a_connection_of_its_own(connect):
    clients = []

    def parent(peer):
        peer.greet()
        clients.append(peer.hello["client"])
        peer.reply(peer.receive()[0], GOT)
        forked.wait(60)
        peer.reply(peer.receive()[0], {**GOT, "value": b"\x01"})

    forked = threading.Event()
    client = connect(parent)
    assert client.get("k") == 42
    channel = client._connection._channel

    def use():
        # The parent's scene is not over, so nobody accepts: what matters is that nothing of the parent's is touched.
        with pytest.raises(CrdtSyncError):
            client.get("k", timeout=0.3)
        assert channel._socket.fileno() == -1
        assert client._connection._client != clients[0]

    in_a_child(use)
    forked.set()
    assert client.get("k") == 1


def test_after_a_fork_the_child_waits_for_no_lock_of_a_thread_that_it_has_not(connect, daemon):
    client = connect(daemon.idle)
    texts, memory = client._texts, client._operations.memory
    lock = texts.lock("notes")
    assert lock.acquire(1)

    def take():
        assert not texts._making.locked()
        assert not memory._lock.locked()
        assert texts.lock("notes").acquire(0)

    with texts._making, memory._lock:
        in_a_child(take)
    lock.release()


def test_no_more_writes_are_in_flight_than_the_daemon_remembers(connect, monkeypatch):
    monkeypatch.setattr("crdtsync.client.blocking.connection.WRITES_MAX", 2)
    arrived, released = threading.Semaphore(0), threading.Event()

    def scene(peer):
        peer.greet()
        held = [peer.receive()[0] for _ in range(2)]
        arrived.release()
        assert released.wait(60)
        for request_id in held:
            peer.reply(request_id, WROTE)
        peer.reply(peer.receive()[0], WROTE)

    client = connect(scene)
    running = [in_thread(lambda: client.set("k", 1)) for _ in range(3)]
    assert arrived.acquire(timeout=60)
    assert client._connection._table.writes == 2
    released.set()
    for thread, _ in running:
        thread.join(60)
    assert [outcome for _, outcome in running] == [["c1.t"]] * 3


def test_a_watch_can_be_closed_from_another_thread(connect, daemon):
    def scene(peer):
        peer.greet()
        peer.reply(peer.receive()[0], {"token": "c1.0"})
        peer.wait_for_end()

    client = connect(daemon.idle, scene)
    watch = client.watch()
    thread, outcome = in_thread(lambda: list(watch))
    time.sleep(0.05)
    watch.close()
    thread.join(60)
    assert outcome == [[]]
    assert watch.next() is None


def test_closing_the_client_ends_its_watches(connect, daemon):
    def scene(peer):
        peer.greet()
        peer.wait_for_end()

    client = connect(daemon.idle, scene)
    watch = client.watch()
    client.close()
    assert list(watch) == []


def test_who_has_the_connection_alone_reads_it_too_and_nobody_else_does(connect):
    """While one sends as the reader, nobody reads: so there must be no reply on its way that another waits for."""
    connection = connect(lambda peer: peer.greet())._connection
    of_another = Pending("get", {"key": "k"})
    connection._table.admit(of_another, is_write=False)
    assert not connection._send_alone(Pending("get", {"key": "k"}), is_write=False)
    connection._table.abandon(of_another)
    alone = Pending("get", {"key": "k"})
    assert connection._send_alone(alone, is_write=False)
    connection._table.abandon(alone)
    assert not connection._send_alone(Pending("get", {"key": "k"}), is_write=False)
    connection._leave(alone)


def test_a_resolver_that_a_loop_was_left_with_is_gone_at_once(connect, daemon):
    client = connect(daemon.idle, asking)
    gc.disable()
    try:
        for _ in client.resolver("k"):
            break
        assert not list(client._resolvers())
    finally:
        gc.enable()


def test_one_limit_holds_for_a_resolver_until_it_stands(connect, daemon, monkeypatch):
    deadlines = []

    def receive(_stream, deadline):
        deadlines.append(deadline)
        return False

    client = connect(daemon.idle)
    monkeypatch.setattr("crdtsync.client.blocking.stream.Stream._dial", lambda _, *given: deadlines.extend(given))
    monkeypatch.setattr("crdtsync.client.blocking.stream.Stream.receive", receive)
    with pytest.raises(Timeout, match="did not take the resolver in time"):
        client.resolver("k", sorted)
    attached, _, confirmed = deadlines
    assert confirmed <= attached


def test_what_ends_the_thread_of_a_resolver_is_told_and_ends_the_resolver(connect, daemon, monkeypatch):
    told: Queue[object] = Queue()
    monkeypatch.setattr(threading, "excepthook", lambda hooked: told.put(hooked.exc_value))
    stop = GeneratorExit("no Exception")

    def settle(_):
        raise stop

    client = connect(daemon.idle, asking)
    resolver = client.resolver("k", settle)
    assert told.get(timeout=60) is stop
    assert resolver._stream._stream.is_closed
