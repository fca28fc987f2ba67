"""A client against a daemon that misbehaves as a real one cannot be made to on demand: one request after the other."""

import threading
import time
from hashlib import sha256

import msgpack
import pytest

from crdtsync import AsyncClient, CrdtSyncError, DaemonUnavailable, OutcomeUnknown, Refused, Timeout, UnknownSpace
from crdtsync.errors import InvalidEncoding
from crdtsync.wire.blobs import PART_BYTES

WROTE = {"token": "c1.t", "version": "v1.own", "siblings": 0, "replaced": None, "behind": False}
GOT = {"value": b"\x2a", "kind": "register", "version": "v1.a", "siblings": 0}  # 42


@pytest.fixture
async def connect(daemon):
    """A client of the scripted daemon; its timeout is a safety net, not what is tested."""
    clients = []

    async def make(*scenes, **options):
        daemon.play(*scenes)
        clients.append(AsyncClient(daemon.path, agent="me", **{"timeout": 60, **options}))
        return await clients[-1].__aenter__()

    yield make
    for client in clients:
        await client.close()


async def test_the_hello_says_who_we_are(connect):
    hellos = []

    def scene(peer):
        peer.greet()
        hellos.append(peer.hello)
        peer.reply(peer.receive()[0], GOT)

    client = await connect(scene, space="s1")
    await client.get("k")
    (hello,) = hellos
    assert (hello["agent"], hello["space"], hello["protocol"], len(hello["client"])) == ("me", "s1", 1, 16)


async def test_a_refused_hello_is_raised_at_once(connect):
    def scene(peer):
        peer.refuse(peer.receive()[0], "unknown_space")

    with pytest.raises(UnknownSpace):
        await connect(scene)


async def test_a_daemon_that_hangs_up_or_is_not_there_is_unavailable(connect, tmp_path):
    with pytest.raises(DaemonUnavailable, match="see its log"):
        await connect(lambda peer: None)
    with pytest.raises(DaemonUnavailable, match="start crdtsyncd"):
        await AsyncClient(tmp_path / "nothing.sock").get("k")


async def test_who_waits_for_a_daemon_takes_the_one_that_comes(connect, tmp_path):
    """One that is going down takes a connection and closes it at once."""

    def scene(peer):
        peer.greet()
        peer.reply(peer.receive()[0], GOT)

    client = await connect(lambda peer: None, lambda peer: None, scene, wait=15)
    assert await client.get("k") == 42
    before = time.monotonic()
    with pytest.raises(DaemonUnavailable, match="start crdtsyncd"):
        await AsyncClient(tmp_path / "nothing.sock", wait=0.3).get("k")
    assert time.monotonic() - before > 0.25


async def test_half_a_frame_at_a_time(connect):
    def scene(peer):
        peer.greet()
        request_id, _, _ = peer.receive()
        send = peer.socket.sendall
        collected = []
        peer.socket = type("Collector", (), {"sendall": lambda _, data: collected.append(data)})()
        peer.reply(request_id, GOT)
        for byte in b"".join(collected):
            send(bytes([byte]))

    client = await connect(scene)
    assert await client.get("k") == 42


async def test_a_cut_in_the_middle_of_a_reply_repeats_the_write_under_its_number(connect):
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

    client = await connect(cut, whole)
    assert await client.set("k", 1) == "c1.t"
    assert numbers == [(1, None), (1, True)]
    assert clients[0] == clients[1]


async def test_at_another_database_the_outcome_is_unknown(connect):
    def cut(peer):
        peer.greet(b"1" * 16)
        peer.receive()

    def other(peer):
        peer.greet(b"2" * 16)
        request_id, operation, _ = peer.receive()
        assert operation == "get"
        peer.reply(request_id, GOT)

    client = await connect(cut, other)
    with pytest.raises(OutcomeUnknown, match="another database"):
        await client.set("k", 1)
    assert await client.get("k") == 42


async def test_reads_are_repeated_at_any_database(connect):
    def cut(peer):
        peer.greet(b"1" * 16)
        peer.receive()

    def other(peer):
        peer.greet(b"2" * 16)
        peer.reply(peer.receive()[0], GOT)

    client = await connect(cut, other)
    assert await client.get("k") == 42


async def test_an_error_about_the_connection_fails_what_is_in_flight(connect):
    def scene(peer):
        peer.greet()
        peer.receive()
        peer.send([0, 1, {"code": "invalid_request", "message": "what is that?"}])

    client = await connect(scene)
    with pytest.raises(Refused, match="what is that"):
        await client.get("k")


