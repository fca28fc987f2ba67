"""Claims in the shared state, and which of two counts: the same answer on every host, whatever the clocks.

A claim on ``task/42`` is a register ``claims/task/42``. It begins as an *ask*. When every host that can be reached has
that, and none has another claim, whoever asked holds the key. It writes down that it is *held* only if it goes on to
hold it: an ask stands for some seconds. Two claims can be there at once, as siblings: two hosts asked at the same
moment, or were cut off from each other. Then held comes before ask, and among equals the highest fence: the later one,
so that whatever has seen the higher number may refuse the lower one.

Nobody compares a clock with another host's. A claim is over when it is deleted, or when whoever wants it has watched it
for its whole ``ttl`` by its own clock and no renewal came (:class:`Patience`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from crdtsync.client import Entry
from crdtsync.errors import ClaimHeld, InvalidRequest

PREFIX = "claims/"
KEY_BYTES_MAX = 1024 - len(PREFIX)
"""Bytes of a key that is claimed."""
ASK, HELD = "ask", "held"
FORGOTTEN_S = 24 * 3600.0
"""So long beyond ten times its ``ttl`` the record of a claim is kept that nobody renews and nobody else wants."""
WATCHED_MAX = 10_000
"""Claims of others of which one client remembers since when it has seen them."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of ``key``. ``fence``: only grows from claim to claim; 0: several were asked for at once.

    ``agent``, ``node``: who, and on which host; ``ttl``: in seconds; ``since``: when it was renewed last, by the clock
    of its host; ``is_held``: else it was asked for just now, and may be held or refused. ``crossed``: others that hold
    it at the same time, since their hosts are or were cut off.
    """

    key: str
    id: str
    agent: str
    node: str
    fence: int
    ttl: float
    since: datetime | None
    is_held: bool
    dot: str
    crossed: tuple[Claim, ...] = ()

    @property
    def rank(self) -> tuple[bool, int, list[int]]:
        """The highest one counts."""
        since_ms = 0 if self.since is None else round(self.since.timestamp() * 1000)
        return self.is_held, self.fence or since_ms, [int(part) for part in self.dot.split(".")]


def path_of(key: object) -> str:
    """Where the claim on a key is kept; :class:`~crdtsync.errors.InvalidRequest` for what cannot be one."""
    if not isinstance(key, str) or not key:
        raise InvalidRequest(f"a claim needs a key that says what is claimed, such as task/42, not {key!r}")
    size = len(key.encode("utf-8", "replace"))
    if size > KEY_BYTES_MAX:
        raise InvalidRequest(f"what is claimed has at most {KEY_BYTES_MAX:,} bytes, not {size:,}")
    return PREFIX + key


def record(state: str, identity: str, ttl: float, fence: int) -> dict[str, Any]:
    """The stored record of a claim."""
    return {"state": state, "id": identity, "ttl": ttl, "fence": fence}


def kept_s(ttl: float) -> float:
    """How long its record is kept without renewal."""
    return 10 * ttl + FORGOTTEN_S


def claims_in(entry: Entry | None) -> list[Claim]:
    """The claims on one key, the one that counts first. Values that are no claims are passed over."""
    if entry is None:
        return []
    found = [claim for part in (entry, *entry.siblings) if (claim := _claim(part)) is not None]
    if len(found) == 1 and not entry.siblings and not found[0].is_held:
        return [replace(found[0], fence=entry.clock)]
    return sorted(found, key=lambda claim: claim.rank, reverse=True)


def listed(entry: Entry) -> Claim | None:
    """The claim on one key that counts, with those that are held at the same time; None: there is none."""
    found = claims_in(entry)
    return replace(found[0], crossed=tuple(claim for claim in found[1:] if claim.is_held)) if found else None


def _claim(entry: Entry) -> Claim | None:
    match entry.value:
        case {
            "state": "ask" | "held" as state,
            "id": str(identity),
            "ttl": int() | float() as ttl,
            "fence": int(fence),
        }:
            key = entry.key.removeprefix(PREFIX)
            agent, node, dot = entry.agent or "", entry.node or "", entry.dot or "0.0.0"
            return Claim(key, identity, agent, node, fence, float(ttl), entry.time, state == HELD, dot)
    return None


class Patience:
    """Since when one client has seen each claim of others, by its own clock: a renewal makes a claim another one."""

    def __init__(self) -> None:
        self._since_s: dict[str, tuple[str, float]] = {}

    def left_s(self, claim: Claim, now_s: float) -> float:
        """How long a claim stands yet unless it is renewed; 0: it is over."""
        dot, since_s = self._since_s.get(claim.key + "\0" + claim.id, ("", now_s))
        if dot != claim.dot:
            if len(self._since_s) >= WATCHED_MAX:
                self._since_s.clear()
            self._since_s[claim.key + "\0" + claim.id] = claim.dot, now_s
            since_s = now_s
        return max(0.0, since_s + claim.ttl - now_s)

    def standing(self, claims: Iterable[Claim], now_s: float) -> list[Claim]:
        """Those that are not over."""
        return [claim for claim in claims if self.left_s(claim, now_s) > 0]


def refusal(key: str, claims: Sequence[Claim]) -> ClaimHeld:
    """The answer to an agent that comes too late."""
    first = claims[0] if claims else None
    if first is None:
        return ClaimHeld(f"{key!r} was claimed by somebody else at the same moment: try again", key=key)
    doing = "is held by" if first.fence else "is just being claimed by"
    return ClaimHeld(
        f"{key!r} {doing} {first.agent} on {first.node}: wait for it, or take something else",
        key=key, agent=first.agent, node=first.node, fence=first.fence,
    )  # fmt: skip
