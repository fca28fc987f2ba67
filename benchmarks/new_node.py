"""A new node joins daemons that hold many keys, while agents go on writing; then again, with the connection cut.

Two linked daemons are given the keys, and an agent at each of them overwrites random ones all the time. Then new
daemons with no data come, one after the other: one that knows both; one that knows the first alone; and one whose only
connection is cut when half of what the one before received has come. Each must hold every key and answer within the
time allowed (``--within``). Agents that read all the time notice how long a daemon that sends or takes a snapshot
leaves them without a reply.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Any

import click
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.daemons import DaemonError, Daemons
from benchmarks.gauges import MIB, cpu_s, differences, read, rss_bytes
from benchmarks.pacing import Latency, Paced
from benchmarks.progress import shown_progress
from crdtsync.client import AsyncClient
from crdtsync.core.sync.change_feed import CREDIT_BYTES_MAX
from crdtsync.errors import CrdtSyncError
from tests.harness.proxy import Network

if TYPE_CHECKING:
    from benchmarks.daemons import Daemon
    from tests.harness.proxy import Proxy

PREFIX = "key/"
REQUEST_TIMEOUT_S = 120.0
BATCH_WRITES = 1000
RESUMED = "snapshot_resumed"
READ_EVERY_S = 0.005
RSS_EVERY_S = 0.05
GAP_MS_MAX = 1000.0
SAMPLED_KEYS = 200
REPEATED_BYTES_MAX = CREDIT_BYTES_MAX + MIB
"""What is on its way when a connection breaks is lost: a peer's credit at most, and what agents wrote meanwhile."""
_WIDTH_CHARS = 150


@dataclass(frozen=True, slots=True)
class Options:
    """How many keys, and how fast the newcomer must be."""

    keys: int = 100_000
    value_bytes: int = 100
    writes_per_s: float = 100.0
    """Of the agent at each of the two daemons."""
    measure_s: float = 5.0
    """How long the daemons are measured before anybody joins."""
    within_s: float = 10.0
    gap_ms_max: float = GAP_MS_MAX
    log_bytes_max: int = 4 * MIB
    seed: int = 0
    timeout_s: float = 900.0


@dataclass(slots=True)
class Joined:
    """One newcomer."""

    how: str
    node: str
    ready_s: float = 0.0
    """From the start of the process until it said that it was ready."""
    connected_s: float = 0.0
    """From the start until it was connected."""
    complete_s: float = 0.0
    """From the start until it held all that had been acknowledged anywhere when it was connected."""
    cpu_s: float = 0.0
    """Processor time of the newcomer from its start until then."""
    by_snapshot: bool = False
    resumed: bool = False
    """Whether the first daemon went on with a snapshot where the connection had broken."""
    received_bytes: int = 0
    sent_bytes: int = 0
    cuts: int = 0
    keys: int = 0
    sender_rss_bytes: int = 0
    """The most memory of the first daemon meanwhile."""
    taker_rss_bytes: int = 0
    writes: dict[str, Latency] = field(default_factory=dict)
    """Of the writing agents meanwhile, by node."""
    reads: dict[str, Latency] = field(default_factory=dict)
    """Of the reading agents meanwhile, by node, the new one among them."""


@dataclass(slots=True)
class Result:
    """What was measured, and what of it must not be."""

    options: Options
    fill_s: float = 0.0
    log_bytes: int = 0
    log_changes: int = 0
    rss_bytes: int = 0
    writes_before: dict[str, Latency] = field(default_factory=dict)
    reads_before: dict[str, Latency] = field(default_factory=dict)
    joined: list[Joined] = field(default_factory=list)
    repeated_bytes: int = 0
    """What the newcomer that was cut off received more than the one before it, which was not."""
    faults: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {**asdict(self), "passed": not self.faults}


