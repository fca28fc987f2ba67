"""One run: measure, load, measure again."""

from __future__ import annotations

import os
import resource
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from crdtsyncd.ipc import WRITE_BUFFER_BYTES_MAX

from crdtsync.core.spaces import SPACES_MAX
from tests.harness.daemon import Daemon
from tests.harness.raw import RawAgent, RawError
from tests.load.crowd import Crowd, SilentPeer, Writers, make_keys, make_spaces, write_large

MIB = 1024 * 1024
AGENT_BYTES_MAX = 64 * 1024
"""What an agent that does nothing may take."""
SPACE_BYTES_MAX = 32 * 1024
KEY_BYTES_MAX = 1024
SILENT_PEER_BYTES_MAX = 8 * MIB
"""The credit of a connection, which is 4 MiB, encoded and on its way."""
BASE_BYTES = 96 * MIB
"""The page cache of the database, values of 1 MiB on their way, and what the allocator keeps."""
RATIO_MAX = 4.0
"""While those who do not read are still sent what they asked for each write goes to 200 of them: that is work."""
RATIO_FLOOR_MS = 1.0
"""Below that a median is noise, whatever the ratio."""
START_S_MAX = 300.0
Say = Callable[[str], None]


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    agents: int = 1000
    silent: int = 200
    peers: int = 3
    spaces: int = 10_000
    large: int = 100
    keys: int = 0
    samples: int = 300

    @property
    def growth_bytes_max(self) -> int:
        """What the memory may grow by."""
        return (
            BASE_BYTES + self.agents * AGENT_BYTES_MAX + self.silent * WRITE_BUFFER_BYTES_MAX * 2
            + self.peers * SILENT_PEER_BYTES_MAX + self.spaces * SPACE_BYTES_MAX + self.keys * KEY_BYTES_MAX
        )  # fmt: skip


@dataclass
class Report:
    """Figures in the order in which they were taken."""

    lines: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)


def run(scale: Scale, say: Say = lambda _: None) -> Report:
    """Load one daemon."""
    _raise_open_files_max()
    report = Report()

    def tell(line: str) -> None:
        report.lines.append(line)
        say(line)

    with ExitStack() as stack:
        daemon = stack.enter_context(Daemon("loaded", agents_max=scale.agents + 20))
        alone = stack.enter_context(Daemon("alone"))
        bystander = stack.enter_context(daemon.raw("bystander", timeout_s=60))
        beside = stack.enter_context(alone.raw("bystander", timeout_s=60))
        now, before = _measure(daemon, alone, bystander, beside, scale.samples)
        base_bytes = _rss_bytes(daemon)
        tell(f"nothing yet: {now}, and beside it {before}; {base_bytes / MIB:.0f} MiB")
        for title, load in _loads(daemon, scale, stack):
            began_s = time.monotonic()
            load()
            took_s = time.monotonic() - began_s
            now, before = _measure(daemon, alone, bystander, beside, scale.samples)
            grown_bytes = _rss_bytes(daemon) - base_bytes
            tell(f"{title} ({took_s:.1f} s): {now}, {now.ratio(before):.2f} times, grew by {grown_bytes / MIB:.0f} MiB")
            if now.ratio(before) > RATIO_MAX:
                report.found.append(f"{title}: others wait {now.ratio(before):.1f} times as long")
            if grown_bytes > scale.growth_bytes_max:
                report.found.append(f"{title}: grew by {grown_bytes:,} bytes; {scale.growth_bytes_max:,} are the bound")
        tell(f"the bound of the memory's growth is {scale.growth_bytes_max / MIB:.0f} MiB")
        report.found += _refusals(daemon, bystander, scale)
        report.found += [f"a bug: {line[-1000:]}" for line in daemon.log_lines() if '"event": "bug"' in line]
        if scale.keys or scale.spaces > 1000:
            tell(_restarted(daemon, bystander))
    return report


