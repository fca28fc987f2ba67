"""``./dev bench sessions``: a long session of a coding agent that is followed live, loaded and handed over.

Two linked daemons and the real commands. A file of Claude Code is there up to a part, ``session watch`` follows it, and
the rest comes line by line at a pace. Each line's time from the file to the log of the other host is its lag. Then the
other host loads the session and hands it over. Processor time is what counts on a machine that does other things, too.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import sys
import sysconfig
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import click

from benchmarks.daemons import Daemon, Daemons
from benchmarks.gauges import cpu_exact_s, percentile
from crdtsync.client import AsyncClient
from crdtsync.sessions.agents.agent import Head
from crdtsync.sessions.agents.claude_code import ClaudeCode
from crdtsync.sessions.conversation.record import ASSISTANT, USER, Call, Conversation, Item, Result, Text
from crdtsync.sessions.redaction.redactor import Redactor
from crdtsync.sessions.saved.pieces import chain, end_of
from tests.harness.proxy import Network

FOLLOW_PERCENT_MAX, LAG_S_MAX, SIZE_RATIO_MAX, LOAD_S_MAX, HANDOVER_S_MAX = 2.0, 1.0, 1.3, 1.0, 3.0
_ID = "aaaaaaaa-0000-4000-8000-000000000001"
_RESULT_CHARS = 6000


def lines(size: int) -> list[bytes]:
    """A session of about ``size`` bytes: an agent that reads Python's own library and says something about it."""
    head = Head(_ID, "/srv/api", "2026-11-20T10:00:00.000Z", "begun")
    found, so_far = list[bytes](), 0
    for line in Redactor().lines(ClaudeCode().write(Conversation(list(_talk(size))), head)):
        found.append(line)
        so_far += len(line)
        if so_far >= size:
            break
    return found


def _talk(size: int) -> Iterator[Item]:
    rng = random.Random(7)
    sources = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    number, chars = 0, 0
    while chars < size:
        yield Text(USER, f"Go on with step {number}, and say what you find.")
        for _ in range(8):
            number += 1
            path = rng.choice(sources)
            text = path.read_text("utf-8", "replace")
            start = rng.randrange(max(1, len(text) - _RESULT_CHARS))
            shown = text[start : start + rng.randrange(500, _RESULT_CHARS)]
            yield Text(ASSISTANT, f"I look at {path.name} from {start}: {' '.join(shown.split()[:40])}")
            yield Call(f"toolu_{number:024}", "Bash", {"command": f"tail -c +{start} {path}"})
            yield Result(f"toolu_{number:024}", shown)
            chars += len(shown)


