"""The blocking client against a daemon that misbehaves as a real one cannot be made to on demand."""

import contextlib
import os
import threading
import time

import pytest

from crdtsync import (
    Client,
    CrdtSyncError,
    DaemonUnavailable,
    OutcomeUnknown,
    Refused,
    Timeout,
    UnknownSpace,
)
from crdtsync.causality import Writer
from crdtsync.client.protocol.in_flight import Pending
from crdtsync.errors import InvalidEncoding
from crdtsync.wire.tokens import encode_token

WROTE = {"token": "c1.t", "version": "v1.own", "siblings": 0, "replaced": None, "behind": False}
GOT = {"value": b"\x2a", "kind": "register", "version": "v1.a", "siblings": 0}  # 42


@pytest.fixture
def connect(daemon):
    """A client of the scripted daemon; its timeout is a safety net, not what is tested."""
    clients = []

    def make(*scenes, **options):
        daemon.play(*scenes)
        clients.append(Client(daemon.path, agent="me", **{"timeout": 15, **options}))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


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


def test_the_hello_says_who_we_are(connect):
    hellos = []

    def scene(peer):
        peer.greet()
        hellos.append(peer.hello)
        peer.reply(peer.receive()[0], GOT)

    connect(scene, space="s1").get("k")
    (hello,) = hellos
    assert (hello["agent"], hello["space"], hello["protocol"], len(hello["client"])) == ("me", "s1", 1, 16)


def test_a_refused_hello_is_raised_at_once(connect):
    def scene(peer):
        peer.refuse(peer.receive()[0], "unknown_space")

    with pytest.raises(UnknownSpace):
        connect(scene)


def test_a_daemon_that_hangs_up_or_is_not_there_is_unavailable(connect, tmp_path):
    with pytest.raises(DaemonUnavailable, match="see its log"):
        connect(lambda peer: None)
    with pytest.raises(DaemonUnavailable, match="start crdtsyncd"):
        Client(tmp_path / "nothing.sock")


def test_half_a_frame_at_a_time(connect):
    def scene(peer):
        peer.greet()
        request_id, _, _ = peer.receive()
        send = peer.socket.sendall
        collected = []
        peer.socket = type("Collector", (), {"sendall": lambda _, data: collected.append(data)})()
        peer.reply(request_id, GOT)
        for byte in b"".join(collected):
            send(bytes([byte]))

    assert connect(scene).get("k") == 42


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
        thread.join(10)
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
        thread.join(10)
    assert [outcome for _, outcome in running] == [[42]] * 3


def test_when_the_leader_times_out_another_reads(connect):
    is_asked, released = threading.Event(), threading.Event()

    def scene(peer):
        peer.greet()
        peer.receive()
        is_asked.set()
        patient, _, _ = peer.receive()
        assert released.wait(10)
        peer.reply(patient, GOT)

    client = connect(scene)
    impatient = in_thread(lambda: client.get("slow", timeout=0.3))
    assert is_asked.wait(10)
    patient = in_thread(lambda: client.get("k"))
    impatient[0].join(10)
    released.set()
    patient[0].join(10)
    assert isinstance(impatient[1][0], Timeout)
    assert patient[1] == [42]


def test_a_cut_in_the_middle_of_a_reply_repeats_the_write_under_its_number(connect):
    numbers, clients = [], []

    def cut(peer):
        peer.greet()
        clients.append(peer.hello["client"])
        request_id, _, arguments = peer.receive()
        numbers.append((arguments["n"], arguments.get("again")))
        peer.socket.sendall(b"\x00\x00\x00\x40\x93")
        assert request_id == 2

    def whole(peer):
        peer.greet()
        clients.append(peer.hello["client"])
        request_id, _, arguments = peer.receive()
        numbers.append((arguments["n"], arguments.get("again")))
        peer.reply(request_id, WROTE)

    assert connect(cut, whole).set("k", 1) == "c1.t"
    assert numbers == [(1, None), (1, True)]
    assert clients[0] == clients[1]


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
        thread.join(10)
    assert [outcome for _, outcome in running] == [["c1.t"]] * count
    assert before == after == sorted(after)


def test_at_another_database_the_outcome_is_unknown(connect):
    def cut(peer):
        peer.greet(b"1" * 16)
        peer.receive()

    def other(peer):
        peer.greet(b"2" * 16)
        request_id, operation, _ = peer.receive()
        assert operation == "get"
        peer.reply(request_id, GOT)

    client = connect(cut, other)
    with pytest.raises(OutcomeUnknown, match="another database"):
        client.set("k", 1)
    assert client.get("k") == 42


