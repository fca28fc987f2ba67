"""Resolvers by node: which agents settle conflicts where, so that one of them is asked and not all.

For example, a resolver for ``plan/**`` is attached to host-a, and another to host-b. Both hosts tell their peers. When
a conflict comes up in ``plan/goal``, the host with the lower id asks its resolver, and the other one waits as long as
that resolver may take.
"""

from __future__ import annotations

from typing import Annotated

from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.peer.base import Message, message
from crdtsync.wire.peer.fields import (
    Count,
    KeyText,
    NodeId,
    Number,
    Several,
    SpaceName,
)

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
