"""Which spaces there are, as the cluster's records say: their epoch, and the nodes that may hold them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from crdtsync.causality import SEQ_MAX, VersionVector, Writer, flatten, missing
from crdtsync.core.cluster.records import RecordType
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.limits import CHANGE_DEPS_MAX
from crdtsync.wire.tokens import VERSION_DOTS_MAX

DEFAULT_SPACE = "default"
EPOCH_STEP_MAX = 1 << 20
SPACE_NODES_MAX = 1000
"""Nodes that the record of one space may name."""


class SpaceRecord(NamedTuple):
    """The state of one space.

    ``nodes``: the ids of those that may hold it, in order; None: all. ``time_ms`` and ``agent``: when, and by whom it
    came about. ``dropped``: which epoch was dropped last, and what the node that did it held of that, if it did.
    """

    epoch: int
    exists: bool
    nodes: tuple[str, ...] | None
    time_ms: int
    agent: str
    dropped: tuple[int, VersionVector] | None = None

    def unseen(self, epoch: int, vector: VersionVector) -> int | None:
        """How many changes held of an earlier epoch were not known where it was dropped; None: nobody can say."""
        if self.dropped is None or self.dropped[0] != epoch:
            return None
        return missing(self.dropped[1], vector)

    def admits(self, node: str) -> bool:
        """Whether a node may hold the space."""
        return self.nodes is None or node in self.nodes


INITIAL = SpaceRecord(0, True, None, 0, "")
"""The record of ``default`` while nobody has written one."""


def created(before: SpaceRecord | None, nodes: Sequence[str] | None, time_ms: int, agent: str) -> SpaceRecord:
    """The record of a space that is made anew.

    Two hosts may make one at once. Where both want the same nodes, the epoch is the same, and what is written merges.
    Otherwise the epochs differ, since that of a space for some nodes depends on which: one of the two wins as a whole,
    and nothing that was written for some nodes ever gets to others.
    """
    epoch = (0 if before is None else before.epoch) + 1
    chosen = None if nodes is None else tuple(sorted(set(nodes)))
    if chosen is not None:
        name = blake2b("\n".join(chosen).encode(), digest_size=8, person=b"crdtsync-nodes").digest()
        epoch += 1 + int.from_bytes(name, "big") % (EPOCH_STEP_MAX - 1)
    return SpaceRecord(epoch, True, chosen, time_ms, agent, None if before is None else before.dropped)


def dropped(before: SpaceRecord, vector: VersionVector | None, stays: bool, time_ms: int, agent: str) -> SpaceRecord:
    """The record of a space that is dropped; ``stays``: it begins anew at once, empty."""
    if vector is not None and len(vector) > VERSION_DOTS_MAX:
        vector = None  # too much for a record: then nobody can be told what was not seen
    last = None if vector is None else (before.epoch, vector)
    return SpaceRecord(before.epoch + 1, stays, before.nodes if stays else None, time_ms, agent, last)


def making_of(name: str, record: SpaceRecord | None) -> int | None:
    """Which making of a space there is, or was last: the epoch at which it was made; None: it was never made.

    Access rules are of one making. ``default`` is made once: when it is dropped it begins anew with the rules it has.
    """
    if name == DEFAULT_SPACE:
        return 0
    if record is None:
        return None
    return record.epoch if record.exists else record.epoch - 1


def merged(one: SpaceRecord, other: SpaceRecord) -> SpaceRecord:
    """The highest epoch wins; of two records of one epoch the one that says it is gone, or has fewer nodes."""
    return max(one, other, key=_rank)


def _rank(record: SpaceRecord) -> tuple[int, bool, int, tuple[str, ...], int, str, list[int]]:
    breadth = SPACE_NODES_MAX + 1 if record.nodes is None else len(record.nodes)
    vector = [] if record.dropped is None else flatten(record.dropped[1])
    return record.epoch, not record.exists, -breadth, record.nodes or (), record.time_ms, record.agent, vector


def _read(plain: Mapping[str, Any]) -> SpaceRecord:
    nodes, last = plain["nodes"], plain.get("dropped")
    if nodes is not None and (len(nodes) > SPACE_NODES_MAX or not all(type(node) is str for node in nodes)):
        raise ValueError(nodes)
    if type(plain["exists"]) is not bool or type(plain["agent"]) is not str:
        raise ValueError(plain)
    return SpaceRecord(
        _count(plain["epoch"]),
        plain["exists"],
        None if nodes is None else tuple(sorted(nodes)),
        _count(plain["time_ms"]),
        plain["agent"],
        None if last is None else (_count(last[0]), _vector(last[1])),
    )


def _write(record: SpaceRecord) -> dict[str, Any]:
    return {
        "epoch": record.epoch,
        "exists": record.exists,
        "nodes": None if record.nodes is None else list(record.nodes),
        "time_ms": record.time_ms,
        "agent": record.agent,
        "dropped": None if record.dropped is None else [record.dropped[0], flatten(record.dropped[1])],
    }


def _vector(flat: Sequence[Any]) -> VersionVector:
    if len(flat) % 2 or len(flat) > 2 * CHANGE_DEPS_MAX:
        raise ValueError(flat)
    return {Writer(_count(flat[at])): _count(flat[at + 1]) for at in range(0, len(flat), 2)}


def _count(number: Any) -> int:
    if type(number) is not int or not 0 <= number <= SEQ_MAX:
        raise ValueError(number)
    return number


SPACES = RecordType("space", read=_read, write=_write, merge=merged)
