"""One run: set up, agents and faults for so long, heal, compare, judge."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from tests.harness.cluster import differences, wait_until
from tests.harness.daemon import Daemon
from tests.nemesis.agents import Agent, Claimer, Watcher
from tests.nemesis.checks import LOST, violations
from tests.nemesis.faults import Nemesis
from tests.nemesis.history import Final, History
from tests.nemesis.hosts import Hosts
from tests.nemesis.plants import Plant

Say = Callable[[str], None]
HEAL_S = 90.0


@dataclass(frozen=True)
class Plan:
    """How much of everything."""

    seconds: float
    seed: int
    agents_per_host: int = 3
    pause_s: float = 0.02
    fault_pause_s: float = 1.0
    fault_hold_s: tuple[float, float] = (0.5, 8.0)
    faults_at_once: int = 2
    hosts: str = "abcde"
    plant: Plant | None = None
    only: tuple[str, ...] = ()
    """Faults by name; for none all, or those by which the plant shows."""
    faults_max: int | None = None
    faults_min: int = 0

    @property
    def faults(self) -> tuple[str, ...]:
        """Those that are played; all for none."""
        return self.only or (self.plant.shown_by if self.plant else ())


@dataclass
class Report:
    """What came of it."""

    history: History
    found: list[str] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    heal_s: float = 0.0
    seconds: float = 0.0

    @property
    def lost(self) -> list[str]:
        """What was found of acknowledged writes that are not there."""
        return [each for each in self.found if each.startswith(LOST)]

    def lines(self) -> list[str]:
        """The figures."""
        ops = self.history.ops
        outcomes = Counter(op.outcome for op in ops if op.name != "event")
        total = f"{sum(outcomes.values()):,} operations in {self.seconds:.0f} s"
        lines = [
            f"{total}: " + ", ".join(f"{outcomes[outcome]:,} {outcome}" for outcome in ("done", "refused", "unknown")),
            f"{sum(self.faults.values())} faults: " + ", ".join(f"{n} {c}" for n, c in sorted(self.faults.items())),
            f"after the last fault all hosts were equal in {self.heal_s:.1f} s",
        ]
        by_name = Counter(op.name for op in ops if op.outcome == "done")
        lines.append("done: " + ", ".join(f"{count:,} {name}" for name, count in sorted(by_name.items())))
        whys = Counter(op.why for op in ops if op.why)
        lines.append("not done because: " + ", ".join(f"{why} {count:,}" for why, count in whys.most_common()))
        lines += [f"FOUND {each}" for each in self.found[:20]]
        lines.append(f"{len(self.found)} violations" if self.found else "no violation")
        return lines


def run(plan: Plan, say: Say = lambda _: None, keep: Path | None = None) -> Report:
    """Do it. With ``keep`` the record and the logs are put there if anything was found."""
    with Hosts(plan.hosts, plan.plant.program if plan.plant else None) as hosts:
        say(f"{len(hosts.names)} hosts are up and one cluster")
        report = _run(plan, hosts, say)
        if report.found and keep is not None:
            _keep(report, hosts, keep)
    return report


def _run(plan: Plan, hosts: Hosts, say: Say) -> Report:
    first = next(iter(hosts.daemons.values()))
    with first.client() as client:
        client.text("notes").insert(0, "\n")
        client.wait(client.last_token or "", w="all", timeout=30)
    report = Report(History())
    history, started = report.history, monotonic()
    names = [f"{host}{n}" for host in hosts.names for n in range(plan.agents_per_host)]
    sockets = {name: daemon.socket for name, daemon in hosts.daemons.items()}
    agents = [
        Agent(name, name[0], sockets, [other for other in names if other != name], history, plan.seed, plan.pause_s)
        for name in names
    ]
    watchers = [Watcher(name, sockets[name], history) for name in hosts.names]
    claimers = [Claimer(name, sockets[name], history, plan.seed) for name in hosts.names if plan.plant is None]
    nemesis = Nemesis(
        hosts, history, random.Random(plan.seed), only=plan.faults, faults_max=plan.faults_max,
        faults_min=plan.faults_min,
    )  # fmt: skip
    for name, program in nemesis.left_out().items():
        say(f"left out: {name}, which needs {program}")
    for each in [*watchers, *agents, *claimers]:
        each.start()
    if claimers:
        wait_until(lambda: history.of("hold"), what="somebody holds the claim")
    nemesis.play(plan.seconds, plan.fault_pause_s, plan.fault_hold_s, plan.faults_at_once)
    say("all faults are over")
    writers: list[Agent | Claimer] = [*agents, *claimers]
    for writer in writers:
        writer.end()
    for writer in writers:
        writer.join(60)
    report.faults = nemesis.counts
    report.found += nemesis.failures
    report.seconds = monotonic() - started
    _heal(hosts, report)
    finals = [_final(name, daemon) for name, daemon in hosts.daemons.items() if daemon.is_running]
    for watcher in watchers:
        if plan.plant is None:  # under a planted fault perhaps nobody can tell what is lost
            _wait_told(watcher, finals[0])
        watcher.end()
        watcher.join(60)
    threads: list[Agent | Claimer | Watcher] = [*writers, *watchers]
    for thread in threads:
        if thread.failure is not None or thread.is_alive():
            report.found.append(f"{thread.name} failed: {thread.failure!r}")
    report.found += violations(history, finals)
    report.found += [bug for daemon in hosts.daemons.values() for bug in _bugs(daemon)]
    return report


def _heal(hosts: Hosts, report: Report) -> None:
    started = monotonic()
    daemons = list(hosts.daemons.values())
    last = ""

    def is_equal() -> bool:
        nonlocal last
        for daemon in daemons:
            if not daemon.is_running:
                _restart(daemon, report)
        try:
            last = differences(daemons)
        except OSError as error:  # one that has just met an error of its disk
            last = repr(error)
        return not last

    try:
        wait_until(is_equal, HEAL_S, "all hosts hold the same")
    except AssertionError as error:
        report.found.append(f"not converged: {error}; {last}")
    report.heal_s = monotonic() - started


def _restart(daemon: Daemon, report: Report) -> None:
    """One that ended: only an error of its disk may do that, and it must say so."""
    daemon.wait_exit()
    last = (daemon.log_lines() or [""])[-1]
    if not last.startswith("crdtsyncd: ") or "check the disk" not in last:
        report.found.append(f"{daemon.name} is dead: {last}")
    daemon.start()


def _wait_told(watcher: Watcher, final: Final) -> None:
    def is_told() -> bool:
        return all(watcher.seen.get(f"{key}", 0) >= value for key, value in final.own.items())

    try:
        wait_until(is_told, what=f"{watcher.name} is told of everything")
    except AssertionError:
        return  # the judge says what is missing


def _final(name: str, daemon: Daemon) -> Final:
    space = daemon.space()
    with daemon.client("judge") as client:
        return Final(
            host=name,
            digest=(sorted(space["version_vector"].items()), space["digest"], space["keys"], space["entries"]),
            log=client.log("log"),
            counter=client.get("spent", 0),
            members=sorted(client.members("tags")),
            fields=client.get("board", {}),
            text=client.text("notes").read(),
            own=dict(client.items("own/")),
            siblings={
                entry.key: sorted([entry.value, *(sibling.value for sibling in entry.siblings)])
                for entry in client.entries("shared/")
            },
            alarms=daemon.alarms(),
        )


def _bugs(daemon: Daemon) -> list[str]:
    return [
        f"{daemon.name} logged a bug: {line[-1500:]}"
        for line in daemon.log_lines()
        if "Traceback" in line or '"event": "bug"' in line
    ]


def _keep(report: Report, hosts: Hosts, place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for name, daemon in hosts.daemons.items():
        (place / f"{name}.log").write_text("\n".join(daemon.log_lines()))
    with (place / "history.jsonl").open("w") as lines:
        for at_s, fault in report.history.faults:
            lines.write(json.dumps({"at_s": round(at_s, 3), "fault": fault}) + "\n")
        for op in report.history.ops:
            fields = {name: getattr(op, name) for name in op.__slots__}
            lines.write(json.dumps(fields, default=str) + "\n")
