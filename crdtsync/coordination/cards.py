"""Presence: a card for each agent that shows itself. Daemons tell each other of cards and store none.

When a connection ends, its cards are gone on every host; when a host cannot be reached any more, so are those on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from crdtsync.client.values.times import moment
from crdtsync.coordination.claim_record import Claim
from crdtsync.errors import InvalidRequest

if TYPE_CHECKING:
    from crdtsync.client.values.results import Card

PRESENCE = "presence/"
RENEW_S = 10.0
"""So soon a card is shown again after its connection, or its daemon, was gone for a moment."""
STATUS_CHARS_MAX = 300


@dataclass(frozen=True, slots=True)
class Present:
    """An agent that is here: on which host, in which role, at what, since when, holding which claims.

    ``is_shown``: it shows itself with ``present``; else it is merely attached to the daemon that was asked.
    """

    agent: str
    node: str
    role: str | None
    status: str
    since: datetime | None
    claims: tuple[str, ...]
    is_shown: bool


def card(role: str | None, status: str, since_ms: int) -> dict[str, Any]:
    """The card that one shows of itself.

    :raises InvalidRequest: others could not read it.
    """
    for name, said in (("role", role), ("status", status)):
        if not isinstance(said, str) and (name, said) != ("role", None):
            raise InvalidRequest(f"{name} of an agent is a string, not {said!r}")
    return {"role": role, "status": status[:STATUS_CHARS_MAX], "since_ms": since_ms}


def present(cards: Iterable[Card], claims: Iterable[Claim], status: Mapping[str, Any]) -> list[Present]:
    """The agents that are here, by host and name; ``status``: of the daemon that was asked."""
    here = str(status["node"]["name"])
    held: dict[tuple[str, str], list[str]] = {}
    for claim in claims:
        held.setdefault((claim.agent, claim.node), []).append(claim.key)
    found = [one for shown in cards if (one := _shown(shown, held)) is not None]
    shown_here = {one.agent for one in found if one.node == here}
    for agent in status["agents"]:
        name = str(agent["name"])
        if name not in shown_here:
            shown_here.add(name)
            since = moment(agent["since"])
            found.append(Present(name, here, None, "", since, tuple(held.get((name, here), ())), False))
    return sorted(found, key=lambda one: (one.node, one.agent, one.role or ""))


def _shown(shown: Card, held: Mapping[tuple[str, str], list[str]]) -> Present | None:
    match shown.value:
        case {"role": role, "status": str(status), "since_ms": int(since_ms)} if role is None or isinstance(role, str):
            since = moment(since_ms)
            claims = tuple(held.get((shown.agent, shown.node), ()))
            return Present(shown.agent, shown.node, role, status, since, claims, True)
    return None
