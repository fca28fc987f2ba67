"""Calls of one client are carried out in the order in which they were started, however many are under way."""

import asyncio

import pytest

from crdtsync import AsyncClient
from crdtsync.client.aio import connection

pytestmark = pytest.mark.integration


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
