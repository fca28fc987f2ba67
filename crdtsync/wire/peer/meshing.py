"""Partial meshes: what lets a node do with few connections and still reach all others.

For example, a is connected to b, b to c, c to d, and no others are. With LINKS, b tells a that b is connected to c.
With REACHED, b tells a that b reaches d over two connections. With RELAYS, a tells b to relay the changes of d at once.
When an agent on a waits until d has a change on disk, a sends ASK to b, the nodes pass the question on to d, and the
HOLDING of each comes back the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from crdtsync.causality import WRITER_MAX, Writer, flatten
from crdtsync.wire.codec import pack
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
    read_blob,
    read_count,
    read_name,
    read_space,
    read_text,
    read_vector,
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

EverySpace = Annotated[str, Words("every space", "an empty string: all spaces that are for every node", "")]
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

    def encode(self) -> bytes:
        """See :class:`Message`."""
        return pack([self.TYPE, sorted(self.nodes)])

    @classmethod
    def decode(cls, plain: list[Any]) -> Links:
        """See :class:`Message`."""
        if len(plain[1]) > LINKS_MAX:
            raise ValueError("too many links")
        return cls(frozenset(read_text(node) for node in plain[1]))


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

    def encode(self) -> bytes:
        """See :class:`Message`."""
        return pack([self.TYPE, self.wanted, [[space, sorted(of)] for space, of in sorted(self.nodes.items())]])

    @classmethod
    def decode(cls, plain: list[Any]) -> Relays:
        """See :class:`Message`."""
        _, wanted, nodes = plain[:3]
        if type(wanted) is not bool or sum(len(of) for _, of in nodes) > RELAYS_NODES_MAX:
            raise ValueError("not a hint about relays")
        return cls(
            wanted, {space and read_space(space): frozenset(read_text(node) for node in of) for space, of in nodes}
        )


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
    spaces: tuple[Asked, ...]

    def encode(self) -> bytes:
        """See :class:`Message`."""
        spaces = [[one.space, one.epoch, list(one.writers)] for one in self.spaces]
        return pack([self.TYPE, self.node, self.round, spaces])

    @classmethod
    def decode(cls, plain: list[Any]) -> Ask:
        """See :class:`Message`."""
        _, node, number, spaces = plain[:4]
        if len(spaces) > ASKED_WRITERS_MAX or sum(len(one[2]) for one in spaces) > ASKED_WRITERS_MAX:
            raise ValueError("asks for too much at once")
        asked = tuple(
            Asked(read_space(space), read_count(epoch), tuple(Writer(read_count(w, WRITER_MAX)) for w in writers))
            for space, epoch, writers in (one[:3] for one in spaces)
        )
        return cls(read_text(node), read_count(number), asked)


class Held(NamedTuple):
    """What a node has on disk of a space, of the writers that were asked about.

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

    def encode(self) -> bytes:
        """See :class:`Message`."""
        return pack([self.TYPE, self.node, [[*one[:5], flatten(one.vector)] for one in self.held]])

    @classmethod
    def decode(cls, plain: list[Any]) -> Holding:
        """See :class:`Message`."""
        _, node, held = plain[:3]
        if len(held) > HOLDING_NODES_MAX:
            raise ValueError("tells of too many nodes at once")
        return cls(
            read_text(node),
            tuple(
                Held(
                    read_space(space), read_count(epoch), read_text(of), read_name(name),
                    read_blob(database, NAME_CHARS_MAX), read_vector(flat),
                )
                for space, epoch, of, name, database, flat in (one[:6] for one in held)
            ),
        )  # fmt: skip


@message
class Reached(Message):
    """Name the nodes that the sender reaches over others, and how far away they are.

    ``[16, [[node, hops], …]]``

    :param nodes: each with the number of connections on the way
    """

    TYPE = 16
    FEATURE = MESH

    nodes: Annotated[Mapping[NodeId, Hops], Several(REACHED_NODES_MAX)]

    def encode(self) -> bytes:
        """See :class:`Message`."""
        return pack([self.TYPE, [list(item) for item in sorted(self.nodes.items())]])

    @classmethod
    def decode(cls, plain: list[Any]) -> Reached:
        """See :class:`Message`."""
        _, nodes = plain[:2]
        if len(nodes) > REACHED_NODES_MAX:
            raise ValueError("too many nodes")
        return cls({read_text(node): read_count(hops, HOPS_MAX) for node, hops in nodes})
