"""``./dev bench counting``: what the counters on the way of a write cost, by writing with and without them in turns."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from random import SystemRandom
from statistics import median
from tempfile import TemporaryDirectory
from unittest.mock import patch

import click
from crdtsyncd.commit_times import CommitTimes
from crdtsyncd.store import Store

from crdtsync.core import counts, node
from crdtsync.core.identity import LOOPBACK_CLUSTER, Identity
from crdtsync.wire.codec import pack

ROUND_WRITES = 500


class _NoRequests(dict[str, int]):
    """Counts nothing."""

    def __contains__(self, _key: object) -> bool:
        return False


class Writer:
    """One agent of one node, without sockets."""

    def __init__(self, place: Path) -> None:
        self._store = Store(place / "data", place)
        identity = Identity(self._store.node, "bench", LOOPBACK_CLUSTER, self._store.database, "0", os.getpid())
        self.node = node.Node(identity, self._store, SystemRandom(), lambda *_args, **_fields: None, _now())
        self._number = 0
        self.node.step(node.AgentOpened(1, 0, 0), _now())
        hello = {"protocol": 1, "client": os.urandom(16), "agent": "bench", "space": "default"}
        self._ask("hello", hello)

    def write(self, count: int) -> float:
        """User time of a write, in µs: what the kernel and the disk do is not in it."""
        started_s = _user_s()
        for _ in range(count):
            self._ask("set", {"key": f"key/{self._number % 1000}", "value": b"\x01", "n": self._number})
        return (_user_s() - started_s) / count * 1e6

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    def _ask(self, operation: str, arguments: dict[str, object]) -> None:
        self._number += 1
        self.node.step(node.AgentFrame(1, pack([self._number, operation, arguments])), _now())
        ready = self.node.ready()
        self._store.commit(ready.persist)
        self.node.advance()
        assert ready.replies


def _user_s() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def _now() -> node.Now:
    return node.Now(time.time_ns() // 1_000_000, time.monotonic())


def compare(rounds: int) -> tuple[float, float]:
    """µs of user time for a write with and without counting: medians over rounds that take turns."""
    with TemporaryDirectory(prefix="crdtsync-bench-") as place:
        writer = Writer(Path(place))
        requests = writer.node.desk.requests
        writer.write(2 * ROUND_WRITES)
        counted: list[float] = []
        plain: list[float] = []
        for number in range(rounds):
            for is_counted in (number % 2 == 0, number % 2 == 1):  # each first in turn
                if is_counted:
                    writer.node.desk.requests = requests
                    counted.append(writer.write(ROUND_WRITES))
                    continue
                writer.node.desk.requests = _NoRequests()
                with (
                    patch.object(counts.Counts, "note", lambda *_args: None),
                    patch.object(CommitTimes, "note", lambda *_args: None),
                ):
                    plain.append(writer.write(ROUND_WRITES))
        writer.close()
    return median(counted), median(plain)


@click.command()
@click.option("--rounds", default=40, show_default=True, help=f"Rounds of {ROUND_WRITES} writes of each.")
def main(rounds: int) -> None:
    """Write with and without the counters of the metrics, and compare the time of a write."""
    counted, plain = compare(rounds)
    print(f"with {counted:.1f} µs, without {plain:.1f} µs a write: {counted - plain:+.1f} µs")