class Bench:
    """The two daemons and the agents at them."""

    def __init__(self, options: Options, fleet: Daemons, network: Network, *, quiet: bool) -> None:
        self.options = options
        self.fleet = fleet
        self.network = network
        self.result = Result(options)
        self.old = fleet.daemons[:2]
        self.clients = [_client(daemon, "writer") for daemon in self.old]
        self._readers = [_client(daemon, "reader") for daemon in self.old]
        self._quiet = quiet
        self._rng = Random(options.seed)
        every_s = 1 / options.writes_per_s
        self.writing = [Paced(self._writes(client), every_s) for client in self.clients]
        self.reading = [Paced(self._reads(client), READ_EVERY_S) for client in self._readers]

    async def fill(self) -> None:
        """Give the first daemon all keys, and wait until the second has them."""
        start_s, options, client = monotonic(), self.options, self.clients[0]
        done = 0
        with shown_progress("filling", options.keys, lambda: done, quiet=self._quiet):
            for start in range(0, options.keys, BATCH_WRITES):
                async with client.batch() as batch:
                    for number in range(start, min(start + BATCH_WRITES, options.keys)):
                        batch.set(_key(number), self._value())
                done = start
            token = client.last_token
            assert token is not None
            await self.clients[1].wait(token)
        self.result.fill_s = monotonic() - start_s

    async def measure(self) -> None:
        """See how the two daemons answer while nobody joins."""
        for agent in (*self.writing, *self.reading):
            agent.start()
        start_s = monotonic()
        await asyncio.sleep(self.options.measure_s)
        end_s = monotonic()
        self.result.writes_before = _latencies(self.old, self.writing, start_s, end_s)
        self.result.reads_before = _latencies(self.old, self.reading, start_s, end_s)
        reading = await read(self.old[0], self._readers[0])
        self.result.log_bytes, self.result.log_changes = reading.log_bytes, reading.log_changes
        self.result.rss_bytes = reading.rss_bytes

    async def join(self, how: str, senders: list[Daemon], cut_bytes: int | None = None) -> Joined:
        """Let a new daemon join that knows ``senders``, and compare it with them when it holds all."""
        name = f"new-{len(self.result.joined)}"
        proxies = [self.network.proxy(("127.0.0.1", sender.port)) for sender in senders]
        if cut_bytes is not None:
            proxies[0].cut_after(down=cut_bytes)
        daemon = self.fleet.add(name, [f"ws://127.0.0.1:{proxy.port}" for proxy in proxies])
        joined = Joined(how, name)
        self.result.joined.append(joined)
        async with AsyncExitStack() as stack:
            for proxy in proxies:
                stack.callback(proxy.cut, refuse=True)
            watching = asyncio.create_task(self._watch_memory(joined, daemon))
            stack.callback(watching.cancel)
            await self._take_in(joined, daemon, proxies, stack)
        await daemon.stop()
        return joined

    async def _take_in(self, joined: Joined, daemon: Daemon, proxies: list[Proxy], stack: AsyncExitStack) -> None:
        resumed_before = len(self.old[0].logged(RESUMED))
        start_s = monotonic()
        joined.ready_s = await daemon.start()
        ready_s = monotonic()
        client = await stack.enter_async_context(_client(daemon, "newcomer"))
        reading = Paced(self._reads(await stack.enter_async_context(_client(daemon, "reader"))), READ_EVERY_S)
        stack.push_async_callback(reading.stop)
        reading.start()
        await _connected(client, len(proxies))
        joined.connected_s = monotonic() - start_s
        for token in self._newest_tokens():
            await client.wait(token)
        end_s = monotonic()
        joined.complete_s = end_s - start_s
        joined.cpu_s = cpu_s(daemon.pid)
        joined.by_snapshot = daemon.snapshots_taken() > 0
        joined.resumed = len(self.old[0].logged(RESUMED)) > resumed_before
        joined.received_bytes = sum(proxy.forwarded[1] for proxy in proxies)
        joined.sent_bytes = sum(proxy.forwarded[0] for proxy in proxies)
        joined.cuts = sum(proxy.cuts for proxy in proxies)
        joined.writes = _latencies(self.old, self.writing, start_s, end_s)
        joined.reads = _latencies(self.old, self.reading, start_s, end_s)
        joined.reads |= _latencies([daemon], [reading], ready_s, end_s)
        await self._compare(joined, daemon, client)

    def _newest_tokens(self) -> list[str]:
        """What together names all that is acknowledged."""
        return [client.last_token for client in self.clients if client.last_token is not None]

    async def _compare(self, joined: Joined, daemon: Daemon, client: AsyncClient) -> None:
        """With the writers paused, all daemons hold the same, by digest and by value."""
        await asyncio.gather(*(agent.pause() for agent in self.writing))
        everybody = [*zip(self.old, self.clients, strict=True), (daemon, client)]
        for token in self._newest_tokens():
            for _, each in everybody:
                await each.wait(token)
        readings = [await read(each, its_client) for each, its_client in everybody]
        joined.keys = readings[-1].keys
        self.result.faults += [f"{joined.how}: {difference}" for difference in differences(readings)]
        if joined.keys != self.options.keys:
            self.result.faults.append(f"{joined.how}: it has {joined.keys:,} of {self.options.keys:,} keys")
        for number in self._rng.sample(range(self.options.keys), min(SAMPLED_KEYS, self.options.keys)):
            values = [await each.get(_key(number)) for _, each in everybody]
            if values[0] is None or any(value != values[0] for value in values):
                self.result.faults.append(f"{joined.how}: the nodes show {values!r:.200} for {_key(number)}")
        for agent in self.writing:
            agent.resume()

    async def _watch_memory(self, joined: Joined, daemon: Daemon) -> None:
        while True:
            joined.sender_rss_bytes = max(joined.sender_rss_bytes, rss_bytes(self.old[0].pid))
            if daemon.pid is not None:
                joined.taker_rss_bytes = max(joined.taker_rss_bytes, rss_bytes(daemon.pid))
            await asyncio.sleep(RSS_EVERY_S)

    async def close(self) -> None:
        """End all agents."""
        for agent in (*self.writing, *self.reading):
            await agent.stop()
        for client in (*self.clients, *self._readers):
            await client.close()

    def _writes(self, client: AsyncClient) -> Any:
        """A function that overwrites one random key."""
        return lambda: client.set(self._some_key(), self._value(), seen=None)

    def _reads(self, client: AsyncClient) -> Any:
        return lambda: client.get(self._some_key())

    def _some_key(self) -> str:
        return _key(self._rng.randrange(self.options.keys))

    def _value(self) -> str:
        size = max(0, self.options.value_bytes - 2)  # msgpack takes the rest
        return f"{self._rng.getrandbits(8 * size):x}"[:size]


