"""Gossip: what each node tells all others of itself, over others where it is not connected to them.

For example, the disk of host-b is full. Host-b says so in HEALTH, and whoever looks at ``crdtsync cluster status`` on
host-a sees it there, with the versions and alarms of all others.

Another example: ann on host-a is a critic and reads. Host-a tells of her card in CARDS, and ``crdtsync who`` shows it
on host-b. When her connection ends, host-a tells which cards are left there. Once host-a is gone, so are its cards.

A third one: a resolver for ``plan/**`` is attached to host-a, and another to host-b. Both hosts say so in RESOLVERS.
When a conflict comes up in ``plan/goal``, the host with the lower id asks its resolver, and the other one waits as long
as that resolver may take. So one of them is asked and not all.
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
    Number,
    Octets,
    Several,
    SpaceName,
    Text,
)

HEALTH = "health"
"""The feature of a node that tells how it is."""
ALARMS_TOLD_MAX = 32


class ToldAlarm(NamedTuple):
    """An alarm that is raised there. Its message stays there: it may name what not every member may know.

    :param code: the code of the alarm
    :param since_ms: since when, in ms since 1970
    """

    code: Text
    since_ms: Count


@message
class Health(Message):
    """Say how a node is, in place of what was said of it before.

    ``[22, node, told_ms, version, state, data_bytes, free_bytes, [[code, since_ms], …]]``

    The node is the sender itself, or one that the sender hears of and the receiver is not connected to. If two messages
    are about one node, the one that was made later counts.

    :param node: the node that this is about
    :param told_ms: when that node made this, by its own clock, in ms since 1970
    :param version: the version that it runs
    :param state: ``ready``; ``read-only``: its disk is full
    :param data_bytes: about how much its database takes
    :param free_bytes: about how much is free on its disk
    :param alarms: what is raised there, once for each code
    """

    TYPE = 22
    FEATURE = HEALTH

    node: NodeId
    told_ms: Count
    version: Text
    state: Text
    data_bytes: Count = 0
    free_bytes: Count = 0
    alarms: Annotated[tuple[ToldAlarm, ...], Several(ALARMS_TOLD_MAX)] = ()


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


RESOLVERS = "resolvers"
"""The feature of a node that tells which resolvers are attached to it."""
RESOLVERS_PATTERNS_MAX = 256
"""Patterns of the resolvers of a node."""
RESOLVERS_KEYS_MAX = 256
"""Keys that a node names as being worked on by its resolvers, and as many that these cannot settle."""
RESOLVER_TAKEOVER_MS_MAX = 3600 * 1000
"""How long a resolver may take over one conflict."""

TakeoverMs = Annotated[int, Number("takeover", RESOLVER_TAKEOVER_MS_MAX)]


class ResolvedPattern(NamedTuple):
    """That somebody resolves conflicts of such keys, and how long one answer may take.

    :param space: the space
    :param pattern: the pattern of the keys
    :param takeover_ms: after so many ms without an answer the next node asks its own resolver
    """

    space: SpaceName
    pattern: KeyText
    takeover_ms: TakeoverMs


class HandledKey(NamedTuple):
    """A conflict that resolvers of a node are at work on.

    :param space: the space
    :param key: the key
    :param asked: how many resolvers have been asked by now; 0: none of them can settle it
    """

    space: SpaceName
    key: KeyText
    asked: Count


@message
class Resolvers(Message):
    """Say all that there is to say about the resolvers of one node, in place of what was said of it before.

    ``[10, node, [[space, pattern, takeover_ms], …], [[space, key, asked], …]]``

    The node is the sender itself, or one that the sender hears of and the receiver is not connected to.

    :param node: the node that the resolvers are attached to
    :param patterns: which conflicts its resolvers settle; none: no resolvers are attached any more
    :param keys: the conflicts that they are at work on
    """

    TYPE = 10
    FEATURE = RESOLVERS

    node: NodeId
    patterns: Annotated[tuple[ResolvedPattern, ...], Several(RESOLVERS_PATTERNS_MAX)] = ()
    keys: Annotated[tuple[HandledKey, ...], Several(RESOLVERS_KEYS_MAX)] = ()
