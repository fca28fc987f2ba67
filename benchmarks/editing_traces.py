"""Replay concurrent editing sessions through three linked daemons, and check that every node ends with the same text.

Without --trace the session is a made-up one with emoji, combining marks, CJK and right-to-left text (see make-trace).
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import click
import uvloop

from benchmarks import make_trace, outages, reference, traces, typists
from benchmarks.daemons import DaemonError, Daemons
from benchmarks.editor import ClientIds
from benchmarks.progress import shown_progress
from benchmarks.replay import Author, Replay, ReplayError
from benchmarks.verdict import Verdict, judge
from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from benchmarks.outages import Outage
    from benchmarks.traces import Trace

NODES_MIN = 3
TIMEOUT_S = 1800.0


@dataclass(frozen=True, slots=True)
class Options:
    """How to replay."""

    kills: int = 0
    away: int = 0
    seed: int = 0
    timeout_s: float = TIMEOUT_S
    log_bytes_max: int = 0
    """The daemons' setting; so small that one who comes back must take a snapshot. 0: their default."""
    editors: bool = False
    """Whether authors type into editors, and what was typed is on disk at the end, not each edit by itself."""

    @property
    def settings(self) -> dict[str, object]:
        """Of the daemons."""
        return {"log_bytes_max": self.log_bytes_max} if self.log_bytes_max else {}


@dataclass(frozen=True, slots=True)
class Result:
    """One replay and what came of it."""

    trace: str
    transactions: int
    merges: int
    seconds: float
    """From the first edit to the last acknowledgement."""
    outages: list[Outage]
    verdict: Verdict
    changes: int
    """That the transactions were sent as."""

    @property
    def is_equal(self) -> bool:
        """Whether every node has the right text and the same state."""
        return not self.verdict.differences

    def to_json(self) -> dict[str, Any]:
        """For ``--json``."""
        verdict = asdict(self.verdict)
        outages_ = [asdict(outage) for outage in self.outages]
        return {
            "trace": self.trace,
            "transactions": self.transactions,
            "merges": self.merges,
            "seconds": self.seconds,
            "changes": self.changes,
            "edits_per_s": self.transactions / self.seconds,
            "equal": self.is_equal,
            **verdict,
            "outages": outages_,
        }

    def to_text(self) -> str:
        """For people."""
        verdict = self.verdict
        rate = self.transactions / self.seconds
        lines = [
            f"{self.trace}: {self.transactions:,} transactions ({self.merges:,} merges) in {self.seconds:.1f} s",
            f"  {rate:,.0f} edits/s; all nodes held them {verdict.settled_s * 1000:.0f} ms after the last reply",
        ]
        if self.changes < self.transactions:
            lines.append(f"  typed into editors, which sent {self.changes:,} changes")
        stored = f"document: {verdict.document_bytes:,} bytes; log: {verdict.log_bytes:,} bytes"
        lines.append(f"  text: {verdict.characters:,} characters; {stored}")
        for outage in self.outages:
            went = f"{outage.how} after {outage.at:,} transactions, with {outage.in_flight} in flight"
            back = f"{outage.edits:,} edits or {outage.away_s:.1f} s later, ready in {outage.ready_s:.2f} s"
            lines.append(f"  {outage.node} {went}")
            lines.append(f"    came back {back}, and caught up {outage.catch_up_s:.2f} s after that")
            lines += ["    by a snapshot"] * outage.by_snapshot
        lines += [f"  alarm: {alarm}" for alarm in verdict.alarms]
        lines += [f"  DIFFERENT: {difference}" for difference in verdict.differences]
        if self.is_equal:
            lines.append("  equal: text, version vectors and digests of all nodes")
        return "\n".join(lines)


