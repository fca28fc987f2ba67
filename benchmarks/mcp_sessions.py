"""``./dev bench mcp``: what MCP sessions of coding agents take on one host, and whether one outlives its client.

Clients are processes of their own (this module, run as a program), which hold some sessions each and call their tools
at a pace. In the end they are killed as ``kill -9`` does, and every server must go by itself.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

import click

from benchmarks.daemons import DaemonError, Daemons

MB_MAX = 60
GROWTH_MB_MAX = 2
CLIENT_SESSIONS = 10
PACE_S = 10.0
SAMPLES = 20
START_TIMEOUT_S = 600.0
END_TIMEOUT_S = 60.0
_ANSWER_BYTES_MAX = 1024 * 1024
_FACTS = 3  # of each session: what there is to find soon stops growing


class Sample(NamedTuple):
    """The memory of all servers after so many seconds, in MB: ``shared`` counts a page that n have as 1/n of it."""

    seconds: float
    shared_most: float
    shared_mean: float
    resident_most: float

    def __str__(self) -> str:
        return (
            f"{self.seconds:6.0f} s: {self.shared_mean:.1f} MB a session, {self.shared_most:.1f} the largest; "
            f"resident {self.resident_most:.1f}"
        )


class Result(NamedTuple):
    """What was measured; ``orphans``: servers that were still there so long after their clients had been killed."""

    samples: list[Sample]
    orphans: int

    @property
    def growth(self) -> float:
        """By how many MB a session grew from the first quarter of the time on."""
        return self.samples[-1].shared_mean - self.samples[len(self.samples) // 4].shared_mean

    @property
    def is_good(self) -> bool:
        """Whether it is within the bounds."""
        most = max(sample.shared_most for sample in self.samples)
        return most <= MB_MAX and self.growth <= GROWTH_MB_MAX and not self.orphans


async def measure(sessions: int, seconds: float, pace_s: float) -> Result:
    """So many sessions beside one daemon, each calling a tool every ``pace_s``."""
    async with Daemons(1) as fleet:
        clients = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-m", "benchmarks.mcp_sessions", str(fleet[0].socket), str(pace_s),
                *map(str, range(first, min(first + CLIENT_SESSIONS, sessions))), stdin=DEVNULL, stdout=PIPE,
            )
            for first in range(0, sessions, CLIENT_SESSIONS)
        ]  # fmt: skip
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                for client in clients:
                    assert client.stdout is not None
                    if not await client.stdout.readline():
                        raise DaemonError("a client ended before its sessions had begun")
            servers = [pid for client in clients for pid in _children(client.pid)]
            start_s, samples = monotonic(), list[Sample]()
            while not samples or samples[-1].seconds < seconds:
                samples.append(_sample(servers, monotonic() - start_s))
                print(samples[-1], flush=True)
                await asyncio.sleep(seconds / SAMPLES)
        finally:
            for client in clients:
                if client.returncode is None:
                    client.kill()
                await client.wait()
        return Result(samples, await asyncio.to_thread(_left, servers))


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _left(servers: list[int]) -> int:
    """How many of them are still there when they had time to end."""
    end_s = monotonic() + END_TIMEOUT_S
    while any(there := [Path(f"/proc/{pid}").exists() for pid in servers]) and monotonic() < end_s:
        sleep(0.1)
    return sum(there)


def _sample(servers: list[int], seconds: float) -> Sample:
    """:raises DaemonError: a server has ended."""
    shared, resident = list[float](), list[float]()
    for pid in servers:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError as error:
            raise DaemonError(f"a server has ended: {error}") from None
        sizes = {line.split()[0]: int(line.split()[1]) * 1024 / 1e6 for line in lines[1:]}
        shared.append(sizes["Pss:"])
        resident.append(sizes["Rss:"])
    return Sample(seconds, max(shared), sum(shared) / len(shared), max(resident))


async def _client(socket: str, pace_s: float, numbers: list[int]) -> None:
    """Hold these sessions until somebody kills this process."""
    servers = [await _Server.begin(socket, number) for number in numbers]
    print("ready", flush=True)
    async with asyncio.TaskGroup() as group:
        for server in servers:
            group.create_task(server.work(pace_s))


class _Server:
    """One session: a server that was started as a coding agent starts it."""

    def __init__(self, process: Process, number: int) -> None:
        self._process, self._number = process, number
        self._ids = itertools.count(1)

    @classmethod
    async def begin(cls, socket: str, number: int) -> _Server:
        command = ["-m", "crdtsyncd.cli", "mcp", "serve", "--socket", socket, "--agent", f"agent-{number}"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdin=PIPE, stdout=PIPE, limit=_ANSWER_BYTES_MAX
        )
        server = cls(process, number)
        info = {"name": "bench", "version": "1"}
        await server._ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
        server._say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await server._ask("tools/list")
        return server

    async def work(self, pace_s: float) -> None:
        own = f"plan/{self._number}"
        for turn in itertools.count():
            for tool, arguments in (
                ("view", {}),
                ("write", {"key": own, "value": {"turn": turn, "what": "go on with the parser " * 20}}),
                ("read", {"keys": [own, f"plan/{turn % 50}"]}),
                ("search", {"query": "parser"}),
                ("remember", {"fact": f"Fact {turn % _FACTS} of agent {self._number}."}),
                ("recall", {"query": "fact"}),
                ("edit_text", {"key": f"text/{self._number}", "new": f"turn {turn}\n"}),
                ("delete", {"key": f"text/{self._number}"}),
                ("history", {"key": own}),
                ("wait_for_change", {"prefix": "plan/", "timeout_s": pace_s}),
            ):
                answer = await self._ask("tools/call", name=tool, arguments=arguments)
                if answer["result"].get("isError"):
                    print(f"{tool}: {answer['result']}", file=sys.stderr)
                await asyncio.sleep(pace_s)

    async def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._ids)
        self._say({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == number:
                return answer
        raise SystemExit(f"the server of agent-{self._number} has ended")

    def _say(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")


@click.command()
@click.option("--sessions", default=50, show_default=True, help="Coding agents, each with a server of its own.")
@click.option("--minutes", default=60.0, show_default=True, help="How long they work.")
@click.option("--pace", default=PACE_S, show_default=True, help="Seconds between two calls of one.")
@click.option("--check", is_flag=True, help="Exit status 1 if one takes or grows by more than it should, or stays.")
def main(sessions: int, minutes: float, pace: float, check: bool) -> None:
    """Measure what MCP sessions take on one host; in the end their clients are killed, and they must go."""
    result = asyncio.run(measure(sessions, minutes * 60, pace))
    print(f"grew by {result.growth:.1f} MB a session; {result.orphans} of {sessions} outlived their clients")
    if check and not result.is_good:
        raise SystemExit(1)


if __name__ == "__main__":
    asyncio.run(_client(sys.argv[1], float(sys.argv[2]), [int(number) for number in sys.argv[3:]]))
