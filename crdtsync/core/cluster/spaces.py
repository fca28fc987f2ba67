"""The spaces of a node: making them, dropping them, and who may hold which, as the cluster's records say.

A space is made here as soon as its record arrives and names this node. Where a record tells of a higher epoch than the
one that is held, or no longer names this node, what is held goes to the archive, and with it everything that was about
to be done with it: watches, waiting requests, transfers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from crdtsync.causality import VersionVector
from crdtsync.core.alarm_catalogue import CHANGE_DAMAGED
from crdtsync.core.cluster.archives import Archives
from crdtsync.core.cluster.space_records import (
    DEFAULT_SPACE,
    INITIAL,
    SPACE_NODES_MAX,
    SPACES,
    SpaceRecord,
    created,
    dropped,
)
from crdtsync.core.replica.replica import Replica
from crdtsync.core.storage.rows import SpaceRow
from crdtsync.errors import InvalidRequest, NotAllowed, QuotaExceeded, UnknownSpace
from crdtsync.wire.limits import CLUSTER_SPACE, is_name, shown

if TYPE_CHECKING:
    from crdtsync.core.cluster.admission import Admission
    from crdtsync.core.cluster.records import Cluster
    from crdtsync.core.node_context import NodeContext
    from crdtsync.core.peers.peer_state import Peer
    from crdtsync.core.sync.protocol import Sync

SPACES_MAX = 10_000
"""Spaces in a cluster, with those that were dropped: each is a record on every node."""
ALWAYS = (DEFAULT_SPACE, CLUSTER_SPACE)
"""The spaces that every node has."""


class Spaces:
    """All spaces that this node knows of, whether it holds them or not.

    ``make`` has one held here from now on, and ``close`` one held no longer: with the reason, and whether it is gone
    from here for good.
    """

    _fleet: Admission
    _sync: Sync

    def __init__(
        self,
        node: NodeContext,
        cluster: Cluster,
        make: Callable[[SpaceRow], None],
        close: Callable[[Replica, str, bool], None],
    ) -> None:
        self._node = node
        self._cluster = cluster
        self._make_replica = make
        self._close_replica = close
        self._records: dict[str, SpaceRecord] = {}
        self.archives = Archives(node)
        self._number_last = 0  # 0: not looked for yet

    def start(self, fleet: Admission, sync: Sync) -> None:
        """Everything else of the node is there: look at all records, now and whenever one changes."""
        self._fleet, self._sync = fleet, sync
        cluster = self._cluster
        cluster.on_change(SPACES, self._changed)
        self._changed(cluster.names(SPACES))

    def reload(self) -> None:
        """The records have been read anew from disk."""
        self._records.clear()
        self._changed(self._cluster.names(SPACES))

    # -- who may hold what -----------------------------------------------------------------------------------

    def record(self, name: str) -> SpaceRecord | None:
        """The cluster's record of a space; None: there is none."""
        return self._records.get(name, INITIAL if name in ALWAYS else None)

    def named_count(self) -> int:
        """How many names of spaces the cluster has used, those of dropped ones included."""
        return len(self._records)

    def is_public(self, name: str) -> bool:
        """Whether every node may hold a space."""
        record = self.record(name)
        return record is not None and record.nodes is None

    def may_hold(self, name: str, node: str) -> bool:
        """Whether a node may hold a space: be told what is in it, or how far it has got."""
        record = self.record(name)
        return record is not None and record.exists and record.admits(node)

    def is_member(self, node: str) -> bool:
        """Whether a node is a member of the cluster; where there is none, everybody is."""
        fleet = self._fleet
        return not fleet.is_initialised or node in fleet.membership.members

    def groups(self) -> list[frozenset[str]]:
        """The nodes of the spaces that are here and not for all, each set of nodes once."""
        found = {frozenset(record.nodes) for record in self._records.values() if record.exists and record.nodes}
        return sorted((nodes for nodes in found if self._node.identity.node in nodes), key=sorted)

    def listed(self) -> Iterable[tuple[str, SpaceRecord]]:
        """All spaces of the cluster that exist, in order of name."""
        names = sorted({DEFAULT_SPACE, *self._records})
        return [(name, record) for name in names if (record := self.record(name)) is not None and record.exists]

    def holders(self, names: Iterable[str]) -> Holders:
        """Whose word counts for a write concern in these spaces."""
        found = [record.nodes for name in names if (record := self.record(name)) is not None]
        limited = [frozenset(nodes) for nodes in found if nodes is not None]
        return Holders(self._fleet, frozenset.intersection(*limited) if limited else None)

    # -- agents' requests ------------------------------------------------------------------------------------

    def create(
        self, name: str, nodes: Collection[str] | None, agent: str, prepare: Callable[[SpaceRecord], None]
    ) -> tuple[SpaceRecord, VersionVector | None]:
        """Make a space on all nodes, or on some. Returns its record, and the point of the write; None: it was there.

        ``prepare`` writes what must be known on every node before the space is.

        :raises InvalidRequest: no nodes; or it is there, on other nodes.
        :raises QuotaExceeded: there are too many.
        """
        before = self.record(name)
        wanted = None if nodes is None else tuple(sorted(set(nodes)))
        if before is not None and before.exists:
            if before.nodes != wanted:
                raise InvalidRequest(
                    f"the space {name} exists on {self._fleet.where(before.nodes)} already: "
                    "drop it first, or choose another name"
                )
            return before, None
        if wanted is not None and not 1 <= len(wanted) <= SPACE_NODES_MAX:
            raise InvalidRequest(f"a space is for all nodes, or for 1 to {SPACE_NODES_MAX:,} of them")
        if name not in self._records and len(self._records) >= SPACES_MAX:
            raise QuotaExceeded(f"the cluster has had {SPACES_MAX:,} spaces, the most that it may: reuse a name")
        record = created(before, wanted, self._node.now_ms, agent)
        prepare(record)
        return record, self._cluster.put(SPACES, name, record)

    def drop(self, name: str, agent: str) -> tuple[SpaceRecord, VersionVector]:
        """Drop a space everywhere. Returns its new record, and the point of the write.

        :raises UnknownSpace: there is none.
        :raises NotAllowed: it is the cluster's own.
        """
        if name == CLUSTER_SPACE:
            raise NotAllowed(f"{CLUSTER_SPACE} holds the cluster's own records and cannot be dropped")
        before = self.record(name)
        if before is None or not before.exists:
            raise UnknownSpace(f"there is no space {shown(name)} in this cluster")
        replica = self._node.replicas.get(name)
        vector = None if replica is None else dict(replica.vector)
        record = dropped(before, vector, name == DEFAULT_SPACE, self._node.now_ms, agent)
        return record, self._cluster.put(SPACES, name, record)

    # -- following the records -------------------------------------------------------------------------------

    def _changed(self, names: Collection[str]) -> None:
        cluster = self._cluster
        for name in sorted(names):
            if not is_name(name):
                continue
            record = cluster.get(SPACES, name)
            if record is None:
                self._records.pop(name, None)
            else:
                self._records[name] = record
                self._follow(name, record)

    def _follow(self, name: str, record: SpaceRecord) -> None:
        """Bring what is held here in line with a record."""
        me, replica = self._node.identity.node, self._node.replicas.get(name)
        is_mine = record.exists and record.admits(me)
        if replica is not None and (replica.epoch < record.epoch or not is_mine) and replica.epoch <= record.epoch:
            self._archive(replica, record)
            replica = None
        if replica is None and is_mine:
            self._make(name, record)
        elif replica is not None:
            self._sync.audience_changed(replica)

    def _make(self, name: str, record: SpaceRecord) -> None:
        node = self._node
        number = self._next_number()
        node.ledger.batch.spaces.append((number, name, record.epoch))
        node.log("space_made", space=name, epoch=record.epoch)
        self._make_replica(SpaceRow(number, name, record.epoch, None, 0, 0, 0, {}, 0, {}))

    def _next_number(self) -> int:
        node = self._node
        if not self._number_last:  # looked for once: 10,000 spaces would each look at all others
            used = {replica.id for replica in node.replicas.values()} | self.archives.numbers()
            self._number_last = max(used | {number for number, _, _ in node.ledger.batch.spaces})
        self._number_last += 1
        return self._number_last

    def _archive(self, replica: Replica, record: SpaceRecord) -> None:
        node, name = self._node, replica.name
        unseen = record.unseen(replica.epoch, replica.vector)
        batch = node.ledger.batch
        batch.spaces = [row for row in batch.spaces if row[0] != replica.id]  # it may have been made in this very turn
        if record.exists and record.admits(node.identity.node):
            reason = f"the space {name} was dropped and begins anew"
        elif record.exists:
            reason = f"the space {name} is no longer on this node; it is on {self._fleet.where(record.nodes)}"
        else:
            reason = f"the space {name} was dropped"
        node.log("space_archived", space=name, epoch=replica.epoch, reason=reason, unseen_changes=unseen)
        self._close_replica(replica, reason, not (record.exists and record.admits(node.identity.node)))
        self.archives.add(replica, unseen)
        node.alarms.clear(CHANGE_DAMAGED, name)
        if unseen:
            self.archives.report_unseen(replica, unseen)


