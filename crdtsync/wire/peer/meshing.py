"""Partial meshes: what lets a node do with few connections and still reach all others.

For example, a is connected to b, b to c, c to d, and no others are. With LINKS, b tells a that b is connected to c.
With REACHED, b tells a that b reaches d over two connections. With RELAYS, a tells b to relay the changes of d at once.
When an agent on a waits until d has a change on disk, a sends ASK to b, the nodes pass the question on to d, and the
HOLDING of each comes back the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.limits import NAME_CHARS_MAX
from crdtsync.wire.peer.base import Message, message
from crdtsync.wire.peer.fields import (
    Count,
    Epoch,
    FlatVector,
    Name,
    NodeId,
    Number,
    Octets,
    Several,
    SpaceName,
    Words,
    WriterId,
)

MESH = "mesh"
"""The feature of a node that can do with few connections: it takes hints about relays, and passes on questions."""
LINKS_MAX = 10_000
RELAYS_NODES_MAX = 10_000
"""Nodes of which a peer says whether to relay their changes to it."""
ASKED_WRITERS_MAX = 256
"""Writers of which a node asks in one message how much others have on disk."""
HOLDING_NODES_MAX = 10_000
"""Nodes that one answer to ASK names."""
REACHED_NODES_MAX = 10_000
"""Nodes that a peer says it reaches over others."""
HOPS_MAX = 16
"""Over which a node is reached; one that is further away counts as not reached."""
ALL_SPACES = ""
"""In place of a space's name: all those that are for every node."""


def _read_every_space(name: Any) -> str:
    if name != ALL_SPACES:
        raise ValueError("not the name of a space, nor empty")
    return ALL_SPACES


EverySpace = Annotated[
    str, Words("every space", "an empty string: all spaces that are for every node", "", _read_every_space)
]
Hops = Annotated[int, Number("hops", HOPS_MAX)]
DatabaseId = Annotated[bytes, Octets("database id", NAME_CHARS_MAX)]


@message
class Links(Message):
    """Name the nodes that the sender is connected to.

    ``[5, [node, …]]``

    The receiver leaves it to these nodes to send their own changes to the sender.

    :param nodes: the nodes, sorted
    """

    TYPE = 5

    nodes: Annotated[frozenset[NodeId], Several(LINKS_MAX)]


@message
class Relays(Message):
    """Say whether the receiver should relay changes of some nodes to the sender at once.

    ``[13, wanted, [[space, [node, …]], …]]``

    The receiver still relays what the sender lacks for long, whatever was said.

    :param wanted: whether to relay at once
    :param nodes: the nodes, by space; up to 10,000 in all
    """

    TYPE = 13
    FEATURE = MESH

    wanted: bool
    nodes: Mapping[SpaceName | EverySpace, frozenset[NodeId]]

    def check(self) -> None:
        """See :class:`Message`."""
        if sum(map(len, self.nodes.values())) > RELAYS_NODES_MAX:
            raise ValueError("a hint about too many nodes")


class Asked(NamedTuple):
    """The writers of a space that a node asks about.

    :param space: the space
    :param epoch: the making of the space
    :param writers: the writers
    """

    space: SpaceName
    epoch: Epoch
    writers: tuple[WriterId, ...]


@message
class Ask(Message):
    """Ask all nodes how much they have on disk of what some writers wrote.

    ``[14, node, round, [[space, epoch, [writer, …]], …]]``

    The receiver passes the question on, and answers with HOLDING.

    :param node: the node that wants to know
    :param round: counts up with each time that this node asks; a node passes each round on once
    :param spaces: with up to 256 writers in all
    """

    TYPE = 14
    FEATURE = MESH

    node: NodeId
    round: Count
    spaces: Annotated[tuple[Asked, ...], Several(ASKED_WRITERS_MAX)]

    def check(self) -> None:
        """See :class:`Message`."""
        if sum(len(one.writers) for one in self.spaces) > ASKED_WRITERS_MAX:
            raise ValueError("asks for too much at once")


class Held(NamedTuple):
    """The changes of a space that a node has on disk, of the writers that were asked about.

    :param space: the space
    :param epoch: the making of the space
    :param node: the id of the node that has it
    :param name: the name of that node
    :param database: the id of that node's database
    :param vector: how far the node has each writer
    """

    space: SpaceName
    epoch: Epoch
    node: NodeId
    name: Name
    database: DatabaseId
    vector: FlatVector


@message
class Holding(Message):
    """Answer an ASK with what the sender, and others that the sender has heard from, have on disk.

    ``[15, node, [[space, epoch, node, name, database, [writer, seq, …]], …]]``

    :param node: the node that asked
    :param held: what each of them has of each space
    """

    TYPE = 15
    FEATURE = MESH

    node: NodeId
    held: Annotated[tuple[Held, ...], Several(HOLDING_NODES_MAX)]


@message
class Reached(Message):
    """Name the nodes that the sender reaches over others, and how far away they are.

    ``[16, [[node, hops], …]]``

    :param nodes: each with the number of connections on the way
    """

    TYPE = 16
    FEATURE = MESH

    nodes: Annotated[Mapping[NodeId, Hops], Several(REACHED_NODES_MAX)]