def _loads(daemon: Daemon, scale: Scale, stack: ExitStack) -> list[tuple[str, Callable[[], None]]]:
    def crowd() -> None:
        stack.callback(Crowd(daemon, scale.agents, scale.silent).close)

    def peers() -> None:
        for number in range(scale.peers):
            stack.callback(SilentPeer(daemon, number).close)

    loads: list[tuple[int, str, Callable[[], None]]] = [
        (scale.agents, f"{scale.agents:,} agents, {scale.silent} of them watch and read nothing", crowd),
        (scale.peers, f"{scale.peers} peers that never read", peers),
        (scale.large, f"{scale.large} values of 1 MiB", lambda: write_large(daemon, scale.large)),
        (scale.spaces, f"{scale.spaces:,} spaces", lambda: make_spaces(daemon, scale.spaces)),
        (scale.keys, f"{scale.keys:,} keys", lambda: make_keys(daemon, scale.keys)),
    ]
    return [(title, load) for count, title, load in loads if count]


@dataclass(frozen=True)
class Latency:
    """Of a write and of a read."""

    write_ms: float
    read_ms: float
    write_p99_ms: float

    def ratio(self, before: Latency) -> float:
        """How many times as long it takes; the worse of both."""
        return max(
            self.write_ms / max(before.write_ms, RATIO_FLOOR_MS), self.read_ms / max(before.read_ms, RATIO_FLOOR_MS)
        )

    def __str__(self) -> str:
        return f"write {self.write_ms:.2f} ms (p99 {self.write_p99_ms:.1f}), read {self.read_ms:.2f} ms"


def _measure(
    daemon: Daemon, alone: Daemon, bystander: RawAgent, beside: RawAgent, samples: int
) -> tuple[Latency, Latency]:
    """Of the daemon under load and of one that has nothing to do, by turns: what else the machine does is alike."""
    taken: dict[RawAgent, tuple[list[float], list[float]]] = {bystander: ([], []), beside: ([], [])}
    with Writers(daemon), Writers(alone):
        for number in range(samples):
            for agent, (writes, reads) in taken.items():
                began_s = time.perf_counter()
                agent.write("set", key="bystander", value=number)
                written_s = time.perf_counter()
                agent.call("get", key="bystander")
                reads.append(time.perf_counter() - written_s)
                writes.append(written_s - began_s)
    return _latency(*taken[bystander]), _latency(*taken[beside])


def _latency(writes: list[float], reads: list[float]) -> Latency:
    p99 = sorted(writes)[int(len(writes) * 0.99)]
    return Latency(statistics.median(writes) * 1000, statistics.median(reads) * 1000, p99 * 1000)


def _refusals(daemon: Daemon, bystander: RawAgent, scale: Scale) -> list[str]:
    """What is too much is refused in words, and others do not notice."""
    wrong = []
    try:
        bystander.write("set", key="huge", value=bytes(MIB + 1))
        wrong.append("a value over 1 MiB was taken")
    except RawError as error:
        if error.code != "too_large":
            wrong.append(f"a value over 1 MiB is {error}")
    kept: list[RawAgent] = []
    try:
        kept.extend(daemon.raw("one-too-many") for _ in range(30 if scale.agents else 0))
        if scale.agents:
            wrong.append("more agents than agents_max were taken")
    except RawError as error:
        if error.code != "quota_exceeded" or "agents_max" not in str(error):
            wrong.append(f"an agent too many is refused with: {error}")
    finally:
        for each in kept:
            each.close()
    if scale.spaces >= SPACES_MAX:
        try:
            bystander.call("space_create", name="one-too-many")
            wrong.append(f"more than {SPACES_MAX:,} spaces were made")
        except RawError as error:
            if error.code != "quota_exceeded":
                wrong.append(f"a space too many is refused with: {error}")
    bystander.write("set", key="after", value=1)
    return wrong


def _restarted(daemon: Daemon, bystander: RawAgent) -> str:
    bystander.close()
    daemon.kill()
    began_s, seen = time.monotonic(), len(daemon.log_lines())
    daemon.start(wait=False)
    daemon.wait_ready(START_S_MAX, after=seen)
    took_s = time.monotonic() - began_s
    return f"started again after kill -9 in {took_s:.1f} s, {_rss_bytes(daemon) / MIB:.0f} MiB"


def _rss_bytes(daemon: Daemon) -> int:
    return int(Path(f"/proc/{daemon.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _raise_open_files_max() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
