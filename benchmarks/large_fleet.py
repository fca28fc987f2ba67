"""``./dev bench fleet``: a cluster in which not all daemons are connected: how often and how late changes come."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import click

from benchmarks import daemons as small
from benchmarks.daemons import Daemon, DaemonError
from benchmarks.gauges import MIB, percentile
from crdtsync.client import AsyncClient

STARTS_AT_ONCE = 3
CONNECT_TIMEOUT_S = 180.0
SETTLE_S = 3.0
DELIVERIES_MAX = 1.5
"""Of a change to each node that did not make it, on average."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What came out. Delays are from a write's reply until the last node's watcher has it, in ms."""

    nodes: int
    writes: int
    deliveries: float
    delay_ms_p50: float
    delay_ms_p99: float
    all_ms_p50: float
    """Of a write with w=all, until it is answered."""
    links_mean: float
    links_max: int
    private_mib_mean: float
    private_mib_alone: float
    peer_kib: float
    """Memory that a connected peer costs, beside the state: the difference over the number of connections."""
    load: float


class Arrivals:
    """When each write was seen by each node."""

    def __init__(self, nodes: int, writes: int) -> None:
        self._awaited = nodes * writes
        self._last_s: dict[int, float] = {}
        self.complete = asyncio.Event()

    def note(self, number: int) -> None:
        """A node has shown this write to its watcher."""
        self._last_s[number] = monotonic()
        self._awaited -= 1
        if not self._awaited:
            self.complete.set()

    def last(self, number: int) -> float:
        """When the last one did."""
        return self._last_s[number]


async def run(nodes: int, writes: int, rate: float, concerns: int) -> Figures:
    """Begin a cluster of so many, write at random ones of them, and count."""
    async with AsyncExitStack() as stack:
        hosts = small.Daemons(0)
        stack.push_async_callback(hosts.clean_up)
        ports = small.free_ports(nodes)
        settings = {"insecure_loopback": False}  # so they speak TLS, as those of different hosts do
        hosts.daemons = [
            Daemon(f"node-{n}", hosts.directory / str(n), port, [], settings) for n, port in enumerate(ports)
        ]
        alone = await _found(hosts)
        clients = [
            await stack.enter_async_context(AsyncClient(socket=daemon.socket, agent="bench", timeout=60))
            for daemon in hosts.daemons
        ]
        links = await _connected(clients)
        arrivals = Arrivals(nodes, writes)
        for client in clients:
            stack.callback(asyncio.create_task(_follow(client, arrivals)).cancel)
        await asyncio.sleep(SETTLE_S)
        before = await _delivered(clients)
        starts, random = {}, Random(1)
        for number in range(writes):
            client = clients[random.randrange(nodes)]
            await client.set(f"bench/{number}", number)
            starts[number] = monotonic()
            await asyncio.sleep(random.expovariate(rate))
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            await arrivals.complete.wait()
        after = await _delivered(clients)
        delays = [1000 * (arrivals.last(number) - starts[number]) for number in range(writes)]
        waits = await _with_concern(clients[0], concerns)
        private = [_private_bytes(daemon) / MIB for daemon in hosts.daemons]
        mean = sum(private) / nodes
        return Figures(
            nodes, writes, (after - before) / writes / (nodes - 1), percentile(delays, 0.5), percentile(delays, 0.99),
            percentile(waits, 0.5), sum(links) / nodes, max(links), mean, alone,
            (mean - alone) * 1024 / (sum(links) / nodes), os.getloadavg()[0],
        )  # fmt: skip


async def _found(hosts: small.Daemons) -> float:
    """Start the daemons and make them one cluster. Returns how much memory the first one takes by itself, in MiB."""
    first, *others = hosts.daemons
    await first.start()
    async with AsyncClient(socket=first.socket, agent="bench", timeout=60) as client:
        await client.cluster_init()
        alone = _private_bytes(first) / MIB
        invite = (await client.cluster_invite(uses=max(1, len(others)), local=True))["invite"]
    gate = asyncio.Semaphore(STARTS_AT_ONCE)

    async def join(daemon: Daemon) -> None:
        async with gate:
            await daemon.start()
            async with AsyncClient(socket=daemon.socket, agent="bench", timeout=60) as client:
                await client.cluster_join(invite)

    await asyncio.gather(*(join(daemon) for daemon in others))
    return alone


async def _connected(clients: list[AsyncClient]) -> list[int]:
    """Until every node knows of every other one that it is up; how many each is connected to."""
    deadline_s = monotonic() + CONNECT_TIMEOUT_S
    while monotonic() < deadline_s:
        links = []
        for client in clients:
            states = [peer["state"] for peer in (await client.status())["peers"]]
            if len(states) != len(clients) - 1 or not {*states} <= {"connected", "indirect"}:
                break
            links.append(states.count("connected"))
        if len(links) == len(clients):
            return links
        await asyncio.sleep(1)
    raise DaemonError(f"the daemons did not all find each other within {CONNECT_TIMEOUT_S:.0f} s")


async def _follow(client: AsyncClient, arrivals: Arrivals) -> None:
    async for event in client.watch("bench/"):
        if event.event == "set" and isinstance(event.value, int):
            arrivals.note(event.value)


async def _delivered(clients: list[AsyncClient]) -> int:
    found: list[dict[str, Any]] = [await client.status() for client in clients]
    return sum(status["counters"]["deliveries"] for status in found)


async def _with_concern(client: AsyncClient, count: int) -> list[float]:
    """How long writes take that are to be on disk everywhere; the first one, which finds the way, is left out."""
    taken = []
    for number in range(count + 1):
        start_s = monotonic()
        await client.set("everywhere", number, w="all", timeout=60)
        taken.append(1000 * (monotonic() - start_s))
    return taken[1:]


def _private_bytes(daemon: Daemon) -> int:
    lines = Path(f"/proc/{daemon.pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


@click.command()
@click.option("--nodes", default=30, show_default=True, help="Daemons.")
@click.option("--writes", default=600, show_default=True, help="Writes, each at a random one.")
@click.option("--rate", default=20.0, show_default=True, help="Writes a second.")
@click.option("--concerns", default=20, show_default=True, help="Writes with w=all after that.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(nodes: int, writes: int, rate: float, concerns: int, as_json: bool) -> None:
    """Count what a large cluster costs: deliveries of a change, delay until the last node, memory of a peer."""
    try:
        found = asyncio.run(run(nodes, writes, rate, concerns))
    except DaemonError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        print(json.dumps(asdict(found)))
    else:
        print(
            f"{found.nodes} daemons, {found.writes} writes: {found.deliveries:.2f} deliveries per node and change; "
            f"from write to last node {found.delay_ms_p50:.0f} ms (p99 {found.delay_ms_p99:.0f}); "
            f"w=all {found.all_ms_p50:.0f} ms; {found.links_mean:.1f} connections a node (at most {found.links_max}); "
            f"{found.private_mib_mean:.1f} MiB a daemon, {found.private_mib_alone:.1f} alone, "
            f"{found.peer_kib:.0f} KiB a peer; load {found.load:.1f}"
        )
    if found.deliveries > DELIVERIES_MAX:
        print(f"more than {DELIVERIES_MAX} deliveries per node and change", file=sys.stderr)
        raise SystemExit(1)
