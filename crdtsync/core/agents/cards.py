"""Cards: what an agent shows to all hosts while it is connected. Nothing of it is stored, here or elsewhere.

For example, ``show`` puts who an agent is and what it does under ``presence/7f3a``, and ``shown`` on any host lists it.
When the connection ends, or the daemon does, the card is gone. Rights are those of the key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.core.agents.space_requests import writable
from crdtsync.errors import InvalidRequest, QuotaExceeded, TooLarge
from crdtsync.wire.limits import check_agent_name, check_key
from crdtsync.wire.peer.gossip import CARD_BYTES_MAX, CARDS_TOLD_MAX, ToldCard

if TYPE_CHECKING:
    from crdtsync.core.access.agent import Agent
    from crdtsync.core.agents.dispatcher import Dispatcher
    from crdtsync.core.kinds.arguments import Arguments

CARDS_OF_CONNECTION_MAX = 100
"""Cards that one connection shows."""
CARDS_BYTES_MAX = 256 * 1024
"""All cards of a node, with their keys: they go to peers together."""


class AgentCards:
    """The cards of all connections."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._by_conn: dict[int, dict[tuple[str, str], ToldCard]] = {}

    def show(self, agent: Agent, _request: int, args: Arguments) -> dict[str, object]:
        """Show ``value`` under ``key`` in place of what this connection showed there; without a value, nothing."""
        replica = writable(self._dispatcher.replica_of(agent, args))
        place = (replica.name, check_key(args.get("key")))
        value = args.get("value")
        cards = self._by_conn.setdefault(agent.conn, {})
        card = None
        if value is not None:
            if type(value) is not bytes:
                raise InvalidRequest("value must be packed, as that of set is")
            if len(value) > CARD_BYTES_MAX:
                raise TooLarge(f"a card has {CARD_BYTES_MAX:,} bytes at most, not {len(value):,}")
            card = ToldCard(*place, check_agent_name(args.get("agent", agent.name)), value)
            if card != cards.get(place):
                self._check_room(cards, card)
                cards[place] = card
                self._tell()
        elif cards.pop(place, None) is not None:
            self._tell()
        return {}

    def shown(self, agent: Agent, _request: int, args: Arguments) -> dict[str, object]:
        """All cards under ``prefix`` that the agent may read, on all nodes that can be reached."""
        dispatcher = self._dispatcher
        replica = self._dispatcher.replica_of(agent, args)
        prefix, limit = str(args.get("prefix", "")), dispatcher.authorizer.limit_of(agent, replica.name)
        found = [
            {"key": card.key, "agent": card.agent, "node": node, "value": card.value}
            for node, card in dispatcher.sync.cards.shown()
            if card.space == replica.name
            and card.key.startswith(prefix)
            and (limit is None or limit.may_read(card.key))
        ]
        return {"cards": found}

    def _check_room(self, cards: dict[tuple[str, str], ToldCard], card: ToldCard) -> None:
        place = (card.space, card.key)
        others = [one for of_conn in self._by_conn.values() for one in of_conn.values() if one is not cards.get(place)]
        bytes_used = sum(len(one.key) + len(one.value) for one in (*others, card))
        is_full = len(others) >= CARDS_TOLD_MAX or bytes_used > CARDS_BYTES_MAX
        if is_full or (place not in cards and len(cards) >= CARDS_OF_CONNECTION_MAX):
            raise QuotaExceeded(
                f"a connection shows {CARDS_OF_CONNECTION_MAX} cards at most, and a node {CARDS_TOLD_MAX:,} of "
                f"{CARDS_BYTES_MAX // 1024} KiB together"
            )

    def move(self, conn: int, to: int) -> None:
        """The same client has attached again."""
        cards = self._by_conn.pop(conn, None)
        if cards:
            self._by_conn[to] = cards

    def ended(self, conn: int) -> None:
        """A connection is gone, and with it its cards."""
        if self._by_conn.pop(conn, None):
            self._tell()

    def _tell(self) -> None:
        cards = tuple(card for _, of_conn in sorted(self._by_conn.items()) for _, card in sorted(of_conn.items()))
        self._dispatcher.sync.cards.set_own(cards, self._dispatcher.node.now_ms)
