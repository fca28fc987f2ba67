"""How long one agent's writes and reads take on a loaded daemon, and beside it on one that has nothing to do."""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.harness.raw import RawAgent

RATIO_MAX = 8.0
"""So many times the median beside may a median be, under a load and after it."""
RATIO_FLOOR_MS = 1.0
"""Below that a median is noise, whatever the ratio."""
MEDIAN_SAMPLES_MIN = 20
"""With fewer a median is chance: what is over at once cannot be measured while it comes."""
P99_EXTRA_MS_MAX = 300.0
"""So much longer than beside may one write in a hundred take."""
P99_SAMPLES_MIN = 100
"""With fewer there is no one in a hundred."""


@dataclass(frozen=True)
class Latency:
    """Of a write and of a read, in milliseconds."""

    samples: int
    write_ms: float
    read_ms: float
    write_p99_ms: float

    def ratio(self, beside: Latency) -> float:
        """How many times as long it takes; the worse of both."""
        return max(
            self.write_ms / max(beside.write_ms, RATIO_FLOOR_MS), self.read_ms / max(beside.read_ms, RATIO_FLOOR_MS)
        )

    def __str__(self) -> str:
        return f"write {self.write_ms:.1f} ms (p99 {self.write_p99_ms:.1f}), read {self.read_ms:.1f} ms"


@dataclass(frozen=True)
class Both:
    """Of the loaded daemon and of the idle one beside it, taken by turns: what else the machine does is alike."""

    loaded: Latency
    beside: Latency

    def __str__(self) -> str:
        ratio = self.loaded.ratio(self.beside)
        return f"{self.loaded}, beside {self.beside}: {ratio:.1f} times ({self.loaded.samples:,} samples)"

    def found(self, when: str, request_ms: float = 0.0, longest_ms: float = 0.0) -> list[str]:
        """What is beyond the bounds. Whatever is under way holds others up for as long as one request of it takes,
        and the next one that has come meanwhile: ``request_ms`` each at the median, ``longest_ms`` at most.
        """
        wrong = []
        for name, taken_ms, beside_ms in (
            ("write", self.loaded.write_ms, self.beside.write_ms), ("read", self.loaded.read_ms, self.beside.read_ms),
        ):  # fmt: skip
            bound_ms = RATIO_MAX * max(beside_ms, RATIO_FLOOR_MS) + 2 * request_ms
            if self.loaded.samples >= MEDIAN_SAMPLES_MIN and taken_ms > bound_ms:
                wrong.append(f"{when}: a {name} takes {taken_ms:.1f} ms at the median; the bound is {bound_ms:.1f} ms")
        bound_ms = self.beside.write_p99_ms + P99_EXTRA_MS_MAX + longest_ms
        if self.loaded.samples >= P99_SAMPLES_MIN and self.loaded.write_p99_ms > bound_ms:
            taken_ms = self.loaded.write_p99_ms
            wrong.append(f"{when}: one write in 100 takes {taken_ms:.1f} ms or more; the bound is {bound_ms:.1f} ms")
        return wrong


def latency(writes_s: list[float], reads_s: list[float]) -> Latency:
    """The figures of what was taken."""
    p99 = sorted(writes_s)[math.ceil(len(writes_s) * 0.99) - 1]
    return Latency(
        len(writes_s), statistics.median(writes_s) * 1000, statistics.median(reads_s) * 1000, p99 * 1000
    )  # fmt: skip


@dataclass
class Bystander:
    """One agent on each of the two daemons, who does nothing wrong."""

    loaded: RawAgent
    beside: RawAgent
    _number: int = field(default=0)

    def measure(self, is_over: Callable[[int], bool]) -> Both:
        """One write and one read after the other, until ``is_over`` says so of the samples there are; at least one."""
        taken: list[tuple[RawAgent, list[float], list[float]]] = [(self.loaded, [], []), (self.beside, [], [])]
        samples = 0
        while not samples or not is_over(samples):
            samples += 1
            self._number += 1
            for agent, writes_s, reads_s in taken:
                began_s = time.perf_counter()
                agent.write("set", key="bystander", value=self._number)
                written_s = time.perf_counter()
                agent.call("get", key="bystander")
                reads_s.append(time.perf_counter() - written_s)
                writes_s.append(written_s - began_s)
        return Both(latency(*taken[0][1:]), latency(*taken[1][1:]))

    def measure_under(self, load: Callable[[], None]) -> Both:
        """While a load comes; what it raises is raised."""
        failures: list[BaseException] = []

        def guarded() -> None:
            try:
                load()
            except BaseException as error:  # noqa: BLE001  # raised where it is waited for
                failures.append(error)

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        both = self.measure(lambda _: not thread.is_alive())
        thread.join()
        if failures:
            raise failures[0]
        return both
