"""What one more idle agent, and one more idle peer, take of a daemon's memory; of crdtsync alone."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from time import monotonic

from benchmarks.daemons import Daemon, DaemonError, Daemons
from benchmarks.rivals.measures import KEYS, Figure, Figures
from crdtsync.client import AsyncClient

AGENT_MEMORY = Figure("memory of one more idle agent, with a watch", "kB")
PEER_MEMORY = Figure("memory of one more idle peer", "kB")
IDLE_MEMORY = Figure("memory of an idle daemon, its own", "MB")
SETTLE_S = 1.5
"""A daemon gives back what its start needed, and tidies up, within that."""
LINK_TIMEOUT_S = 60.0


async def measure(agents: int = 200, peers: int = 8) -> Figures:
    """A daemon that is given agents, then peers, while nobody writes."""
    async with Daemons(1) as fleet, AsyncExitStack() as attached:
        daemon = fleet[0]
        first = await attached.enter_async_context(AsyncClient(daemon.socket, agent="first"))
        for number in range(KEYS):
            await first.set(f"key/{number}", {"number": number})
        await _attach(daemon, attached, 2)  # what only the first one takes is not the next one's
        await asyncio.sleep(SETTLE_S)
        idle_bytes = _own_bytes(daemon)
        await _attach(daemon, attached, agents)
        await asyncio.sleep(SETTLE_S)
        with_agents_bytes = _own_bytes(daemon)
        found = {IDLE_MEMORY: idle_bytes / 1e6, AGENT_MEMORY: (with_agents_bytes - idle_bytes) / agents / 1000}
        if peers:
            await _connect(fleet, first, 2)
            before_bytes = _own_bytes(daemon)
            await _connect(fleet, first, peers)
            found[PEER_MEMORY] = (_own_bytes(daemon) - before_bytes) / peers / 1000
        return found


async def _attach(daemon: Daemon, attached: AsyncExitStack, count: int) -> None:
    for number in range(count):
        client = await attached.enter_async_context(AsyncClient(daemon.socket, agent=f"agent-{number}"))
        watch = client.watch(f"key/{number % KEYS}")
        attached.callback(watch.close)
        await anext(aiter(watch))


async def _connect(fleet: Daemons, client: AsyncClient, count: int) -> None:
    """Start so many daemons more that dial the first one, and wait until they hold what it holds."""
    for _ in range(count):
        await fleet.add(f"peer-{len(fleet.daemons)}", [f"ws://127.0.0.1:{fleet[0].port}"]).start()
    deadline_s = monotonic() + LINK_TIMEOUT_S
    while monotonic() < deadline_s:
        found = (await client.status())["peers"]
        if sum(peer["state"] == "connected" and not any(peer["behind"].values()) for peer in found) >= len(
            fleet.daemons[1:]
        ):
            await asyncio.sleep(SETTLE_S)
            return
        await asyncio.sleep(0.1)
    raise DaemonError(f"the daemons did not connect within {LINK_TIMEOUT_S:.0f} s")


def _own_bytes(daemon: Daemon) -> int:
    """What of its memory no other process shares: code comes and goes with what others use."""
    lines = Path(f"/proc/{daemon.pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))
