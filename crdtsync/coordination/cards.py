"""Who is here, as it is stored: a card for each agent that shows itself, ``presence/ID``, bound to its connection.

When the connection ends, its daemon deletes the card. When a host is gone, so are its cards for those who cannot reach
it any more. A card that no daemon deletes (its daemon was killed) is over after :data:`CARD_S`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from crdtsync.client import Entry
from crdtsync.coordination.claim_record import Claim

PRESENCE = "presence/"
CARD_S = 120.0
"""So long a card stands without being renewed; it is renewed at a third of that."""
STATUS_CHARS_MAX = 500


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
    """What is stored of one that shows itself."""
    return {"role": role, "status": status[:STATUS_CHARS_MAX], "since_ms": since_ms}


def present(cards: Iterable[Entry], claims: Iterable[Claim], status: Mapping[str, Any]) -> list[Present]:
    """Who is here, by host and name; ``status``: of the daemon that was asked."""
    here = str(status["node"]["name"])
    reached = {here, *(peer["name"] for peer in status["peers"] if peer["state"] in ("connected", "indirect"))}
    held: dict[tuple[str, str], list[str]] = {}
    for claim in claims:
        held.setdefault((claim.agent, claim.node), []).append(claim.key)
    found = [one for entry in cards if (one := _shown(entry, held)) is not None and one.node in reached]
    shown = {one.agent for one in found if one.node == here}
    for agent in status["agents"]:
        name = str(agent["name"])
        if name not in shown:
            shown.add(name)
            since = datetime.fromtimestamp(agent["since"] / 1000, UTC)
            found.append(Present(name, here, None, "", since, tuple(held.get((name, here), ())), False))
    return sorted(found, key=lambda one: (one.node, one.agent, one.role or ""))


def _shown(entry: Entry, held: Mapping[tuple[str, str], list[str]]) -> Present | None:
    match entry.value:
        case {"role": role, "status": str(status), "since_ms": int(since_ms)} if role is None or isinstance(role, str):
            agent, node = entry.agent or "", entry.node or ""
            since = datetime.fromtimestamp(since_ms / 1000, UTC)
            return Present(agent, node, role, status, since, tuple(held.get((agent, node), ())), True)
    return None