async def run(options: Options, *, quiet: bool = False) -> Result:
    """Do it all on new daemons.

    :raises DaemonError, CrdtSyncError: a daemon failed.
    :raises TimeoutError: it took longer than ``options.timeout_s``.
    """
    settings: dict[str, object] = {"log_bytes_max": options.log_bytes_max} if options.log_bytes_max else {}
    network = Network()
    try:
        async with asyncio.timeout(options.timeout_s), Daemons(2, settings) as fleet:
            bench = Bench(options, fleet, network, quiet=quiet)
            try:
                await _play(bench)
            finally:
                await bench.close()
            for daemon in fleet.daemons:
                bench.result.faults += [f"{daemon.name} logged a bug: {bug}" for bug in daemon.bugs()]
    finally:
        network.close()
    return bench.result


async def _play(bench: Bench) -> None:
    first = bench.old[0]
    await bench.fill()
    await bench.measure()
    await bench.join("from both", bench.old)
    whole = await bench.join("from one", [first])
    cut = await bench.join("from one, cut half-way", [first], cut_bytes=whole.received_bytes // 2)
    bench.result.repeated_bytes = cut.received_bytes - whole.received_bytes
    judge(bench.result)


def judge(result: Result) -> None:
    """Add what must not be to the faults."""
    options = result.options
    for joined in result.joined:
        if joined.complete_s > options.within_s:
            result.faults.append(f"{joined.how}: complete after {joined.complete_s:.1f} s, not {options.within_s:g} s")
        result.faults += [
            f"{joined.how}: an agent of {node} had no reply for {latency.gap_ms:.0f} ms"
            for node, latency in joined.reads.items()
            if latency.gap_ms > options.gap_ms_max
        ]
    _, cut = result.joined[-2:]
    if not cut.cuts:
        result.faults.append("the connection was not cut: what came in was too short")
    if cut.by_snapshot and not cut.resumed:
        result.faults.append("after the cut the snapshot began anew")
    if result.repeated_bytes > REPEATED_BYTES_MAX:
        result.faults.append(
            f"after the cut {result.repeated_bytes:,} bytes came again, and no more than {REPEATED_BYTES_MAX:,} may be "
            "on their way"
        )


def _client(daemon: Daemon, agent: str) -> AsyncClient:
    return AsyncClient(daemon.socket, agent=agent, timeout=REQUEST_TIMEOUT_S)


async def _connected(client: AsyncClient, peers: int) -> None:
    """Until the client's daemon is connected to so many."""
    while True:
        status = await client.status()
        if sum(peer["state"] == "connected" for peer in status["peers"]) >= peers:
            return
        await asyncio.sleep(READ_EVERY_S)


def _key(number: int) -> str:
    return f"{PREFIX}{number:07}"


def _latencies(daemons: list[Daemon], agents: list[Paced], start_s: float, end_s: float) -> dict[str, Latency]:
    return {daemon.name: agent.latency(start_s, end_s) for daemon, agent in zip(daemons, agents, strict=True)}


# -- talking -------------------------------------------------------------------------------------------------------


def show(result: Result) -> None:
    """For people, on stdout."""
    options = result.options
    console = Console(highlight=False, soft_wrap=True, width=_WIDTH_CHARS)
    console.print(
        f"{options.keys:,} keys of {options.value_bytes} bytes, filled in {result.fill_s:.1f} s; "
        f"the log holds {result.log_changes:,} changes, {result.log_bytes / MIB:.1f} MiB; "
        f"memory {result.rss_bytes / MIB:.1f} MiB; two agents write {options.writes_per_s:g} times a second each"
    )
    table = Table(
        "a new node", "ready", "connected", "complete", "its CPU", "by", "received", "sent", "cuts", "sender", "taker",
        box=None,
    )  # fmt: skip
    for joined in result.joined:
        times = [f"{value:.2f} s" for value in (joined.ready_s, joined.connected_s, joined.complete_s, joined.cpu_s)]
        by = "snapshot" if joined.by_snapshot else "log"
        sizes = [f"{value / MIB:.2f} MiB" for value in (joined.received_bytes, joined.sent_bytes)]
        memory = [f"{value / MIB:.1f} MiB" for value in (joined.sender_rss_bytes, joined.taker_rss_bytes)]
        table.add_row(joined.how, *times, by, *sizes, str(joined.cuts), *memory)
    console.print(table)
    latencies = Table("when", "who", "answers", "p50", "p99", "longest", "longest gap", box=None)
    phases = [("before", result.writes_before, result.reads_before)]
    phases += [(joined.how, joined.writes, joined.reads) for joined in result.joined]
    for when, writes, reads in phases:
        for what, of in (("writes at", writes), ("reads at", reads)):
            for node, found in of.items():
                cells = [f"{ms:.1f} ms" for ms in (found.p50_ms, found.p99_ms, found.most_ms, found.gap_ms)]
                latencies.add_row(when, f"{what} {node}", f"{found.answers:,}", *cells)
    console.print(latencies)
    console.print(f"  after the cut {result.repeated_bytes:,} bytes more came than without one")
    for fault in result.faults:
        console.print(f"  FAULT: {fault}")
    if not result.faults:
        console.print("  passed: every newcomer complete in time, with equal digests; agents were served meanwhile")


_DEFAULTS = Options()


@click.command(help=__doc__)
@click.option("--keys", type=click.IntRange(1), default=_DEFAULTS.keys, show_default=True)
@click.option("--value-bytes", type=click.IntRange(2), default=_DEFAULTS.value_bytes, show_default=True)
@click.option("--writes-per-s", type=click.FloatRange(0.1, 10_000), default=_DEFAULTS.writes_per_s, show_default=True,
              help="Of an agent at each of the two daemons.")  # fmt: skip
@click.option("--measure", "measure_s", type=float, default=_DEFAULTS.measure_s, metavar="SECONDS",
              help="Measure so long before anybody joins.")  # fmt: skip
@click.option("--within", "within_s", type=float, default=_DEFAULTS.within_s, metavar="SECONDS", show_default=True,
              help="A new node must be complete after this.")  # fmt: skip
@click.option("--gap-ms-max", type=float, default=_DEFAULTS.gap_ms_max, show_default=True,
              help="No agent may be without a reply for longer.")  # fmt: skip
@click.option("--log-bytes-max", type=click.IntRange(0), default=_DEFAULTS.log_bytes_max, show_default=True,
              help="The daemons' setting; so small that a new node must take a snapshot. 0: the default.")  # fmt: skip
@click.option("--seed", type=int, default=_DEFAULTS.seed, help="Of keys and values.")
@click.option("--timeout", "timeout_s", type=float, default=_DEFAULTS.timeout_s, metavar="SECONDS",
              help="Give up after this.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def main(as_json: bool, **given: Any) -> None:
    """Entry point; see the module."""
    options = Options(**given)
    try:
        result = uvloop.run(run(options))
    except TimeoutError:
        raise click.ClickException(f"it took over {options.timeout_s:.0f} s") from None
    except (DaemonError, CrdtSyncError) as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps(result.to_json()))
    else:
        show(result)
    sys.exit(1 if result.faults else 0)
