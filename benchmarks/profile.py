"""Where the time of one operation goes: CPU of daemon and client, and a sampling profile of both.

CPU time, unlike time on the clock, hardly depends on what else the machine does. The profile is py-spy's: it looks at
the process from outside, so what it measures is not slowed down by being measured.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import NamedTuple

import click
import uvloop

from benchmarks.daemons import Daemons
from benchmarks.gauges import percentile
from benchmarks.rivals.processes import cpu_ns
from crdtsync.client import AsyncClient, Client

KEYS = 1000
VALUE = "x" * 100
IN_FLIGHT = 16
SAMPLES_PER_S = 500
SHOWN_MAX = 25
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")

Load = Callable[[Daemons, int], Awaitable[list[float]]]


class Cost(NamedTuple):
    """Of one operation, in µs."""

    p50_us: float
    daemon_us: float
    daemon_user_us: float
    client_us: float


async def _writes(fleet: Daemons, count: int) -> list[float]:
    return await asyncio.to_thread(_one_by_one, fleet, lambda client, key: client.set(key, VALUE), count)


async def _reads(fleet: Daemons, count: int) -> list[float]:
    return await asyncio.to_thread(_one_by_one, fleet, lambda client, key: client.get(key), count)


def _one_by_one(fleet: Daemons, call: Callable[[Client, str], object], count: int) -> list[float]:
    found = []
    with Client(fleet[0].socket) as client:
        client.set("k0", VALUE)
        for number in range(count):
            start_s = perf_counter()
            call(client, f"k{number % KEYS}")
            found.append(perf_counter() - start_s)
    return found


async def _in_flight(fleet: Daemons, count: int) -> list[float]:
    numbers = iter(range(count))
    found = []

    async def write(client: AsyncClient) -> None:
        for number in numbers:
            start_s = perf_counter()
            await client.set(f"k{number % KEYS}", VALUE)
            found.append(perf_counter() - start_s)

    async with AsyncClient(fleet[0].socket) as client:
        await asyncio.gather(*(write(client) for _ in range(IN_FLIGHT)))
    return found


async def _events(fleet: Daemons, count: int) -> list[float]:
    found = []
    async with AsyncClient(fleet[0].socket) as near, AsyncClient(fleet[1].socket) as far:
        token = await near.set("ready", 1)
        await far.wait(token, timeout=30)
        events = aiter(far.watch("k", after=far.last_token))
        for number in range(count):
            start_s = perf_counter()
            await near.set(f"k{number % KEYS}", f"{number:0100}")
            await anext(events)
            found.append(perf_counter() - start_s)
    return found


LOADS: dict[str, tuple[Load, int]] = {
    "write": (_writes, 1),
    "read": (_reads, 1),
    "in-flight": (_in_flight, 1),
    "event": (_events, 2),
}
"""Each with how many daemons it takes."""


async def measure(fleet: Daemons, load: Load, count: int) -> Cost:
    """The cost of each of ``count`` operations, at the first daemon."""
    pid = fleet[0].pid
    before_ns, user_before_s, client_before_s = cpu_ns(pid), user_s(pid), process_time()
    times = await load(fleet, count)
    client_s = process_time() - client_before_s
    return Cost(
        percentile(times, 0.5) * 1e6,
        (cpu_ns(pid) - before_ns) / 1000 / count,
        (user_s(pid) - user_before_s) * 1e6 / count,
        client_s * 1e6 / count,
    )


def user_s(pid: int | None) -> float:
    """That of it that the kernel did not take; counted in ticks of some ms."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return int(fields[11]) * _TICK_S


class Profiler:
    """py-spy on one process, from its start to :meth:`end`."""

    def __init__(self, pid: int, out: Path) -> None:
        self.out = out
        command = [_py_spy(), "record", "--pid", str(pid), "--rate", str(SAMPLES_PER_S), "--format", "raw"]
        command += ["--gil", "--duration", "3600", "--output", str(out)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end(self) -> list[tuple[list[str], int]]:
        """Every stack that was seen, the outermost frame first, and how often."""
        self._process.send_signal(2)
        self._process.wait(timeout=30)
        lines = self.out.read_text(encoding="utf-8").splitlines()
        parted = (line.rpartition(" ") for line in lines)
        return [(stack.split(";"), int(times)) for stack, _, times in parted]


def _py_spy() -> str:
    found = shutil.which("py-spy", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        raise click.ClickException("py-spy is not installed: pip install py-spy")
    return found


def table(stacks: list[tuple[list[str], int]], operation_us: float) -> str:
    """Functions by the time spent in them and below, as a share and in µs of one operation."""
    total = sum(times for _, times in stacks) or 1
    inside: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    for stack, times in stacks:
        names = [_function(frame) for frame in stack]
        for name in set(names):
            inside[name] += times
        alone[names[-1]] += times
    lines = ["     µs   share    alone  function"]
    for name, times in inside.most_common(SHOWN_MAX * 2):
        share = times / total
        lines.append(f"{share * operation_us:7.1f} {share:7.1%} {alone[name] / total:8.1%}  {name}")
    return "\n".join(lines)


def _function(frame: str) -> str:
    """``write (daemon/crdtsyncd/loop/agent_socket.py:154)`` without the line, so that a function is one row."""
    name, _, place = frame.partition(" (")
    return f"{name} ({place.rpartition(':')[0] or place.rstrip(')')})"


async def _run(name: str, count: int, rounds: int, stacks: bool) -> None:
    load, daemons = LOADS[name]
    async with Daemons(daemons) as fleet:
        await load(fleet, max(KEYS, count // 10))  # caches fill, files grow
        found = sorted([await measure(fleet, load, count) for _ in range(rounds)], key=lambda cost: cost.daemon_us)
        cost = found[len(found) // 2]
        click.echo(
            f"{name}: p50 {cost.p50_us:.0f} µs; CPU of the daemon {cost.daemon_us:.1f} µs "
            f"({cost.daemon_user_us:.1f} of them user time), of the client {cost.client_us:.1f} µs"
        )
        if stacks:
            with TemporaryDirectory(prefix="profile-") as directory:
                whose = {"daemon": fleet[0].pid, "client": os.getpid()}
                profilers = {who: Profiler(pid or 0, Path(directory) / who) for who, pid in whose.items()}
                await asyncio.sleep(1)
                await load(fleet, count)
                for who, profiler in profilers.items():
                    per_us = cost.daemon_us if who == "daemon" else cost.client_us
                    click.echo(f"\n{who}\n{table(profiler.end(), per_us)}")


@click.command(help=__doc__)
@click.option("--load", "loads", multiple=True, type=click.Choice(sorted(LOADS)), help="Only these. Repeatable.")
@click.option("--count", type=click.IntRange(100), default=5000, show_default=True, help="Operations in each round.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--stacks", is_flag=True, help="Sample where daemon and client are, with py-spy.")
def main(loads: tuple[str, ...], count: int, rounds: int, stacks: bool) -> None:
    """Entry point."""
    for name in loads or LOADS:
        uvloop.run(_run(name, count, rounds, stacks))
