"""One run: measure, load and measure meanwhile, measure again."""

from __future__ import annotations

import os
import resource
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from crdtsyncd.loop.agent_socket import WRITE_BUFFER_BYTES_MAX

from crdtsync.core.cluster.spaces import SPACES_MAX
from crdtsync.core.watch.change_watch import DIRTY_KEYS_MAX
from crdtsync.core.watch.scheduler import DIRTY_KEYS_TOTAL_MAX
from tests.harness.daemon import PROGRAM, Daemon
from tests.harness.raw import RawAgent, RawError
from tests.load.crowd import Crowd, SilentPeer, Writers, make_keys, make_spaces, write_large
from tests.load.latency import Bystander

MIB = 1024 * 1024
AGENT_BYTES_MAX = 64 * 1024
"""What an agent that does nothing may take."""
SPACE_BYTES_MAX = 32 * 1024
KEY_BYTES_MAX = 1024
MISSED_KEY_BYTES_MAX = 128
"""What it takes to remember for one agent that it was not told of one key."""
SILENT_PEER_BYTES_MAX = 8 * MIB
"""The credit of a connection, which is 4 MiB, encoded and on its way."""
BASE_BYTES = 96 * MIB
"""The page cache of the database, values of 1 MiB on their way, and what the allocator keeps."""
START_S_MAX = 300.0
Say = Callable[[str], None]
Load = Callable[[list[float]], None]
"""Brings a load, and notes how many seconds each request of it took."""


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
            + min(self.silent * min(self.keys, DIRTY_KEYS_MAX), DIRTY_KEYS_TOTAL_MAX) * MISSED_KEY_BYTES_MAX
            + self.peers * SILENT_PEER_BYTES_MAX + self.spaces * SPACE_BYTES_MAX + self.keys * KEY_BYTES_MAX
        )  # fmt: skip


@dataclass
class Report:
    """Figures in the order in which they were taken."""

    lines: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)


def run(scale: Scale, say: Say = lambda _: None, program: str = PROGRAM) -> Report:
    """Load one daemon. ``program``: the Python that it runs; another one plants a fault."""
    _raise_open_files_max()
    report = Report()

    def tell(line: str) -> None:
        report.lines.append(line)
        say(line)

    with ExitStack() as stack:
        daemon = stack.enter_context(Daemon("loaded", agents_max=scale.agents + 20, program=program))
        alone = stack.enter_context(Daemon("alone"))
        loaded = stack.enter_context(daemon.raw("bystander", timeout_s=60))
        bystander = Bystander(loaded, stack.enter_context(alone.raw("bystander", timeout_s=60)))
        try:
            with Writers(daemon), Writers(alone):
                _measured(daemon, bystander, scale, stack, report, tell)
            report.found += _refusals(daemon, loaded, scale)
            if scale.keys or scale.spaces > 1000:
                tell(_restarted(daemon, loaded))
        except (OSError, EOFError, AssertionError, RawError) as error:
            report.found.append(f"others are not served any more: {type(error).__name__}: {error}")
        report.found += [f"a bug: {line[-1000:]}" for line in daemon.log_lines() if '"event": "bug"' in line]
    return report


def _measured(daemon: Daemon, bystander: Bystander, scale: Scale, stack: ExitStack, report: Report, tell: Say) -> None:
    """Under each load and after it."""

    def is_enough(samples: int) -> bool:
        return samples >= scale.samples

    before = bystander.measure(is_enough)
    base_bytes = _rss_bytes(daemon)
    tell(f"nothing yet: {before}; {base_bytes / MIB:.0f} MiB")
    report.found += before.found("nothing yet")
    for title, load in _loads(daemon, scale, stack):
        took_s: list[float] = []
        began_s = time.monotonic()
        during = bystander.measure_under(partial(load, took_s))
        loaded_s = time.monotonic() - began_s
        grown_bytes = _rss_bytes(daemon) - base_bytes
        tell(f"{title} ({loaded_s:.1f} s), meanwhile: {during}; grew by {grown_bytes / MIB:.0f} MiB")
        request_ms, longest_ms = (statistics.median(took_s) * 1000, max(took_s) * 1000) if took_s else (0.0, 0.0)
        if took_s:
            tell(f"    one request of it: {request_ms:.1f} ms at the median, {longest_ms:.1f} ms the longest")
        report.found += during.found(f"{title}, meanwhile", request_ms, longest_ms)
        after = bystander.measure(is_enough)
        grown_bytes = max(grown_bytes, _rss_bytes(daemon) - base_bytes)
        tell(f"    afterwards: {after}; grew by {grown_bytes / MIB:.0f} MiB")
        report.found += after.found(f"{title}, afterwards")
        if grown_bytes > scale.growth_bytes_max:
            report.found.append(f"{title}: grew by {grown_bytes:,} bytes; {scale.growth_bytes_max:,} are the bound")
    tell(f"the bound of the memory's growth is {scale.growth_bytes_max / MIB:.0f} MiB")


def _loads(daemon: Daemon, scale: Scale, stack: ExitStack) -> list[tuple[str, Load]]:
    def crowd(_: list[float]) -> None:
        stack.callback(Crowd(daemon, scale.agents, scale.silent).close)

    def peers(_: list[float]) -> None:
        for number in range(scale.peers):
            stack.callback(SilentPeer(daemon, number).close)

    loads: list[tuple[int, str, Load]] = [
        (scale.agents, f"{scale.agents:,} agents, {scale.silent} of them watch and read nothing", crowd),
        (scale.peers, f"{scale.peers} peers that never read", peers),
        (scale.large, f"{scale.large} values of 1 MiB", lambda took_s: write_large(daemon, scale.large, took_s)),
        (scale.spaces, f"{scale.spaces:,} spaces", lambda took_s: make_spaces(daemon, scale.spaces, took_s)),
        (scale.keys, f"{scale.keys:,} keys", lambda took_s: make_keys(daemon, scale.keys, took_s)),
    ]
    return [(title, load) for count, title, load in loads if count]


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