class Holders:
    """Those of the members that may hold certain spaces; ``nodes``: their ids, None: all."""

    def __init__(self, members: Admission, nodes: frozenset[str] | None) -> None:
        self._members = members
        self._nodes = nodes

    @property
    def is_initialised(self) -> bool:
        """Whether it is known who they are; otherwise they are all nodes ever met."""
        return self._members.is_initialised or self._nodes is not None

    def counted(self) -> tuple[int, Callable[[], list[Peer]]]:
        """How many there are, and those of them that have been met."""
        count, met = self._members.counted()
        nodes = self._nodes
        if nodes is None:
            return count, met
        members = self._members.membership.members if self._members.is_initialised else nodes
        return len(nodes & set(members)), lambda: [peer for peer in met() if peer.node in nodes]


def resolve_nodes(wanted: Collection[str], known: Mapping[str, str]) -> list[str]:
    """Ids for what people call nodes: id, beginning of an id (8 characters or more), or name. ``known``: names by id.

    :raises InvalidRequest: one that fits none, or several.
    """
    found: list[str] = []
    for word in wanted:
        fits = [node for node, name in known.items() if word in (node, name)]
        if not fits and len(word) >= 8:
            fits = [node for node in known if node.startswith(word)]
        if len(fits) != 1:
            names = ", ".join(sorted(known.values()))
            what = "fits several nodes: give its id" if fits else f"is no node that this one knows: it knows {names}"
            raise InvalidRequest(f"{shown(word)} {what}")
        found += fits
    return found