async def test_after_a_daemon_would_not_have_us_the_next_request_tries_again(connect):
    def cut(peer):
        peer.greet()
        peer.receive()

    def refuses(peer):
        peer.refuse(peer.receive()[0], "unknown_space")

    def back(peer):
        peer.greet()
        peer.reply(peer.receive()[0], GOT)

    client = await connect(cut, refuses, back)
    with pytest.raises(UnknownSpace):
        await client.get("k")
    assert await client.get("k") == 42


async def test_a_daemon_that_says_it_stops_is_waited_for(connect):
    def stops(peer):
        peer.greet()
        peer.receive()
        peer.send([0, 1, {"code": "unavailable", "message": "stopping"}])

    def back(peer):
        peer.greet()
        peer.reply(peer.receive()[0], GOT)

    client = await connect(stops, back)
    assert await client.get("k") == 42


async def test_rubbish_fails_the_request_and_not_the_client(connect):
    def rubbish(peer):
        peer.greet()
        peer.receive()
        peer.socket.sendall(b"\xff" * 100)

    def back(peer):
        peer.greet()
        peer.reply(peer.receive()[0], GOT)

    client = await connect(rubbish, back)
    with pytest.raises(CrdtSyncError):
        await client.get("k")
    assert await client.get("k") == 42


async def test_a_reply_of_an_older_daemon_without_a_field_says_what_to_do(connect):
    def scene(peer):
        peer.greet()
        peer.reply(peer.receive()[0], {"value": b"\x2a"})
        peer.refuse(peer.receive()[0], "version_mismatch", current={"key": "k"})
        peer.reply(peer.receive()[0], None)

    client = await connect(scene)
    with pytest.raises(InvalidEncoding, match="'get' has no 'version': bring client and daemon"):
        await client.get("k")
    with pytest.raises(InvalidEncoding, match="'set' has no 'kind'"):
        await client.set("k", 1, if_absent=True)
    with pytest.raises(KeyError, match="mine"):
        await client.update("k", lambda _: dict[str, int]()["mine"])


async def test_a_timeout_is_kept_and_the_late_reply_ignored(connect):
    def scene(peer):
        peer.greet()
        late, _, _ = peer.receive()
        second, _, _ = peer.receive()
        peer.reply(late, GOT)
        peer.reply(second, {**GOT, "value": b"\x01"})

    client = await connect(scene)
    began = time.monotonic()
    with pytest.raises(Timeout, match="may or may not") as timeout:
        await client.set("k", 1, timeout=0.15)
    assert 0.1 < time.monotonic() - began < 30
    assert timeout.value.token is None
    assert await client.get("k") == 1


async def test_the_daemons_own_timeout_tells_more_and_is_waited_for(connect):
    def scene(peer):
        peer.greet()
        request_id, _, arguments = peer.receive()
        assert arguments["timeout"] == 100
        time.sleep(0.2)
        peer.refuse(request_id, "timeout", token="c1.t", held_by=["a"])

    client = await connect(scene)
    with pytest.raises(Timeout) as timeout:
        await client.set("k", 1, w=2, timeout=0.1)
    assert (timeout.value.token, timeout.value.held_by) == ("c1.t", ["a"])


async def test_without_a_daemon_requests_wait_for_it_until_their_time_is_up(connect):
    client = await connect(lambda peer: peer.greet())
    with pytest.raises(Timeout, match=r"not sent|may or may not"):
        await client.set("k", 1, timeout=0.3)


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


async def test_a_watch_goes_on_where_it_was_cut_off(connect, daemon):
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

    client = await connect(daemon.idle, first, second)
    async with client.watch("", after="c1.0", timeout=60) as watch:
        events = [await anext(watch) for _ in range(3)]
        assert [event.key for event in events] == ["a", "b", "c"]
        assert watch.token == "c1.3"
    assert [arguments["after"] for arguments in asked] == ["c1.0", "c1.2"]


async def test_a_watch_that_waits_too_long_says_so_and_goes_on(connect, daemon):
    released = threading.Event()

    def scene(peer):
        peer.greet()
        request_id, _, _ = peer.receive()
        assert released.wait(60)
        peer.events(request_id, an_event("a", "c1.1"))
        peer.wait_for_end()

    client = await connect(daemon.idle, scene)
    async with client.watch(timeout=0.1) as watch:
        with pytest.raises(Timeout, match="goes on"):
            await anext(watch)
        released.set()
        event = await watch.next(timeout=60)
        assert event.key == "a"


