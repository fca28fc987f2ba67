"""``./dev bench idle``: what a daemon costs that has peers and agents, and nothing to do."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import click

from benchmarks.daemons import DaemonError, Daemons
from benchmarks.gauges import MIB, cpu_exact_s, private_bytes, rss_bytes
from crdtsync.client import AsyncClient

RSS_MB_MAX = 60
CPU_PERCENT_MAX = 0.2
SETTLE_S = 5.0
KEYS = 1000


class Idle(NamedTuple):
    """Memory in bytes, and the share of one core in percent."""

    rss_bytes: int
    private_bytes: int
    cpu_percent: float
    wakeups_per_s: float


async def measure(peers: int, agents: int, seconds: float) -> Idle:
    """One daemon with so many peers and attached agents, each of which watches, while nobody writes."""
    async with Daemons(1 + peers) as fleet, AsyncExitStack() as attached:
        daemon = fleet[0]
        clients = [
            await attached.enter_async_context(AsyncClient(socket=daemon.socket, agent=f"agent-{number}"))
            for number in range(agents)
        ]
        for number in range(KEYS):
            await clients[0].set(f"key/{number}", {"number": number})
        for number, client in enumerate(clients):
            watch = client.watch(f"key/{number}")
            attached.callback(watch.close)
            await anext(aiter(watch))
        await _connected(clients[0], peers)
        await asyncio.sleep(SETTLE_S)
        before_s, cpu_before_s, waits_before = monotonic(), cpu_exact_s(daemon.pid), _waits(daemon.pid)
        await asyncio.sleep(seconds)
        elapsed_s = monotonic() - before_s
        return Idle(
            rss_bytes(daemon.pid),
            private_bytes(daemon.pid),
            100 * (cpu_exact_s(daemon.pid) - cpu_before_s) / elapsed_s,
            (_waits(daemon.pid) - waits_before) / elapsed_s,
        )


async def _connected(client: AsyncClient, peers: int) -> None:
    """Until all peers are connected and hold all that there is."""
    deadline_s = monotonic() + 60
    while monotonic() < deadline_s:
        found = (await client.status())["peers"]
        linked = [peer for peer in found if peer["state"] == "connected" and not any(peer["behind"].values())]
        if len(linked) == peers:
            return
        await asyncio.sleep(0.1)
    raise DaemonError("the daemons did not connect within 60 s")


def _waits(pid: int | None) -> int:
    """How often it went to sleep by itself so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


@click.command()
@click.option("--peers", default=5, show_default=True, help="Connected peers.")
@click.option("--agents", default=20, show_default=True, help="Attached agents, each with a watch.")
@click.option("--seconds", default=60.0, show_default=True, help="How long to look.")
@click.option("--check", is_flag=True, help="Exit status 1 if it takes more than it should.")
def main(peers: int, agents: int, seconds: float, check: bool) -> None:
    """Measure what an idle daemon takes: memory, and the share of a core."""
    idle = asyncio.run(measure(peers, agents, seconds))
    print(
        f"{peers} peers, {agents} agents, {seconds:.0f} s: RSS {idle.rss_bytes / 1e6:.1f} MB "
        f"({idle.private_bytes / MIB:.1f} MiB of it private), CPU {idle.cpu_percent:.3f} %, "
        f"{idle.wakeups_per_s:.1f} wakeups a second; load {os.getloadavg()[0]:.1f}"
    )
    if check and (idle.rss_bytes > RSS_MB_MAX * 1e6 or idle.cpu_percent > CPU_PERCENT_MAX):
        raise SystemExit(1)
