"""A peer that stands there and gets nowhere is found and cut; a slow one is not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.protocol import State

from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.messages import decode_message
from crdtsync.wire.peer.probes import PROBES, Probe, Probed
from crdtsync.wire.peer.transfer import SNAPSHOTS
from tests.harness import Daemon, wait_until

pytestmark = pytest.mark.integration
PROBE_INTERVAL_S, PROBE_TIMEOUT_S = 0.5, 5.0
"""Instead of 10 and 20 seconds."""
PROGRAM = """
from crdtsync.core.peers import liveness
liveness.PROBE_INTERVAL_S, liveness.PROBE_TIMEOUT_S = {}, {}
from crdtsyncd.main import main
main()
"""
PATIENCE_S = 60.0


async def introduced(daemon: Daemon, name: str, **options: Any) -> ClientConnection:
    peer = await connect(daemon.url, compression=None, max_size=None, ping_interval=None, **options)
    hello = Hello(name * 32, name, LOOPBACK_CLUSTER, b"d" * 16, {"default": (0, {})}, 0, features=(PROBES, SNAPSHOTS))
    await peer.send(hello.encode())
    return peer


class Answering:
    """A peer that answers every probe."""

    def __init__(self, peer: ClientConnection) -> None:
        self.count = 0
        self._peer = peer
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async for data in self._peer:
            message = decode_message(data if isinstance(data, bytes) else b"")
            if isinstance(message, Probe):
                await self._peer.send(Probed(message.number, 0).encode())
                self.count += 1

    async def close(self) -> None:
        self._task.cancel()
        await self._peer.close()


async def one_byte_a_second(peer: ClientConnection) -> None:
    """It begins an answer that would take a day."""
    peer.transport.write(b"\x82\xfe\xff\xff" + bytes(4))
    while peer.state is State.OPEN:  # a byte each time
        peer.transport.write(b"x")
        await asyncio.sleep(1)


async def test_who_gets_nowhere_is_cut_and_who_answers_stays() -> None:
    with Daemon("host-a", program=PROGRAM.format(PROBE_INTERVAL_S, PROBE_TIMEOUT_S)) as daemon:
        client = daemon.client()
        for n in range(16):
            await asyncio.to_thread(client.set, f"large/{n}", bytes(500_000))
        deaf = await introduced(daemon, "d", max_queue=1)
        deaf.transport.pause_reading()  # its socket is full, so that the daemon cannot even say goodbye
        slow = await introduced(daemon, "s")
        fine = Answering(await introduced(daemon, "f"))
        dripping = asyncio.create_task(one_byte_a_second(slow))
        await asyncio.to_thread(
            wait_until, lambda: len(daemon.log_events("peer_down")) >= 2 and fine.count >= 3, PATIENCE_S
        )
        deaf.transport.abort()
        await asyncio.wait_for(asyncio.gather(deaf.wait_closed(), dripping), PATIENCE_S)
        reasons = [event["reason"] for event in daemon.log_events("peer_down")]
        assert len(reasons) == 2
        assert all("it does not answer" in reason for reason in reasons)
        states = {peer["name"]: peer["state"] for peer in await asyncio.to_thread(lambda: daemon.status()["peers"])}
        assert states == {"d": "down", "s": "down", "f": "connected"}
        await fine.close()


async def test_who_is_sent_a_little_all_the_time_and_reads_none_of_it_is_cut_too() -> None:
    """The kernels between take all of it for hours, which is no sign of life."""
    with Daemon("host-a", program=PROGRAM.format(PROBE_INTERVAL_S, 3.0)) as daemon:
        client = daemon.client()
        frozen = await introduced(daemon, "f", max_queue=1)
        await asyncio.to_thread(wait_until, lambda: daemon.log_events("peer_up"))
        frozen.transport.pause_reading()
        async with asyncio.timeout(PATIENCE_S):
            while not daemon.log_events("peer_down"):
                await asyncio.to_thread(client.set, "busy", bytes(3000))
        assert "it does not answer" in daemon.log_events("peer_down")[0]["reason"]
        frozen.transport.abort()
