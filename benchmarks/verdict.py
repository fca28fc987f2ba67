"""Whether every node ended with the text that the trace says, and with the same state as the others."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

from benchmarks.editor import rebuilt
from benchmarks.replay import KEY, REQUEST_TIMEOUT_S, Inbox, ReplayError
from crdtsync.client import AsyncClient

if TYPE_CHECKING:
    from benchmarks.daemons import Daemon, Daemons
    from benchmarks.replay import Replay

_CONTEXT_CHARS = 30


@dataclass(slots=True)
class Verdict:
    """What was found on the nodes. No differences: all is as it must be."""

    characters: int = 0
    document_bytes: int = 0
    """The edits of the text as stored, on the node that has most."""
    states: int = 0
    """How many nodes no longer had all edits one by one, and showed a state of the text instead of the oldest."""
    log_bytes: int = 0
    """Of the log, on the node that has most."""
    settled_s: float = 0.0
    """From the last acknowledgement until every node held everything."""
    differences: list[str] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)


async def judge(replay: Replay, fleet: Daemons, expected: str) -> Verdict:
    """Wait until all nodes hold everything, then compare them with each other and with what the text must be."""
    verdict = Verdict(characters=len(expected))
    tokens = replay.newest_tokens()
    spaces: list[tuple[str, dict[str, Any]]] = []
    for daemon in fleet.daemons:
        async with AsyncClient(daemon.socket, agent="judge", timeout=REQUEST_TIMEOUT_S) as client:
            await replay.holds(client, tokens)
            verdict.settled_s = max(verdict.settled_s, monotonic() - replay.ended_s)
    for daemon in fleet.daemons:
        async with AsyncClient(daemon.socket, agent="judge", timeout=REQUEST_TIMEOUT_S) as client:
            await _compare_text(replay, daemon, client, expected, verdict)
            status = await client.status()
        verdict.differences += [f"{daemon.name} logged a bug: {line}" for line in daemon.bugs()]
        spaces.append((daemon.name, next(space for space in status["spaces"] if space["name"] == "default")))
        verdict.alarms += [f"{daemon.name}: {alarm['code']}: {alarm['message']}" for alarm in status["alarms"]]
    verdict.document_bytes = max(space["document_bytes"] for _, space in spaces)
    verdict.log_bytes = max(space["log_bytes"] for _, space in spaces)
    compare_state(spaces, verdict)
    return verdict


async def _compare_text(replay: Replay, daemon: Daemon, client: AsyncClient, expected: str, verdict: Verdict) -> None:
    """The same text must come of every way to ask for it, and every edit be there once."""
    text = client.text(KEY)
    inbox = Inbox(replay, text)
    found: dict[str, object] = {"get": await client.get(KEY), "read": await text.read()}
    try:
        found["all updates"] = rebuilt(await inbox.fetch())
    except ReplayError as error:
        verdict.differences.append(f"{daemon.name}: {error}")
    else:
        verdict.states += inbox.states
        lost = sum(not inbox.holds(transaction.index) for transaction in replay.trace.transactions)
        if lost:
            verdict.differences.append(
                f"{daemon.name}: the edits of {lost:,} transactions are missing from its updates"
            )
    for way, content in found.items():
        if content != expected:
            verdict.differences.append(f"{daemon.name}, by {way}: {first_difference(content, expected)}")


def compare_state(spaces: list[tuple[str, dict[str, Any]]], verdict: Verdict) -> None:
    """Whether all nodes are in the same state, and none has anything left to settle."""
    for name in ("version_vector", "digest", "keys", "entries"):
        values = Counter(str(space[name]) for _, space in spaces)
        if len(values) > 1:
            listed = "; ".join(f"{node}: {space[name]}" for node, space in spaces)
            verdict.differences.append(f"the nodes differ in {name}: {listed}")
    for node, space in spaces:
        for name in ("siblings", "pending_changes"):
            if space[name]:
                verdict.differences.append(f"{node} has {space[name]:,} {name.replace('_', ' ')}, and should have none")


def first_difference(found: object, expected: str) -> str:
    """Where a text first departs from what it must be, with some of what is around."""
    if not isinstance(found, str):
        return f"{found!r:.60} instead of a text"
    at = next((i for i, (one, other) in enumerate(zip(found, expected, strict=False)) if one != other), None)
    if at is None:
        at = min(len(found), len(expected))
    start = max(0, at - _CONTEXT_CHARS)
    shown = [repr(text[start : at + _CONTEXT_CHARS]) for text in (found, expected)]
    return (
        f"{len(found):,} characters, and should be {len(expected):,}; the first difference is at {at:,}: "
        f"{shown[0]} instead of {shown[1]}"
    )
