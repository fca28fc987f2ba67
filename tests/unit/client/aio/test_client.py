"""The asyncio client's tasks, against a daemon that misbehaves as a real one cannot be made to; on both event loops."""

import asyncio
import threading
import time
from queue import Queue
from unittest.mock import Mock

import pytest

from crdtsync import AsyncClient, DaemonUnavailable, Timeout
from crdtsync.causality import Writer
from crdtsync.wire.tokens import encode_token

WROTE = {"token": "c1.t", "version": "v1.own", "siblings": 0, "replaced": None, "behind": False}
GOT = {"value": b"\x2a", "kind": "register", "version": "v1.a", "siblings": 0}  # 42


@pytest.fixture
async def connect(daemon):
    clients = []

    async def make(*scenes, **options):
        daemon.play(*scenes)
        clients.append(AsyncClient(daemon.path, agent="me", **{"timeout": 60, **options}))
        return await clients[-1].__aenter__()

    yield make
    for client in clients:
        await client.close()


async def test_it_connects_at_its_first_use(daemon):
    def scene(peer):
        peer.greet()
        for request in [peer.receive(), peer.receive()]:
            peer.reply(request[0], GOT)

    daemon.play(scene)
    client = AsyncClient(daemon.path, agent="me", timeout=60)
    assert [*await asyncio.gather(client.get("a"), client.get("b"))] == [42, 42]
    await client.close()


async def test_replies_find_their_tasks_in_any_order(connect):
    def scene(peer):
        peer.greet()
        requests = [peer.receive() for _ in range(50)]
        for request_id, _, arguments in reversed(requests):
            peer.reply(request_id, {**GOT, "value": bytes([int(arguments["key"])])})

    client = await connect(scene)
    assert await asyncio.gather(*(client.get(str(number)) for number in range(50))) == list(range(50))


async def test_what_is_asked_together_is_sent_together_and_what_is_asked_alone_at_once(connect):
    def scene(peer):
        peer.greet()
        for _ in range(2):
            peer.reply(peer.receive()[0], GOT)
        for request_id, _, _ in [peer.receive() for _ in range(10)]:
            peer.reply(request_id, GOT)

    link = (client := await connect(scene))._connection._link
    link.transport = Mock(wraps=link.transport)
    written = link.transport.write
    await client.get("first")
    await client.get("second")
    assert written.call_count == 2
    asked = asyncio.ensure_future(client.get("third"))
    await asyncio.sleep(0)
    assert written.call_count == 3, "it waited for others, of whom there had been none"
    assert await asyncio.gather(asked, *(client.get("more") for _ in range(9))) == [42] * 10
    assert written.call_count == 4


async def test_a_cut_in_the_middle_of_a_reply_repeats_what_is_in_flight(connect):
    before: list[int] = []
    after: list[tuple[int, bool]] = []

    def cut(peer):
        peer.greet()
        before.extend(peer.receive()[2]["n"] for _ in range(5))
        peer.socket.sendall(b"\x00\x00\x00\x40\x93")

    def whole(peer):
        peer.greet()
        for _ in range(5):
            request_id, _, arguments = peer.receive()
            after.append((arguments["n"], arguments["again"]))
            peer.reply(request_id, WROTE)

    client = await connect(cut, whole)
    assert await asyncio.gather(*(client.set(str(number), number) for number in range(5))) == ["c1.t"] * 5
    assert after == [(number, True) for number in before]


async def test_what_a_daemon_lacks_it_says_later_than_its_client_has_time(connect):
    def scene(peer):
        peer.greet()
        request_id, _, arguments = peer.receive()
        assert arguments["timeout"] <= 100
        time.sleep(0.3)
        peer.refuse(request_id, "timeout", missing={"a": 1})

    client = await connect(scene, after=encode_token([("default", 0, {Writer(1): 1})]))
    with pytest.raises(Timeout) as timeout:
        await client.get("k", timeout=0.1)
    assert timeout.value.missing == {"a": 1}


async def test_many_deadlines_are_kept(connect):
    def scene(peer):
        peer.greet()
        peer.wait_for_end()

    client = await connect(scene)
    began = asyncio.get_running_loop().time()
    waits = [client.get("k", timeout=0.3 - number / 100) for number in range(20)]
    outcomes = await asyncio.gather(*waits, return_exceptions=True)
    assert all(isinstance(outcome, Timeout) for outcome in outcomes)
    assert asyncio.get_running_loop().time() - began < 30


