"""A peer that stands there and gets nowhere is found and cut; a slow one is not."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.protocol import State

from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.core.liveness import PROBE_INTERVAL_S, PROBE_TIMEOUT_S
from crdtsync.wire.messages import PROBES, SNAPSHOTS, Hello, Probe, Probed, decode_message, encode_message
from tests.harness.daemon import Daemon

pytestmark = pytest.mark.integration
IN_TIME_S = PROBE_INTERVAL_S + PROBE_TIMEOUT_S + 10


async def introduced(daemon: Daemon, name: str, **options: Any) -> ClientConnection:
    peer = await connect(daemon.url, compression=None, max_size=None, ping_interval=None, **options)
    hello = Hello(name * 32, name, LOOPBACK_CLUSTER, b"d" * 16, {"default": (0, {})}, 0, features=(PROBES, SNAPSHOTS))
    await peer.send(encode_message(hello))
    return peer


async def answering(peer: ClientConnection, seconds: float) -> int:
    """Answer every probe for so long; how many there were."""
    count = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            async for data in peer:
                message = decode_message(data if isinstance(data, bytes) else b"")
                if isinstance(message, Probe):
                    count += 1
                    await peer.send(encode_message(Probed(message.number, 0)))
    return count


async def never_reading(peer: ClientConnection) -> None:
    """Until it is thrown out. Its socket is full, so that the daemon cannot even say goodbye."""
    peer.transport.pause_reading()
    await asyncio.sleep(IN_TIME_S)  # it does nothing: that is the point
    peer.transport.resume_reading()
    await asyncio.wait_for(peer.wait_closed(), 5)


async def one_byte_a_second(peer: ClientConnection) -> None:
    """It begins an answer that would take a day."""
    peer.transport.write(b"\x82\xfe\xff\xff" + bytes(4))
    async with asyncio.timeout(IN_TIME_S):
        while peer.state is State.OPEN:  # a byte each time
            peer.transport.write(b"x")
            await asyncio.sleep(1)


async def test_who_gets_nowhere_is_cut_and_who_answers_stays() -> None:
    with Daemon("host-a") as daemon:
        client = daemon.client()
        for n in range(16):
            await asyncio.to_thread(client.set, f"large/{n}", bytes(500_000))
        deaf = await introduced(daemon, "d", max_queue=1)
        slow = await introduced(daemon, "s")
        fine = await introduced(daemon, "f")
        answered, *_ = await asyncio.gather(
            answering(fine, IN_TIME_S), never_reading(deaf), one_byte_a_second(slow), return_exceptions=False
        )
        assert answered >= 3
        reasons = [event["reason"] for event in daemon.log_events("peer_down")]
        assert len(reasons) == 2
        assert all("it does not answer" in reason for reason in reasons)
        states = {peer["name"]: peer["state"] for peer in await asyncio.to_thread(lambda: daemon.status()["peers"])}
        assert states == {"d": "down", "s": "down", "f": "connected"}
        await fine.close()
