"""Cards: what agents show to all hosts while they are connected, and nobody stores.

For example, ann on host-a is a critic and reads. Host-a tells its peers of her card, and ``crdtsync who`` shows it on
host-b. Her connection ends: host-a tells what cards are left there. Host-a is gone: so are its cards.
"""

from __future__ import annotations

from typing import Annotated

from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.peer.base import Message, message
from crdtsync.wire.peer.fields import (
    Count,
    KeyText,
    Name,
    NodeId,
    Octets,
    Several,
    SpaceName,
    Text,
)

CARDS = "cards"
"""The feature of a node that tells of its agents' cards."""
CARDS_TOLD_MAX = 1000
"""Cards that are shown on one node."""
CARD_BYTES_MAX = 2048
"""Bytes of the value of a card."""

CardValue = Annotated[bytes, Octets("card", CARD_BYTES_MAX)]


class ToldCard(NamedTuple):
    """The card that one agent shows.

    :param space: the space
    :param key: under which key of it
    :param agent: who
    :param value: what, a value as it is stored
    """

    space: SpaceName
    key: KeyText
    agent: Text
    value: CardValue


@message
class Cards(Message):
    """Say which cards the agents of a node show, in place of what was said of them before.

    ``[27, node, name, told, [[space, key, agent, value], …]]``

    The node is the sender itself, or one that the sender hears of and the receiver is not connected to. If two messages
    are about one node, the one with the higher ``told`` counts. Cards of spaces that the receiver lacks are left out.

    :param node: the node that the agents are attached to
    :param name: what that node is called
    :param told: grows with each word of that node: when it was made, by its own clock, in ms since 1970
    :param cards: what they show
    """

    TYPE = 27
    FEATURE = CARDS

    node: NodeId
    name: Name
    told: Count
    cards: Annotated[tuple[ToldCard, ...], Several(CARDS_TOLD_MAX)] = ()