def test_reads_are_repeated_at_any_database(connect):
    def cut(peer):
        peer.greet(b"1" * 16)
        peer.receive()

    def other(peer):
        peer.greet(b"2" * 16)
        peer.reply(peer.receive()[0], GOT)

    assert connect(cut, other).get("k") == 42


def test_an_error_about_the_connection_fails_what_is_in_flight(connect):
    def scene(peer):
        peer.greet()
        peer.receive()
        peer.send([0, 1, {"code": "invalid_request", "message": "what is that?"}])

    with pytest.raises(Refused, match="what is that"):
        connect(scene).get("k")


def test_after_a_daemon_would_not_have_us_the_next_request_tries_again(connect):
    def cut(peer):
        peer.greet()
        peer.receive()

    def refuses(peer):
        peer.refuse(peer.receive()[0], "unknown_space")

    def back(peer):
        peer.greet()
        peer.reply(peer.receive()[0], GOT)

    client = connect(cut, refuses, back)
    with pytest.raises(UnknownSpace):
        client.get("k")
    assert client.get("k") == 42


def test_a_daemon_that_says_it_stops_is_waited_for(connect):
    def stops(peer):
        peer.greet()
        peer.receive()
        peer.send([0, 1, {"code": "unavailable", "message": "stopping"}])

    def back(peer):
        peer.greet()
        peer.reply(peer.receive()[0], GOT)

    assert connect(stops, back).get("k") == 42


def test_rubbish_fails_the_request_and_not_the_client(connect):
    def rubbish(peer):
        peer.greet()
        peer.receive()
        peer.socket.sendall(b"\xff" * 100)

    def back(peer):
        peer.greet()
        peer.reply(peer.receive()[0], GOT)

    client = connect(rubbish, back)
    with pytest.raises(CrdtSyncError):
        client.get("k")
    assert client.get("k") == 42


def test_a_reply_of_an_older_daemon_without_a_field_says_what_to_do(connect):
    def scene(peer):
        peer.greet()
        peer.reply(peer.receive()[0], {"value": b"\x2a"})
        peer.refuse(peer.receive()[0], "version_mismatch", current={"key": "k"})
        peer.reply(peer.receive()[0], None)

    client = connect(scene)
    with pytest.raises(InvalidEncoding, match="'get' has no 'version': bring client and daemon"):
        client.get("k")
    with pytest.raises(InvalidEncoding, match="'set' has no 'kind'"):
        client.set("k", 1, if_absent=True)
    with pytest.raises(KeyError, match="mine"):
        client.update("k", lambda _: dict[str, int]()["mine"])


def test_a_timeout_is_kept_and_the_late_reply_ignored(connect):
    def scene(peer):
        peer.greet()
        late, _, _ = peer.receive()
        second, _, _ = peer.receive()
        peer.reply(late, GOT)
        peer.reply(second, {**GOT, "value": b"\x01"})

    client = connect(scene)
    began = time.monotonic()
    with pytest.raises(Timeout, match="may or may not") as timeout:
        client.set("k", 1, timeout=0.15)
    assert 0.1 < time.monotonic() - began < 2
    assert timeout.value.token is None
    assert client.get("k") == 1


def test_the_daemons_own_timeout_tells_more_and_is_waited_for(connect):
    def scene(peer):
        peer.greet()
        request_id, _, arguments = peer.receive()
        assert arguments["timeout"] == 100
        time.sleep(0.2)
        peer.refuse(request_id, "timeout", token="c1.t", held_by=["a"])

    with pytest.raises(Timeout) as timeout:
        connect(scene).set("k", 1, w=2, timeout=0.1)
    assert (timeout.value.token, timeout.value.held_by) == ("c1.t", ["a"])


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
    assert is_asked.wait(10)
    with pytest.raises(Timeout) as timeout:
        client.get("k", timeout=0.3)
    leader.join(10)
    assert [timeout.value.missing, led[0].missing] == [{"a": 1}] * 2


def test_without_a_daemon_requests_wait_for_it_until_their_time_is_up(connect):
    client = connect(lambda peer: peer.greet())
    with pytest.raises(Timeout, match=r"not sent|may or may not"):
        client.set("k", 1, timeout=0.3)