async def replay(trace: Trace, options: Options, *, quiet: bool = False) -> Result:
    """Replay a trace on a new fleet.

    :raises ReplayError, DaemonError: a daemon failed.
    :raises PlanError: the trace has no place for the outage wanted.
    :raises TimeoutError: it took longer than ``options.timeout_s``.
    """
    expected = trace.end_content if trace.end_content is not None else reference.end_content(trace)
    nodes = max(NODES_MIN, trace.agents)
    if options.editors:
        return await _typed(trace, options, nodes, expected)
    kills = outages.kill_places(trace, options.kills)
    rest = outages.longest_rest(trace, nodes, options.away) if options.away else None
    async with asyncio.timeout(options.timeout_s), Daemons(nodes, options.settings) as fleet:
        shared = Replay(trace, ClientIds(Random(options.seed)))
        authors = {agent: Author(shared, agent, fleet[agent].socket) for agent in range(trace.agents)}
        happenings: list[Coroutine[Any, Any, Outage]] = [
            outages.kill(shared, fleet[agent], authors[agent], at, Random(options.seed + at)) for at, agent in kills
        ]
        if rest is not None:
            forgetful = fleet[(rest.node + 1) % nodes] if options.log_bytes_max else None
            away = outages.away(shared, fleet[rest.node], authors.values(), rest, options.away, forgetful)
            happenings.append(away)
        count = len(trace.transactions)
        with shown_progress(trace.name, count, lambda: shared.acknowledged, quiet=quiet):
            happened = await _run(list(authors.values()), happenings)
        verdict = await judge(shared, fleet, expected)
        seconds = shared.ended_s - shared.started_s
        return Result(trace.name, count, trace.merges(), seconds, happened, verdict, count)


async def _typed(trace: Trace, options: Options, nodes: int, expected: str) -> Result:
    session = typists.Session(trace, ClientIds(Random(options.seed)))
    async with asyncio.timeout(options.timeout_s), Daemons(nodes, options.settings) as fleet:
        try:
            verdict = await typists.type_all(session, fleet, expected)
        except BaseExceptionGroup as failures:
            raise _first(failures) from None
    seconds = session.ended_s - session.started_s
    return Result(trace.name, len(trace.transactions), trace.merges(), seconds, [], verdict, session.changes)


async def _run(authors: list[Author], happenings: list[Coroutine[Any, Any, Outage]]) -> list[Outage]:
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(happening) for happening in happenings]
            for author in authors:
                group.create_task(author.run())
    except BaseExceptionGroup as failures:
        raise _first(failures) from None
    return [task.result() for task in tasks]


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """One of many failures is enough to know; the others mostly follow from it."""
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


@click.command(help=__doc__)
@click.option("--trace", "paths", multiple=True, type=click.Path(path_type=Path), metavar="PATH",
              help="A concurrent trace of josephg/editing-traces, JSON or gzip. May be repeated.")  # fmt: skip
@click.option("--transactions", type=click.IntRange(1), metavar="N", help="Only the first N transactions.")
@click.option("--kill", "kills", type=click.IntRange(0), is_flag=False, flag_value=1, default=0, metavar="[TIMES]",
              help="kill -9 an author's daemon in the middle (so many times), and start it again.")  # fmt: skip
@click.option("--away", type=click.IntRange(0), default=0, metavar="N",
              help="Stop the daemon of a resting author for N edits of the others.")  # fmt: skip
@click.option("--seed", type=int, default=0, help="Of Yjs client ids and of the made-up trace.")
@click.option("--log-bytes-max", type=click.IntRange(0), default=0, metavar="BYTES",
              help="The daemons' setting: small, so that one away must take a snapshot. 0: the default.")  # fmt: skip
@click.option("--editors", is_flag=True, help="Type into editors, which send what is typed in the background.")
@click.option("--timeout", "timeout_s", type=float, default=TIMEOUT_S, metavar="SECONDS", help="Give up after this.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each trace.")
def main(
    paths: tuple[Path, ...],
    transactions: int | None,
    kills: int,
    away: int,
    seed: int,
    log_bytes_max: int,
    editors: bool,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Entry point; see the module."""
    if editors and (kills or away):
        raise click.UsageError("--editors goes without --kill and --away")
    options = Options(kills, away, seed, timeout_s, log_bytes_max, editors)
    equal = True
    for path in paths or (None,):
        try:
            trace = make_trace.make(seed) if path is None else traces.load(path)
            trace = trace if transactions is None else trace.shortened(transactions)
            result = uvloop.run(replay(trace, options))
        except TimeoutError:
            raise click.ClickException(
                f"the replay of {path or 'the made-up trace'} took over {timeout_s:.0f} s"
            ) from None
        except (traces.TraceError, outages.PlanError, ReplayError, DaemonError, CrdtSyncError) as error:
            raise click.ClickException(str(error)) from None
        click.echo(json.dumps(result.to_json()) if as_json else result.to_text())
        equal = equal and result.is_equal
    sys.exit(0 if equal else 1)