async def test_a_cancelled_task_is_forgotten(connect):
    def scene(peer):
        peer.greet()
        late, _, _ = peer.receive()
        second, _, _ = peer.receive()
        peer.reply(late, GOT)
        peer.reply(second, {**GOT, "value": b"\x01"})

    client = await connect(scene)
    task = asyncio.create_task(client.get("k"))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not client._connection._table.pending
    assert await client.get("k") == 1


async def test_a_write_that_no_daemon_was_there_for_was_not_sent(connect):
    client = await connect(lambda peer: peer.greet())
    await asyncio.sleep(0.05)
    with pytest.raises(Timeout, match="not sent"):
        await client.set("k", 1, timeout=0.2)


async def test_closing_ends_what_waits(connect, daemon):
    client = await connect(daemon.idle)
    task = asyncio.create_task(client.get("k"))
    await asyncio.sleep(0.05)
    await client.close()
    with pytest.raises(DaemonUnavailable, match="closed"):
        await task
    with pytest.raises(DaemonUnavailable, match="closed"):
        await client.get("k")


async def test_no_more_writes_are_in_flight_than_the_daemon_remembers(connect, monkeypatch):
    monkeypatch.setattr("crdtsync.client.aio.connection.WRITES_MAX", 2)
    released = threading.Event()

    def scene(peer):
        peer.greet()
        held = [peer.receive()[0] for _ in range(2)]
        assert released.wait(60)
        for request_id in held:
            peer.reply(request_id, WROTE)
        for _ in range(3):
            peer.reply(peer.receive()[0], WROTE)

    client = await connect(scene)
    tasks = [asyncio.create_task(client.set("k", number)) for number in range(5)]
    await asyncio.sleep(0.1)
    assert client._connection._table.writes == 2
    released.set()
    assert await asyncio.gather(*tasks) == ["c1.t"] * 5


async def test_update_takes_a_coroutine_function(connect):
    def scene(peer):
        peer.greet()
        request_id, _, _ = peer.receive()
        peer.reply(request_id, None)
        request_id, _, arguments = peer.receive()
        assert (arguments["value"], arguments["if_absent"]) == (b"\x07", True)
        peer.reply(request_id, WROTE)

    async def compute(value):
        await asyncio.sleep(0)
        return (value or 0) + 7

    client = await connect(scene)
    assert (await client.update("k", compute)).value == 7


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


async def test_a_watch_ends_when_it_or_the_client_is_closed(connect, daemon):
    asked: Queue[object] = Queue()

    def scene(peer):
        peer.greet()
        asked.put(peer.receive())
        peer.wait_for_end()

    client = await connect(daemon.idle, scene, scene)
    for end in (lambda watch: watch.close(), None):
        watch = client.watch()

        async def events(watch=watch):
            return [event async for event in watch]

        task = asyncio.create_task(events())
        await asyncio.to_thread(asked.get, timeout=60)
        if end is None:
            await client.close()
        else:
            end(watch)
        assert await asyncio.wait_for(task, 60) == []


@pytest.mark.parametrize("snapshot", [True, False])
async def test_a_watch_that_is_to_begin_keeps_its_time_at_a_daemon_that_hangs(daemon, snapshot):
    daemon.play(lambda peer: peer.wait_for_end())
    client = AsyncClient(daemon.path, agent="me", timeout=1)
    with pytest.raises(Timeout, match="no daemon was there in time"):
        await client.watch(snapshot=snapshot).next(timeout=0.05)
    await client.close()


async def test_a_slow_consumer_holds_the_daemon_up_rather_than_filling_memory(connect, daemon):
    sent = []

    def scene(peer):
        peer.greet()
        request_id, _, _ = peer.receive()
        peer.socket.settimeout(0.5)
        try:
            for number in range(10_000):
                peer.events(request_id, {**an_event("k" * 1000, f"c1.{number}")})
                sent.append(number)
        except TimeoutError:
            return

    client = await connect(daemon.idle, scene)
    async with client.watch(timeout=60) as watch:
        await anext(watch)
        await asyncio.sleep(1)
    assert len(sent) < 2000


async def test_the_time_that_the_function_of_an_update_takes_does_not_count(connect):
    def scene(peer):
        peer.greet()
        for reply in (None, WROTE):
            peer.reply(peer.receive()[0], reply)

    async def slow(_):
        await asyncio.sleep(0.8)

    client = await connect(scene)
    assert await client.update("k", slow, timeout=0.5) == "c1.t"
