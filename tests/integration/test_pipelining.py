"""Calls that one task starts one after the other are carried out in that order, however many are under way."""

import asyncio

import pytest

from crdtsync import AsyncClient

pytestmark = pytest.mark.integration


async def test_pipelined_writes_keep_their_order_under_back_pressure(daemon):
    padding = "x" * 2000
    async with AsyncClient(socket=str(daemon.socket), agent="a") as state:
        await asyncio.gather(*(state.append("log", [n, padding]) for n in range(3000)))
        assert [value[0] for value in await state.log("log")] == list(range(3000))