class Home:
    """A user's home, and the commands that he runs on the host of ``daemon``."""

    def __init__(self, path: Path, daemon: Daemon) -> None:
        self.file = path / ".claude" / "projects" / "-srv-api" / f"{_ID}.jsonl"
        self.file.parent.mkdir(parents=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CRDTSYNC_", "XDG_"))}
        self._environment = {**kept, "HOME": str(path), "CRDTSYNC_SOCKET": str(daemon.socket)}
        self._command = [sys.executable, "-m", "crdtsyncd.cli", "session"]

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        """Begin a command of ``crdtsync session``."""
        return await asyncio.create_subprocess_exec(
            *self._command, *arguments, env=self._environment, stdout=PIPE, limit=2**26
        )

    async def run(self, *arguments: str) -> tuple[float, float]:
        """Run it; how long it took, and its processor time."""
        before, start_s = resource.getrusage(resource.RUSAGE_CHILDREN), monotonic()
        process = await self.start(*arguments)
        await process.communicate()
        took_s, after = monotonic() - start_s, resource.getrusage(resource.RUSAGE_CHILDREN)
        if process.returncode:
            raise click.ClickException(f"session {arguments[0]} ended with {process.returncode}")
        return took_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Lags:
    """When lines were written, and when the logs of hosts had them."""

    def __init__(self) -> None:
        self._ends: dict[bytes, int] = {}
        self.written_s: list[float] = []
        self.after_s: dict[str, list[float]] = {}

    def know(self, digest: bytes) -> None:
        """The digest of the next line."""
        self._ends[digest] = len(self._ends)

    async def watch(self, client: AsyncClient, host: str) -> None:
        """Note when they come there, until the last one has."""
        after = self.after_s[host] = []
        async with client.watch(f"sessions.lines/{_ID}/main") as events:
            async for event in events:
                for one in event.events or [event]:
                    at = self._ends.get(end_of(one.value) or b"", -1)
                    now_s = monotonic()
                    after += [now_s - written_s for written_s in self.written_s[len(after) : at + 1]]
                if len(after) == len(self._ends):
                    return


async def measure(size: int, begun: int, rate: int) -> dict[str, Any]:
    """Follow what comes after the first ``begun`` of ``size`` bytes, at ``rate`` bytes a second."""
    all_lines = lines(size)
    with closing(Network()) as network:
        return await _measured(all_lines, begun, rate, network)


async def _measured(all_lines: list[bytes], begun: int, rate: int, network: Network) -> dict[str, Any]:
    async with Daemons(1) as fleet:
        proxy = network.proxy(("127.0.0.1", fleet[0].port))
        await fleet.add("there", [f"ws://127.0.0.1:{proxy.port}"]).start()
        homes = [Home(fleet.directory / f"home-{number}", daemon) for number, daemon in enumerate(fleet.daemons)]
        sizes = [sum(map(len, all_lines[:at])) for at in range(len(all_lines) + 1)]
        first = next(at for at, so_far in enumerate(sizes) if so_far >= begun or at == len(all_lines) - 1)
        homes[0].file.write_bytes(b"".join(all_lines[:first]))
        lags = Lags()
        pieces = list(chain(all_lines))
        for one in pieces[first:]:
            lags.know(one.digest)
        here, there = (AsyncClient(socket=daemon.socket, agent="bench", timeout=300) for daemon in fleet.daemons)
        async with here, there:
            watching = [asyncio.create_task(lags.watch(*pair)) for pair in ((here, "here"), (there, "there"))]
            follower = await homes[0].start("watch", _ID)
            try:
                assert follower.stdout is not None
                if not await follower.stdout.readline():
                    raise click.ClickException("session watch has ended")
                pids = (follower.pid, fleet[0].pid, fleet[1].pid)
                await there.wait(await here.now())
                before, start_s = [cpu_exact_s(pid) for pid in pids], monotonic()
                with homes[0].file.open("ab", buffering=0) as file:
                    for number, line in enumerate(all_lines[first:]):
                        await asyncio.sleep(start_s + (sizes[first + number] - sizes[first]) / rate - monotonic())
                        lags.written_s.append(monotonic())
                        file.write(line)
                async with asyncio.timeout(60):
                    await asyncio.gather(*watching)
                took_s = monotonic() - start_s
                percents = [100 * (cpu_exact_s(pid) - one) / took_s for pid, one in zip(pids, before, strict=True)]
            finally:
                with suppress(ProcessLookupError):
                    follower.kill()
                await follower.communicate()
                for task in watching:
                    task.cancel()
            wire_bytes = sum(proxy.forwarded)
            stored_bytes = sum(path.stat().st_size for path in fleet[1].database.parent.rglob("*") if path.is_file())
        work = fleet.directory / "api"
        work.mkdir()
        loaded = await homes[1].run("load", _ID, "--in", str(work))
        handed = await homes[1].run("handover", _ID, "--to", "codex", "--in", str(work))
        budget = await homes[1].run("handover", _ID, "--to", "codex", "--in", str(work), "--budget", "100000")
    return {
        "bytes": sizes[-1], "lines": len(all_lines), "followed_bytes": sizes[-1] - sizes[first], "seconds": took_s,
        "follower_percent": percents[0], "daemon_here_percent": percents[1], "daemon_there_percent": percents[2],
        **{f"lag_{host}_{name}_s": percentile(one, share) for host, one in lags.after_s.items()
           for name, share in (("p50", 0.5), ("p99", 0.99), ("most", 1.0))},
        "wire_ratio": wire_bytes / sizes[-1], "disk_ratio": stored_bytes / sizes[-1],
        "load_s": loaded[0], "load_cpu_s": loaded[1], "handover_s": handed[0], "handover_cpu_s": handed[1],
        "handover_in_budget_s": budget[0], "handover_in_budget_cpu_s": budget[1], "load": os.getloadavg()[0],
    }  # fmt: skip


@click.command()
@click.option("--size", default=20_000_000, show_default=True, help="Bytes of the session in the end.")
@click.option("--begun", default=19_500_000, show_default=True, help="So many are there when following begins.")
@click.option("--rate", default=5_000, show_default=True, help="Bytes a second that come then.")
@click.option("--check", is_flag=True, help="Exit status 1 if a target is missed.")
def main(size: int, begun: int, rate: int, check: bool) -> None:
    """Measure a long session of a coding agent: followed, loaded, handed over."""
    found = asyncio.run(measure(size, begun, rate))
    print(json.dumps({name: round(value, 3) for name, value in found.items()}, indent=1))
    is_good = (
        found["follower_percent"] <= FOLLOW_PERCENT_MAX and found["lag_there_most_s"] <= LAG_S_MAX
        and max(found["wire_ratio"], found["disk_ratio"]) <= SIZE_RATIO_MAX
        and found["load_cpu_s"] <= LOAD_S_MAX and found["handover_cpu_s"] <= HANDOVER_S_MAX
    )  # fmt: skip
    if check and not is_good:
        raise SystemExit(1)
