"""Daemons that are killed or stopped in the middle of a replay, and come back."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from time import monotonic
from typing import TYPE_CHECKING

from benchmarks.replay import REQUEST_TIMEOUT_S, WRITES_IN_FLIGHT_MAX
from crdtsync.client import AsyncClient

if TYPE_CHECKING:
    from collections.abc import Collection
    from random import Random

    from benchmarks.daemons import Daemon
    from benchmarks.replay import Author, Replay
    from benchmarks.traces import Trace

KILLED_EDITS = 200
KILLED_S_MAX = 0.5
"""A killed daemon comes back when the others have made so many edits, or, for they may all wait for it, after this."""

FORGOTTEN_S_MAX = 10.0
"""A daemon that is to come back to shorter logs waits no longer than this for them."""
TRIMMED_INTERVAL_S = 0.05

KILL_DELAY_S_MAX = 0.004
"""A kill hits an author in the middle of typing at a random time in this span: about that of a commit."""


@dataclass(frozen=True, slots=True)
class Outage:
    """One daemon was away: how, while how many edits, and how long it took to come back."""

    node: str
    how: str
    at: int
    """How many transactions were acknowledged when it went."""
    edits: int
    """How many were acknowledged elsewhere while it was away."""
    in_flight: int
    """How many of its author's were not acknowledged when it went: they are sent again."""
    away_s: float
    ready_s: float
    """From the start of the process until it said that it was ready."""
    catch_up_s: float
    """From then until it held all that had been acknowledged anywhere when it was ready."""
    by_snapshot: bool
    """Whether it took a snapshot for that."""


class PlanError(Exception):
    """The trace has no place for the outage wanted; the message is a sentence."""


def kill_places(trace: Trace, times: int) -> list[tuple[int, int]]:
    """When to kill whose daemon, ``(transactions acknowledged, author)``: spread out, the authors in turn."""
    places = []
    count = len(trace.transactions)
    for number in range(1, times + 1):
        at = count * number // (times + 1)
        busy = sorted({transaction.agent for transaction in trace.transactions[at : at + max(count // 10, 1)]})
        places.append((at, busy[(number - 1) % len(busy)]))
    return places


@dataclass(frozen=True, slots=True)
class Rest:
    """A time in which nobody types at a node: after transaction ``after`` (None: from the start) until ``until``."""

    node: int
    after: int | None
    until: int

    @property
    def transactions(self) -> int:
        """How long it is."""
        return self.until - (0 if self.after is None else self.after + 1)


def longest_rest(trace: Trace, nodes: int, edits: int) -> Rest:
    """Where a daemon can be away for ``edits`` transactions.

    :raises PlanError: no author rests for so long.
    """
    rests: list[Rest] = []
    for node in range(nodes):
        edges = [None, *(transaction.index for transaction in trace.by(node)), len(trace.transactions)]
        rests += [Rest(node, after, until or 0) for after, until in pairwise(edges)]
    rest = max(rests, key=lambda rest: rest.transactions)
    if rest.transactions < edits:
        raise PlanError(
            f"no daemon can be away for {edits:,} edits of {trace.name}: the longest rest of an author is "
            f"{rest.transactions:,} of {len(trace.transactions):,} transactions"
        )
    return rest


async def kill(replay: Replay, daemon: Daemon, author: Author, at: int, rng: Random) -> Outage:
    """``kill -9`` a daemon while its author types, and start it again; the author pauses meanwhile."""
    await replay.reaches(at)
    await author.types()
    # The edits may be on their way, being stored, or stored without anybody knowing: all must come out once.
    await asyncio.sleep(rng.uniform(0, KILL_DELAY_S_MAX))
    author.may_type.clear()
    await daemon.kill()
    in_flight = author.in_flight
    gone_s, gone_at = monotonic(), replay.acknowledged
    with suppress(TimeoutError):
        async with asyncio.timeout(KILLED_S_MAX):
            await replay.reaches(min(gone_at + KILLED_EDITS, len(replay.trace.transactions)))
    outage = await _come_back(replay, daemon, "killed", gone_at, gone_s, in_flight)
    author.may_type.set()
    return outage


async def away(
    replay: Replay, daemon: Daemon, authors: Collection[Author], rest: Rest, edits: int, forgetful: Daemon | None = None
) -> Outage:
    """Stop a daemon whose author rests, for so many edits of the others, or as many as the rest still has by then.

    All pause while it stops, so that the rest is not over by then. It also stays away until ``forgetful``, if given,
    has trimmed from its log what it lacks.
    """
    await replay.tokens[rest.after or 0]
    for author in authors:
        author.may_type.clear()
    await daemon.stop()
    gone_s, gone_at = monotonic(), replay.acknowledged
    for author in authors:
        author.may_type.set()
    await replay.reaches(min(gone_at + edits, rest.until))
    if forgetful is not None:
        with suppress(TimeoutError):
            async with asyncio.timeout(FORGOTTEN_S_MAX):
                await _has_trimmed(forgetful, gone_at + WRITES_IN_FLIGHT_MAX)
    return await _come_back(replay, daemon, "stopped", gone_at, gone_s, 0)


async def _has_trimmed(daemon: Daemon, changes: int) -> None:
    """Until a daemon has trimmed so many changes, and one more, from its log; it looks about once a second."""
    async with AsyncClient(daemon.socket, agent="observer", timeout=REQUEST_TIMEOUT_S) as client:
        while True:
            (space,) = (await client.status())["spaces"]
            if sum(space["version_vector"].values()) - space["log_changes"] > changes:
                return
            await asyncio.sleep(TRIMMED_INTERVAL_S)


async def _come_back(replay: Replay, daemon: Daemon, how: str, gone_at: int, gone_s: float, in_flight: int) -> Outage:
    back_at, away_s = replay.acknowledged, monotonic() - gone_s
    taken_before = daemon.snapshots_taken()
    ready_s = await daemon.start()
    start_s, tokens = monotonic(), replay.newest_tokens()
    async with AsyncClient(daemon.socket, agent="observer", timeout=REQUEST_TIMEOUT_S) as client:
        await replay.holds(client, tokens)
    caught_up_s = monotonic() - start_s
    by_snapshot = daemon.snapshots_taken() > taken_before
    edits = back_at - gone_at
    return Outage(daemon.name, how, gone_at, edits, in_flight, away_s, ready_s, caught_up_s, by_snapshot)
