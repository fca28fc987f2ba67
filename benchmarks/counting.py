"""``./dev bench counting``: what the counters on the way of a write cost.

Measured twice. First the counters by themselves, with what a write hands them: the least of many rounds, which is what
they take when nothing disturbs. Then whole writes with and without them in short turns, in processor time of the thread
and without the disk; the difference of neighbouring turns, for the machine's mood changes more slowly than the turns.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path
from random import SystemRandom
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from unittest.mock import patch

import click
from crdtsyncd.storage.database import Store
from crdtsyncd.telemetry.commit_histogram import Durations
from crdtsyncd.telemetry.turn_times import TurnTimes

from crdtsync.core import interface, node
from crdtsync.core.crdt.entries import Entries
from crdtsync.core.diagnostics import counters
from crdtsync.core.identity import LOOPBACK_CLUSTER, Identity
from crdtsync.core.space import Applied
from crdtsync.wire.codec import pack

TURN_WRITES = 100
LOOP_CALLS = 2000
LOOPS = 200


class Writer:
    """One agent of one node, without sockets; nothing is committed but the beginning."""

    def __init__(self, place: Path) -> None:
        self._store = Store(place / "data", place)
        identity = Identity(self._store.node, "bench", LOOPBACK_CLUSTER, self._store.database, "0", os.getpid())
        self.node = node.Node(identity, self._store, SystemRandom(), lambda *_args, **_fields: None, _now())
        self._number = 0
        self.node.step(interface.AgentOpened(1, 0, 0), _now())
        hello = {"protocol": 1, "client": os.urandom(16), "agent": "bench", "space": "default"}
        ready = self._ask("hello", hello)
        self._store.commit(ready.persist)

    def write(self, count: int) -> float:
        """Processor time of a write, in µs."""
        started_ns = time.thread_time_ns()
        for _ in range(count):
            self._ask("set", {"key": f"key/{self._number % 1000}", "value": b"\x01", "n": self._number})
        return (time.thread_time_ns() - started_ns) / count / 1000

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    def _ask(self, operation: str, arguments: dict[str, object]) -> interface.Ready:
        self._number += 1
        self.node.step(interface.AgentFrame(1, pack([self._number, operation, arguments])), _now())
        ready = self.node.ready()
        self.node.advance()
        assert ready.replies
        return ready


def _now() -> interface.Now:
    return interface.Now(time.time_ns() // 1_000_000, time.monotonic())


def alone_us(work: Callable[[], object]) -> float:
    """The least that a call takes, in µs, without the loop around it."""
    return _least_us(work) - _least_us(lambda: None)


def _least_us(work: Callable[[], object]) -> float:
    least_ns = 1 << 62
    for _ in range(LOOPS):
        started_ns = time.thread_time_ns()
        for _ in range(LOOP_CALLS):
            work()
        least_ns = min(least_ns, time.thread_time_ns() - started_ns)
    return least_ns / LOOP_CALLS / 1000


def counters_us(writer: Writer) -> dict[str, float]:
    """What each counter takes of a write, in µs."""
    requests, commits, counted = writer.node.dispatcher.requests, Durations(), counters.Counts()
    seen: list[tuple[Entries, list[Applied]]] = []
    with patch.object(counters.Counts, "note", lambda _self, entries, applied: seen.append((entries, list(applied)))):
        writer.write(1)
    ((entries, applied),) = seen

    def request() -> None:
        if "set" in requests:
            requests["set"] += 1

    turns, event, clock = TurnTimes(lambda _hold: None), interface.Tick(), time.monotonic

    def turn() -> None:  # as the driver does it, but that it has the time of its first event anyway
        if not turns.since_s:
            turns.since_s = clock()
        turns.events.append(event)
        turns.has_turn = True
        turns.stepped_s = turns.readied_s = turns.committed_s = turns.clock()
        turns.readied_s = turns.committed_s = turns.clock()
        turns.committed_s = turns.clock()
        turns.over("short", None)

    return {
        "requests": alone_us(request),
        "changes and conflicts": alone_us(lambda: counted.note(entries, applied)),
        "commit times": alone_us(lambda: commits.note(0.000_21)),
        "turn times": alone_us(turn) - alone_us(clock),
    }


def differences_us(writer: Writer, turns: int) -> list[float]:
    """By how much a write is longer with its changes counted than without, in neighbouring turns."""
    found = []
    for number in range(turns):
        taken = {}
        for is_counted in (number % 2 == 0, number % 2 == 1):  # each first in turn
            if is_counted:
                taken[True] = writer.write(TURN_WRITES)
            else:
                with patch.object(counters.Counts, "note", lambda *_args: None):
                    taken[False] = writer.write(TURN_WRITES)
        found.append(taken[True] - taken[False])
    return found


@click.command()
@click.option("--turns", default=200, show_default=True, help=f"Turns of {TURN_WRITES} writes of each.")
@click.option("--check", is_flag=True, help="Exit status 1 if the counters take 2 µs of a write or more.")
def main(turns: int, check: bool) -> None:
    """Measure what the counters of the metrics cost a write."""
    with TemporaryDirectory(prefix="crdtsync-bench-") as place:
        writer = Writer(Path(place))
        writer.write(2000)
        gc.collect()
        gc.disable()
        alone = counters_us(writer)
        differences = differences_us(writer, turns)
        whole = writer.write(2000)
        writer.close()
    for name, cost_us in alone.items():
        print(f"{name}: {cost_us:.2f} µs")
    print(f"in all {sum(alone.values()):.2f} µs of a write")
    first, _, last = quantiles(differences, n=4)
    print(
        f"as a check: of {whole:.0f} µs in the core, {median(differences):+.1f} µs with changes counted than without "
        f"(half of {turns} turns between {first:+.1f} and {last:+.1f}); load {os.getloadavg()[0]:.1f}"
    )
    if check and sum(alone.values()) >= 2:
        raise SystemExit(1)