def test_closing_ends_what_waits(connect, daemon):
    client = connect(daemon.idle)
    thread, outcome = in_thread(lambda: client.get("k"))
    time.sleep(0.05)
    client.close()
    thread.join(10)
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

    def receive_then_close(deadline):
        data = receive(deadline)
        in_thread(client.close)[0].join(10)
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

    def interrupt(deadline):
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
        forked.wait(10)
        peer.reply(peer.receive()[0], {**GOT, "value": b"\x01"})

    forked = threading.Event()
    client = connect(parent)
    assert client.get("k") == 42
    channel = client._connection._channel
    child = os.fork()
    if child == 0:
        # The parent's scene is not over, so nobody accepts: what matters is that nothing of the parent's is touched.
        try:
            client.get("k", timeout=0.3)
        except CrdtSyncError:
            os._exit(0 if channel._socket.fileno() == -1 and client._connection._client != clients[0] else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    forked.set()
    assert client.get("k") == 1


def test_no_more_writes_are_in_flight_than_the_daemon_remembers(connect, monkeypatch):
    monkeypatch.setattr("crdtsync.client.blocking.connection.WRITES_MAX", 2)
    arrived, released = threading.Semaphore(0), threading.Event()

    def scene(peer):
        peer.greet()
        held = [peer.receive()[0] for _ in range(2)]
        arrived.release()
        assert released.wait(10)
        for request_id in held:
            peer.reply(request_id, WROTE)
        peer.reply(peer.receive()[0], WROTE)

    client = connect(scene)
    running = [in_thread(lambda: client.set("k", 1)) for _ in range(3)]
    assert arrived.acquire(timeout=10)
    assert client._connection._table.writes == 2
    released.set()
    for thread, _ in running:
        thread.join(10)
    assert [outcome for _, outcome in running] == [["c1.t"]] * 3


# -- watch ------------------------------------------------------------------------------------------------------


def an_event(key, token):
    return {
        "event": "set",
        "key": key,
        "kind": "register",
        "value": b"\x01",
        "op": "set",
        "version": "v1",
        "token": token,
    }


def test_a_watch_goes_on_where_it_was_cut_off(connect, daemon):
    asked = []

    def first(peer):
        peer.greet()
        request_id, _, arguments = peer.receive()
        asked.append(arguments)
        peer.reply(request_id, {"token": "c1.0"})
        peer.events(request_id, an_event("a", "c1.1"), an_event("b", "c1.2"))
        peer.socket.sendall(b"\x00\x00")

    def second(peer):
        peer.greet()
        request_id, _, arguments = peer.receive()
        asked.append(arguments)
        peer.reply(request_id, {"token": "c1.2"})
        peer.events(request_id, an_event("c", "c1.3"))
        peer.wait_for_end()

    client = connect(daemon.idle, first, second)
    with client.watch("", after="c1.0", timeout=10) as watch:
        assert [next(watch).key for _ in range(3)] == ["a", "b", "c"]
        assert watch.token == "c1.3"
    assert [arguments["after"] for arguments in asked] == ["c1.0", "c1.2"]


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
    thread.join(10)
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


def test_a_watch_that_waits_too_long_says_so_and_goes_on(connect, daemon):
    released = threading.Event()

    def scene(peer):
        peer.greet()
        request_id, _, _ = peer.receive()
        assert released.wait(10)
        peer.events(request_id, an_event("a", "c1.1"))
        peer.wait_for_end()

    client = connect(daemon.idle, scene)
    with client.watch(timeout=0.1) as watch:
        with pytest.raises(Timeout, match="goes on"):
            next(watch)
        released.set()
        assert watch.next(timeout=10).key == "a"


def test_a_watch_that_is_refused_raises(connect, daemon):
    def scene(peer):
        peer.greet()
        peer.refuse(peer.receive()[0], "not_allowed")

    client = connect(daemon.idle, scene)
    with pytest.raises(Refused, match="not_allowed"):
        next(client.watch(timeout=10))


# -- update ---------------------------------------------------------------------------------------------------------


def slow_update(client):
    """An update whose function takes longer than its time limit."""
    return client.update("k", lambda _: time.sleep(0.4), timeout=0.2)


def test_the_time_that_the_function_of_an_update_takes_does_not_count(connect):
    def scene(peer):
        peer.greet()
        for reply in (None, WROTE):
            peer.reply(peer.receive()[0], reply)

    assert slow_update(connect(scene)) == "c1.t"


def test_an_update_still_ends_in_time_when_the_daemon_does_not_answer(connect):
    def scene(peer):
        peer.greet()
        peer.reply(peer.receive()[0], None)
        peer.receive()
        peer.wait_for_end()

    client = connect(scene)
    began = time.monotonic()
    with pytest.raises(Timeout):
        slow_update(client)
    assert time.monotonic() - began < 10
    client.close()


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
