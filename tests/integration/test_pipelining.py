"""Calls of one client are carried out in the order in which they were started, however many are under way."""

import asyncio

import pytest

from crdtsync import AsyncClient
from crdtsync.client import Entry
from crdtsync.client.aio import connection

pytestmark = pytest.mark.integration


async def entry_of(state: AsyncClient, key: str) -> Entry:
    entry = await state.entry(key)
    assert entry is not None
    return entry


async def test_a_new_call_does_not_overtake_one_that_waits_for_room(daemon, monkeypatch):
    monkeypatch.setattr(connection, "WRITES_MAX", 1)
    async with AsyncClient(socket=str(daemon.socket), agent="a") as state:

        async def first_and_third():
            await state.append("log", "first")
            await state.append("log", "third")

        await asyncio.gather(first_and_third(), state.append("log", "second"))
        assert await state.log("log") == ["first", "second", "third"]


async def test_thousands_of_writes_at_once_keep_their_order(daemon):
    async with AsyncClient(socket=str(daemon.socket), agent="a") as state:
        await asyncio.gather(*(state.append("log", [n, "x" * 600]) for n in range(3000)))
        assert [value[0] for value in await state.log("log")] == list(range(3000))


async def test_writes_of_one_session_at_once_follow_each_other(daemon):
    """None of them can know yet what the ones before it have left: still they are no conflict."""
    async with AsyncClient(socket=str(daemon.socket), agent="a") as state:
        for key, first in (("there", "first"), ("absent", None)):
            if first is not None:
                await state.set(key, first)
            assert await state.get(key) == first
            await asyncio.gather(*(state.set(key, n) for n in range(70)))
            entry = await entry_of(state, key)
            assert (entry.value, entry.siblings) == (69, [])


async def test_batches_and_fields_at_once_follow_each_other(daemon):
    async with AsyncClient(socket=str(daemon.socket), agent="a") as state:
        await state.merge("map", {"x": 0})
        await state.set("k", 0)
        assert await state.get("map") == {"x": 0}
        assert await state.get("k") == 0

        async def both(n):
            async with state.batch() as batch:
                batch.merge("map", {"x": n})
                batch.set("k", n)

        await asyncio.gather(*(both(n) for n in range(1, 20)), state.merge("map", {"x": 20}), state.set("k", 20))
        for key, value in (("map", {"x": 20}), ("k", 20)):
            entry = await entry_of(state, key)
            assert (entry.value, entry.siblings) == (value, [])


async def test_what_others_write_meanwhile_stays_a_sibling(daemon):
    async with (
        AsyncClient(socket=str(daemon.socket), agent="a") as state,
        AsyncClient(socket=str(daemon.socket), agent="b") as other,
    ):
        await state.set("k", 0)
        assert await state.get("k") == 0
        await other.set("k", "unseen", seen="?")
        await asyncio.gather(*(state.set("k", n) for n in range(1, 10)))
        entry = await entry_of(state, "k")
        assert {entry.value, *(one.value for one in entry.siblings)} == {9, "unseen"}


async def test_a_write_whose_caller_gave_up_is_followed_too(daemon):
    async with AsyncClient(socket=str(daemon.socket), agent="a") as state:
        await state.set("k", 0)
        assert await state.get("k") == 0
        for n in range(1, 30):
            task = asyncio.create_task(state.set("k", n))
            await asyncio.sleep(0)  # it is sent, and nobody waits for its reply
            await asyncio.sleep(0)
            task.cancel()
        await state.set("k", "last")
        entry = await entry_of(state, "k")
        assert (entry.value, entry.siblings) == ("last", [])
