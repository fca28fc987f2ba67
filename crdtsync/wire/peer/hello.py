"""Introductions: the first message of either side.

For example, host-a dials host-b, and both say HELLO at once, without waiting for the other. Host-b learns from it
which node this is, that both belong to one cluster, which messages host-a takes, and how far host-a has got in each
space. From then on either side knows what the other lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from crdtsync.wire.codec import pack
from crdtsync.wire.limits import CHANGE_DEPS_MAX, PROTOCOL_VERSION
from crdtsync.wire.parts import read_blob, read_count, read_text
from crdtsync.wire.peer.base import Message, message
from crdtsync.wire.peer.fields import (
    HASH_FIELD_BYTES_MAX,
    Count,
    Epoch,
    FlatFrontier,
    Hash,
    Name,
    NodeId,
    Several,
    SpaceName,
    Text,
    flat_frontier,
    read_frontier,
    read_name,
    read_space,
)

SPACES_MAX = 1_000
"""Spaces that one hello names. A node tells of 256 at most, and introduces the others one by one."""
WRITERS_MAX = CHANGE_DEPS_MAX + 20_000
"""Writers of all spaces of a hello: a node tells of one space that has as many as there may be, or of several with
20,000 at most."""
FEATURES_MAX = 100
"""Features beyond are not looked at."""


@message
class Hello(Message):
    """Say who the sender is, which messages it takes, and what it has of each space.

    ``[1, {protocol, features, node, name, cluster, database, spaces: {space: [epoch, frontier]}, time_ms}]``

    A HELLO names no more spaces than the sender has room for. The sender introduces each of the others with a WANT. A
    space that is not for every node is introduced so too, once the receiver has said who it is.

    :param node: the id of the sender
    :param name: the name of the sender, for people
    :param cluster: the id of the cluster; a node of another cluster is refused
    :param database: the id of the sender's database; another one under the same node id is a copy, or was made anew
    :param spaces: the epoch and the frontier of each space that the sender replicates
    :param time_ms: what time it is at the sender, in ms since 1970
    :param protocol: the newest protocol version that the sender speaks; a lower one than the receiver's is refused
    :param features: what the sender takes beside the messages that every node takes
    """

    TYPE = 1

    node: NodeId
    name: Name
    cluster: Hash
    database: Hash
    spaces: Annotated[Mapping[SpaceName, tuple[Epoch, FlatFrontier]], Several(SPACES_MAX)]
    time_ms: Count
    protocol: Count = PROTOCOL_VERSION
    features: tuple[Text, ...] = ()

    def encode(self) -> bytes:
        """See :class:`Message`."""
        spaces = {name: [epoch, flat_frontier(frontier)] for name, (epoch, frontier) in self.spaces.items()}
        fields = {
            "protocol": self.protocol,
            "features": list(self.features),
            "node": self.node,
            "name": self.name,
            "cluster": self.cluster,
            "database": self.database,
            "spaces": spaces,
            "time_ms": self.time_ms,
        }
        return pack([self.TYPE, fields])

    @classmethod
    def decode(cls, plain: list[Any]) -> Hello:
        """See :class:`Message`."""
        fields = plain[1]
        spaces = fields["spaces"]
        if len(spaces) > SPACES_MAX or sum(len(flat) for _, flat in spaces.values()) > 3 * WRITERS_MAX:
            raise ValueError("too many spaces, or writers in them")
        return cls(
            node=read_text(fields["node"]),
            name=read_name(fields["name"]),
            cluster=read_blob(fields["cluster"], HASH_FIELD_BYTES_MAX),
            database=read_blob(fields["database"], HASH_FIELD_BYTES_MAX),
            spaces={
                read_space(name): (read_count(epoch), read_frontier(flat)) for name, (epoch, flat) in spaces.items()
            },
            time_ms=read_count(fields["time_ms"]),
            protocol=read_count(fields["protocol"]),
            features=tuple(read_text(feature) for feature in fields["features"][:FEATURES_MAX]),
        )
