"""What a crash harness did and found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

from tests.crash.child import Child
from tests.crash.writes import DEAD
from tests.harness.raw import RawAgent


class Life(Protocol):
    """What is done with a daemon in one of its lives."""

    @property
    def sent(self) -> Sized:
        """What was asked for."""

    @property
    def acknowledged(self) -> Sized:
        """What of it was done."""

    @property
    def refused(self) -> Sized:
        """And what was not, with a reason."""

    def live(self, agent: RawAgent, enter: Callable[[str], object]) -> bool:
        """Do it; ``enter`` is told each phase. False: the daemon is gone."""

    def wrong(self, agent: RawAgent) -> Iterable[str]:
        """How what is there differs from what was acknowledged."""


@dataclass
class Report:
    """The figures."""

    title: str
    runs: int = 0
    restarts: int = 0
    acknowledged: int = 0
    unanswered: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)
    covered: list[str] = field(default_factory=list)
    began_s: float = field(default_factory=monotonic)

    def lines(self) -> list[str]:
        """For people."""
        did = f"{self.title}: {self.runs} runs in {monotonic() - self.began_s:.0f} s, {self.restarts} restarts"
        lines = [f"{did}; {self.acknowledged:,} writes acknowledged, {self.unanswered:,} not answered"]
        lines += [f"  {count:6} {outcome}" for outcome, count in self.outcomes.most_common()]
        lines += [f"  {line}" for line in self.covered]
        lines += [f"FOUND {each}" for each in self.found[:20]]
        return [*lines, f"{len(self.found)} violations" if self.found else "no violation"]

    def add(self, other: Report) -> None:
        """Count in what another one says."""
        self.runs += other.runs
        self.restarts += other.restarts
        self.acknowledged += other.acknowledged
        self.unanswered += other.unanswered
        self.outcomes += other.outcomes
        self.found += other.found

    def progress(self, of: int) -> str:
        """For people who wait."""
        took_s = monotonic() - self.began_s
        return f"{took_s:,.0f} s: {self.runs:,} of {of:,} cases, {len(self.found)} violations"

    def check(self, child: Child, lives: Sequence[Life], where: str) -> None:
        """Hold what is there against what was acknowledged; the daemon is started if it does not run."""
        if not child.is_running():
            child.start()
            self.restarts += 1
        agent = child.attach()
        if agent is None:
            self.found.append(f"{where}: it does not start again: {child.tail()}")
            return
        with agent:
            try:
                self.found += [f"{where}: {wrong}" for each in lives for wrong in each.wrong(agent)]
                agent.write("set", key="works", value=self.runs)
            except DEAD as error:
                self.found.append(f"{where}: it does not work after the restart: {error!r}; {child.tail()}")

    def note(self, life: Life) -> None:
        """Count what a run did."""
        self.runs += 1
        self.acknowledged += len(life.acknowledged)
        self.unanswered += len(life.sent) - len(life.acknowledged) - len(life.refused)
