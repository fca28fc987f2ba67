"""Messages between peers that are not all connected to each other; see :mod:`crdtsync.wire.peer.messages`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from crdtsync.causality import WRITER_MAX, VersionVector, Writer, flatten
from crdtsync.wire.codec import pack
from crdtsync.wire.limits import NAME_CHARS_MAX
from crdtsync.wire.peer.fields import read_blob, read_count, read_name, read_space, read_text, read_vector

RELAYS_NODES_MAX = 10_000
ASKED_WRITERS_MAX = 256
HOLDING_NODES_MAX = 10_000
REACHED_NODES_MAX = 10_000
HOPS_MAX = 16
"""A node that is further away counts as not reached."""
ALL_SPACES = ""
"""In place of a space's name: all those that are for every node."""


@dataclass(frozen=True, slots=True)
class Relays:
    """Whether the receiver should relay changes of these nodes to the sender at once, by space.

    What it does not relay at once it still does when the sender lacks it for long.
    """

    wanted: bool
    nodes: Mapping[str, frozenset[str]]


class Asked(NamedTuple):
    """Of which writers of a space is asked."""

    space: str
    epoch: int
    writers: tuple[Writer, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """``node`` wants to know how much of what these writers wrote each node has on disk, and the receiver passes it on.

    ``round`` counts up with each time that it asks.
    """

    node: str
    round: int
    spaces: tuple[Asked, ...]


class Held(NamedTuple):
    """What a node has on disk of a space, of the writers that were asked for."""

    space: str
    epoch: int
    node: str
    name: str
    database: bytes
    vector: VersionVector


@dataclass(frozen=True, slots=True)
class Holding:
    """For ``node``, which asked: what the sender and others have on disk."""

    node: str
    held: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class Reached:
    """The nodes that the sender is not connected to and reaches over others, over how many connections."""

    nodes: Mapping[str, int]


MeshMessage = Relays | Ask | Holding | Reached


def encode_mesh_message(message: MeshMessage) -> bytes:
    """The message as it goes into one websocket frame."""
    match message:
        case Relays(wanted, nodes):
            return pack([13, wanted, [[space, sorted(of)] for space, of in sorted(nodes.items())]])
        case Ask(node, number, spaces):
            return pack([14, node, number, [[one.space, one.epoch, list(one.writers)] for one in spaces]])
        case Holding(node, held):
            return pack([15, node, [[*one[:5], flatten(one.vector)] for one in held]])
        case Reached(nodes):
            return pack([16, [list(item) for item in sorted(nodes.items())]])


def _relays(plain: list[Any]) -> Relays:
    _, wanted, nodes = plain[:3]
    if type(wanted) is not bool or sum(len(of) for _, of in nodes) > RELAYS_NODES_MAX:
        raise ValueError("not a hint about relays")
    return Relays(
        wanted, {space and read_space(space): frozenset(read_text(node) for node in of) for space, of in nodes}
    )


def _ask(plain: list[Any]) -> Ask:
    _, node, number, spaces = plain[:4]
    if sum(len(one[2]) for one in spaces) > ASKED_WRITERS_MAX:
        raise ValueError("asks for too much at once")
    asked = tuple(
        Asked(read_space(space), read_count(epoch), tuple(Writer(read_count(w, WRITER_MAX)) for w in writers))
        for space, epoch, writers in (one[:3] for one in spaces)
    )
    return Ask(read_text(node), read_count(number), asked)


def _holding(plain: list[Any]) -> Holding:
    _, node, held = plain[:3]
    if len(held) > HOLDING_NODES_MAX:
        raise ValueError("tells of too many nodes at once")
    return Holding(
        read_text(node),
        tuple(
            Held(
                read_space(space), read_count(epoch), read_text(of), read_name(name),
                read_blob(database, NAME_CHARS_MAX), read_vector(flat),
            )
            for space, epoch, of, name, database, flat in (one[:6] for one in held)
        ),
    )  # fmt: skip


def _reached(plain: list[Any]) -> Reached:
    _, nodes = plain[:2]
    if len(nodes) > REACHED_NODES_MAX:
        raise ValueError("too many nodes")
    return Reached({read_text(node): read_count(hops, HOPS_MAX) for node, hops in nodes})


DECODERS: Mapping[object, Callable[[list[Any]], MeshMessage]] = {13: _relays, 14: _ask, 15: _holding, 16: _reached}
