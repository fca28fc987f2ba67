"""The cluster's own records: who belongs to it, which spaces there are, who may do what.

They live in a reserved space, ``_cluster``, that every node has and that replicates as any other does: to every peer
that this node syncs with, through partitions, by changes and by snapshots. Agents cannot reach it. A record is a
register whose key is ``<type>/<name>`` and whose value is a map; only daemons write them, each as itself.

Two nodes may write one record at once. Then there are siblings, as of every register, and what counts is what the
record's *type* makes of them: its ``merge`` is given two at a time, always in the same order on every node that holds
the same siblings. So nobody has to write anything for all to agree.

To add a type of record::

    MEMBERS = RecordType("member", read=_read_member, write=_plain_member, merge=_newer)

    cluster.put(MEMBERS, node_id, Member(...))          # in the turn under way; on disk with its commit
    member = cluster.get(MEMBERS, node_id)              # None if there is none
    cluster.on_change(MEMBERS, self._members_changed)   # called with the names of records, as soon as they changed
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from crdtsync.causality import VersionVector, Writer
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.identity import OWN_AGENT
from crdtsync.core.replica.replica import Replica
from crdtsync.errors import InvalidEncoding, NoSpace
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.change import Op, value_hash
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import CLUSTER_SPACE
from crdtsync.wire.tokens import encode_token

if TYPE_CHECKING:
    from crdtsync.core.node_context import NodeContext

R = TypeVar("R")
Told = Callable[[Collection[str]], None]


class RecordType(NamedTuple, Generic[R]):
    """One type of record, under keys that begin with ``name/``.

    ``read`` makes a record of the map that is stored; it raises ValueError, TypeError or LookupError for one that it
    cannot read, which then counts as absent. ``write`` makes the map; fields that only newer versions know are kept
    when a record is written anew. ``merge`` says what two siblings come to; it must not depend on this node or on time.
    """

    name: str
    read: Callable[[Mapping[str, Any]], R]
    write: Callable[[R], dict[str, Any]]
    merge: Callable[[R, R], R]

    @property
    def prefix(self) -> str:
        """The beginning of the keys of its records."""
        return f"{self.name}/"


class Cluster:
    """The records of ``_cluster`` as this node sees them."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self._listeners: dict[str, list[Told]] = {}

    @property
    def replica(self) -> Replica:
        """The space that holds the records."""
        return self._node.replicas[CLUSTER_SPACE]

    # -- reading ---------------------------------------------------------------------------------------------

    def get(self, kind: RecordType[R], name: str) -> R | None:
        """One record, merged of all its siblings; None: there is none that this version can read."""
        found: list[R] = []
        for plain in self._plains(kind.prefix + name):
            try:
                found.append(kind.read(plain))
            except (ValueError, TypeError, LookupError):
                continue
        return reduce(kind.merge, found) if found else None

    def point_of(self, kind: RecordType[Any], name: str) -> VersionVector:
        """The writes of a record that count: who holds them has seen it as it is here."""
        point: VersionVector = {}
        for entry in self._held(kind.prefix + name):
            point[entry.writer] = max(entry.dot.seq, point.get(entry.writer, 0))
        return point

    def names(self, kind: RecordType[R]) -> list[str]:
        """The names of all records of a type, in order, whether or not they can be read."""
        return [key[len(kind.prefix) :] for key in self.replica.entries.keys(kind.prefix) if self._held(key)]

    def all(self, kind: RecordType[R]) -> Iterator[tuple[str, R]]:
        """All records of a type that can be read, in order of name."""
        for name in self.names(kind):
            record = self.get(kind, name)
            if record is not None:
                yield name, record

    def _held(self, key: str) -> list[Entry]:
        return [entry for entry in self.replica.entries.held(key) if entry.kind == Kind.REGISTER]

    def _plains(self, key: str) -> list[dict[str, Any]]:
        """The stored values of a key, in an order that is the same everywhere."""
        plains = []
        for entry in sorted(self._held(key), key=_place):
            try:
                plain = unpack(entry.value or b"")
            except InvalidEncoding:
                continue
            if isinstance(plain, dict):
                plains.append(plain)
        return plains

    # -- writing ---------------------------------------------------------------------------------------------

    def put(self, kind: RecordType[R], name: str, record: R) -> VersionVector:
        """Write a record as this node, in place of all siblings held here. It is on disk after the turn's commit.

        Listeners for the type are told before this returns. Returns the point in ``_cluster`` of this write.

        :raises NoSpace: there is no room on this node's disk; nothing was done.
        """
        key = kind.prefix + name
        plain: dict[str, Any] = {}
        for sibling in self._plains(key):
            plain |= sibling
        value = pack(plain | kind.write(record))
        removes = tuple(entry.dot for entry in self._held(key))
        return self._commit(Op(key, None, Kind.REGISTER, value, value_hash(value), removes, None))

    def remove(self, kind: RecordType[R], name: str) -> None:
        """Remove a record, as far as this node has seen it: what another writes at the same time stays.

        For what must win over that, keep a record that says so.

        :raises NoSpace: as above.
        """
        key = kind.prefix + name
        removes = tuple(entry.dot for entry in self._held(key))
        if removes:
            self._commit(Op(key, None, Kind.REGISTER, None, None, removes, None))

    def remover(self, kind: RecordType[Any], name: str) -> str:
        """Which node's change took a record away in this turn, by name; empty: no change did."""
        key, replica = kind.prefix + name, self.replica
        rows = [row for row in replica.ledger.batch.removals if (row.space, row.key) == (replica.id, key)]
        return replica.node_of(Writer(rows[-1].writer)) if rows else ""

    def _commit(self, op: Op) -> VersionVector:
        node = self._node
        if node.read_only:
            raise NoSpace(node.read_only)
        applied = self.replica.commit([op], OWN_AGENT, None, node.now_ms)
        node.applied(self.replica, [applied])
        self.changed([op.key])
        return {applied.change.writer: applied.change.seq}

    def token(self, point: VersionVector | None) -> str:
        """Names the write of a record, or all of them: who waits for it on another node finds it in force there."""
        replica = self.replica
        return encode_token([(replica.name, replica.epoch, dict(replica.vector) if point is None else point)])

    # -- being told ------------------------------------------------------------------------------------------

    def on_change(self, kind: RecordType[R], told: Told) -> None:
        """Call ``told`` with the names of records of a type, whenever some have changed, here or elsewhere.

        It is called while the turn is under way: what it writes is committed with the change. When the records have
        been read anew from disk, it is called with all names.
        """
        self._listeners.setdefault(kind.prefix, []).append(told)

    def changed(self, keys: Iterable[str]) -> None:
        """The node says that these keys of ``_cluster`` have changed."""
        names: dict[str, list[str]] = {}
        for key in keys:
            prefix, slash, name = key.partition("/")
            names.setdefault(prefix + slash, []).append(name)
        for prefix, of_type in sorted(names.items()):
            for told in self._listeners.get(prefix, ()):
                told(of_type)

    def reload(self) -> None:
        """The replica has been read anew from disk."""
        for prefix, listeners in sorted(self._listeners.items()):
            names = [key[len(prefix) :] for key in self.replica.entries.keys(prefix)]
            for told in listeners:
                told(names)


def _place(entry: Entry) -> tuple[int, int, int, int]:
    return entry.order