async def test_a_watch_that_is_refused_raises(connect, daemon):
    def scene(peer):
        peer.greet()
        peer.refuse(peer.receive()[0], "not_allowed")

    client = await connect(daemon.idle, scene)
    with pytest.raises(Refused, match="not_allowed"):
        await anext(client.watch(timeout=60))


# -- update and batch -------------------------------------------------------------------------------------------


async def slow_update(client):
    """An update whose function takes longer than its time limit."""
    return await client.update("k", lambda _: time.sleep(0.8), timeout=0.5)


async def test_the_time_that_the_function_of_an_update_takes_does_not_count(connect):
    def scene(peer):
        peer.greet()
        for reply in (None, WROTE):
            peer.reply(peer.receive()[0], reply)

    assert await slow_update(await connect(scene)) == "c1.t"


async def test_an_update_still_ends_in_time_when_the_daemon_does_not_answer(connect):
    def scene(peer):
        peer.greet()
        peer.reply(peer.receive()[0], None)
        peer.receive()
        peer.wait_for_end()

    client = await connect(scene)
    began = time.monotonic()
    with pytest.raises(Timeout):
        await slow_update(client)
    assert time.monotonic() - began < 30
    await client.close()


async def test_a_batch_that_fails_inside_sends_nothing(connect):
    def scene(peer):
        peer.greet()
        request_id, operation, _ = peer.receive()
        assert operation == "status"
        peer.reply(request_id, {})

    client = await connect(scene)

    async def fail():
        async with client.batch() as batch:
            batch.set("k", 1 // 0)

    with pytest.raises(ZeroDivisionError):
        await fail()
    await client.status()


PARTS = [bytes([number]) * PART_BYTES for number in range(3)] + [b"the end"]
BLOB = {
    "size": 3 * PART_BYTES + 7,
    "sha256": sha256(b"".join(PARTS)).hexdigest(),
    "media_type": None,
    "upload": "0" * 24,
}


def tell_of_a_blob(peer):
    """Who comes asks for the entry of one first."""
    peer.greet(features=["blobs"])
    peer.reply(peer.receive()[0], {**GOT, "kind": "blob", "value": msgpack.packb(BLOB), "agent": "ann", "node": "n"})


def part_asked_for(peer):
    """The next request, and the number of the part that it asks for."""
    request_id, operation, arguments = peer.receive()
    assert operation == "blob_read"
    return request_id, arguments["part"]


def give(peer, request_id, number):
    peer.reply(request_id, {"value": PARTS[number]})


async def test_who_reads_a_blob_in_order_has_the_next_part_asked_for(connect):
    def scene(peer):
        tell_of_a_blob(peer)
        give(peer, *part_asked_for(peer))
        second, third = part_asked_for(peer), part_asked_for(peer)  # before the second is answered
        assert (second[1], third[1]) == (1, 2)
        give(peer, *third)
        give(peer, *second)
        fourth = part_asked_for(peer)
        peer.reply(peer.receive()[0], GOT)  # somebody else's request does not wait behind what is read ahead
        give(peer, *fourth)

    client = await connect(scene)
    blob = await client.get_blob("k")
    for number in range(3):
        assert await blob.read(PART_BYTES) == PARTS[number]
    assert await client.get("k") == 42
    assert await blob.read() == PARTS[3]


async def test_what_is_read_ahead_is_asked_for_again_after_a_cut(connect):
    def cut(peer):
        tell_of_a_blob(peer)
        give(peer, *part_asked_for(peer))
        give(peer, *part_asked_for(peer))
        assert part_asked_for(peer)[1] == 2

    def whole(peer):
        peer.greet(features=["blobs"])
        given = {0, 1}
        while given != {0, 1, 2, 3}:
            request_id, number = part_asked_for(peer)
            give(peer, request_id, number)
            given.add(number)

    client = await connect(cut, whole)
    blob = await client.get_blob("k")
    assert await blob.read() == b"".join(PARTS)


async def test_who_reads_here_and_there_is_given_no_more_than_that(connect):
    asked = []

    def scene(peer):
        tell_of_a_blob(peer)
        for _ in range(3):
            request_id, number = part_asked_for(peer)
            asked.append(number)
            give(peer, request_id, number)

    client = await connect(scene)
    blob = await client.get_blob("k")
    for number in (2, 0, 2):
        blob.seek(number * PART_BYTES + 5)
        assert await blob.read(1) == PARTS[number][:1]
    assert asked == [2, 0, 2]
