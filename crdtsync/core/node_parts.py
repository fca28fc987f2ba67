"""One node put together: the spaces that it holds in memory, and all the parts that work on them.

Here is what there is of a node, and which part calls which. When each of them is called is for
:class:`crdtsync.core.node.Node` to say; what people are shown of them, for :mod:`crdtsync.core.diagnostics`.

Example: an agent drops a space. The dispatcher writes that into the cluster's records; ``spaces`` sees that the space
is held here no longer, and calls ``_close_space``: those who wait for the space or watch it are told, peers hear no
more of it, and its replica leaves memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from crdtsync.core.access.authorizer import Authorizer
from crdtsync.core.access.quotas import DEFAULT_LIMITS, Limits
from crdtsync.core.access.requests import AccessRequests
from crdtsync.core.agents.cluster_requests import ClusterRequests
from crdtsync.core.agents.dispatcher import Dispatcher
from crdtsync.core.agents.frames import Reply
from crdtsync.core.agents.space_requests import space_requests
from crdtsync.core.background.automatic_checkpoints import AutomaticCheckpoints
from crdtsync.core.background.checkpoint_recall import CheckpointRecall
from crdtsync.core.background.expiry_reaper import Reaper
from crdtsync.core.background.purging import Purger
from crdtsync.core.background.retention_caps import DEFAULT_CAPS, Caps
from crdtsync.core.background.sleep import Sleeper
from crdtsync.core.background.text_maintenance import TextKeeper
from crdtsync.core.background.trimming import Retention
from crdtsync.core.background.upload_sweep import UploadSweep
from crdtsync.core.cluster.admission import Admission
from crdtsync.core.cluster.node_alarms import FalseAddresses
from crdtsync.core.cluster.records import Cluster
from crdtsync.core.cluster.spaces import ALWAYS, Spaces
from crdtsync.core.crdt.uploads import BLOB_BYTES_MAX
from crdtsync.core.node_context import Log, NodeContext
from crdtsync.core.peers.voter import Voter
from crdtsync.core.replica.asleep import may_sleep
from crdtsync.core.replica.replica import Replica
from crdtsync.core.resolvers.registry import Registry
from crdtsync.core.space import Applied
from crdtsync.core.storage.interface import Storage
from crdtsync.core.storage.long_values import CACHE_BYTES_MAX
from crdtsync.core.storage.rows import SpaceRow
from crdtsync.core.storage.write_batch import Ledger
from crdtsync.core.sync.protocol import Sync
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import pack
from crdtsync.wire.framing import frame
from crdtsync.wire.limits import CLUSTER_SPACE

if TYPE_CHECKING:
    from random import Random

    from crdtsync.core.identity import Identity


class NodeSettings(NamedTuple):
    """Settings of a node, from the person who runs it. ``limits``: for an agent for which the cluster sets none;
    ``room_bytes``: memory that a snapshot may take, None: not known; ``voters``: the nodes that decide on quorum
    claims.
    """

    caps: Caps = DEFAULT_CAPS
    limits: Limits = DEFAULT_LIMITS
    room_bytes: int | None = None
    cache_bytes_max: int = CACHE_BYTES_MAX
    blob_bytes_max: int = BLOB_BYTES_MAX
    voters: Iterable[str] = ()


DEFAULT_SETTINGS = NodeSettings()


class NodeParts(NodeContext):
    """See the module's description."""

    def __init__(
        self,
        identity: Identity,
        storage: Storage,
        random: Random,
        log: Log,
        now: tuple[int, float],
        settings: NodeSettings,
    ) -> None:
        super().__init__(identity, storage, random, log, now, settings.cache_bytes_max)
        self.started_s = self.now_s
        self._blob_bytes_max = settings.blob_bytes_max
        self.cluster = Cluster(self)
        self.spaces = Spaces(self, self.cluster, self._make_space, self._close_space)
        self._durable: dict[str, int] = {}
        self.reaper = Reaper(self)
        self.retention = Retention(storage, settings.caps, self.now_s)
        self.purger = Purger(self, self.retention)
        self.upload_sweep = UploadSweep(self)
        self.automatic_checkpoints = AutomaticCheckpoints(self, self.live_holders)
        self.sleeper = Sleeper(self, self.put_to_sleep)
        self._texts: dict[str, TextKeeper] = {}
        self._load()
        voter = Voter(identity, settings.voters, storage, lambda: self.ledger.batch, self.now_s, lambda: self.now_ms)
        self.sync = Sync(self, self.spaces, voter, settings.room_bytes)
        self.recalls = CheckpointRecall(self, self.sync, self.purger)
        self.fleet = Admission(self, self.cluster, self.sync)
        self.false_addresses = FalseAddresses(identity.node)
        self.resolvers = Registry(self, self.sync, self._tell_agent)
        self.authorizer = Authorizer(self, self.cluster, self.fleet, settings.limits)
        self.dispatcher = Dispatcher(
            self, self.cluster, self.spaces, self.fleet, self.sync, self.authorizer, self.resolvers
        )
        self.cluster_requests = ClusterRequests(self.fleet, self.data)
        self.access_requests = AccessRequests(
            self, self.cluster, self.spaces, self.sync, self.authorizer, self.dispatcher.agents
        )
        self.dispatcher.add_requests(self.cluster_requests.requests)
        self.dispatcher.add_requests(self.access_requests.requests)
        self.dispatcher.add_requests(space_requests(self.dispatcher, self.access_requests.begin_private))

    # -- spaces in memory ----------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Read every space from disk, in place of what memory holds."""
        self.replicas.clear()
        self._durable.clear()
        self.restless.clear()
        self._texts.clear()
        self.value_cache.clear()
        self.ledger = Ledger(self.storage.position_last(), self.storage.row_last())
        rows = {row.name: row for row in self.storage.spaces()}
        for number, name in enumerate(ALWAYS, max((row.id for row in rows.values()), default=0) + 1):
            if name not in rows:
                rows[name] = SpaceRow(number, name, 0, None, 0, 0, 0, {}, 0, {})
                self.ledger.batch.spaces.append((number, name, 0))
        for row in rows.values():
            self._rest(self.open_replica(row))
        self.spaces.archives.reload()

    def open_replica(self, row: SpaceRow) -> Replica:
        """A replica of what is stored under a row's number; it is among ``replicas`` from now on."""
        replica = self._replica_of(row, self.ledger)
        self.replicas[row.name] = replica
        self._read(replica)
        return replica

    def _read(self, replica: Replica) -> None:
        """Attach the node's parts to a replica that has just been read from disk."""
        self._durable[replica.name] = replica.position
        self._texts[replica.name] = TextKeeper(replica)
        self.restless.add(replica.name)
        self._equip(replica)
        replica.woken = self._equip
        self.reaper.loaded(replica)

    def _equip(self, replica: Replica) -> None:
        """Give a replica what it needs of its node, each time that it has been read from disk."""
        replica.documents.now_s = self.now_s
        replica.documents.wake = lambda: self._wake(replica)
        replica.uploads.bytes_max = self._blob_bytes_max

    def _rest(self, replica: Replica) -> None:
        """Let a space sleep again before the next one is read: of many spaces at a start, few are used soon."""
        is_resumed = any(True for _ in replica.staging.parts())  # a snapshot of it that was being taken
        has_texts = bool(self.storage.document_spans(replica.id, None, 1))  # which are trimmed in rounds
        if replica.name != CLUSTER_SPACE and not is_resumed and not has_texts and may_sleep(replica):
            replica.sleep()
            self.restless.discard(replica.name)

    def put_to_sleep(self, name: str) -> bool:
        """Put a space to sleep, unless it is asleep, or something is under way there."""
        replica = self.replicas[name]
        is_used = (
            name == CLUSTER_SPACE
            or name in self.restless
            or name in self._applied
            or self.ledger.batch.metas  # of its checkpoints, perhaps
            or len(self.dispatcher.long_reads)
            or name in self.sync.snapshot_client.receipts
            or not self.retention.is_done_with(replica)
        )
        if is_used or replica.asleep is not None or not may_sleep(replica, self.recalls.may_recall):
            return False
        replica.sleep()
        self.retention.recount(replica)
        return True

    def _wake(self, replica: Replica) -> None:
        replica.documents.now_s = self.now_s
        self.agenda.all_now()
        if self.replicas.get(replica.name) is replica:
            self.restless.add(replica.name)

    def _is_restless(self, name: str) -> bool:
        """Whether the coming turns have to look at a space although nothing happens to it."""
        keeper, replica = self._texts[name], self.replicas[name]
        is_due = keeper.deadline_s(self.now_s, is_writable=True) is not None
        return is_due or replica.entries.expiry.next_ms() is not None or self.reaper.is_waiting(name)

    def live_holders(self, space: str) -> set[str]:
        """The other nodes that are up and hold a space."""
        record, live = self.spaces.record(space), self.sync.live_nodes()
        return live if record is None or record.nodes is None else live & set(record.nodes)

    def close_replica(self, replica: Replica) -> None:
        """It is among them no longer."""
        del self.replicas[replica.name], self._durable[replica.name], self._texts[replica.name]
        self._applied.pop(replica.name, None)
        self.restless.discard(replica.name)
        self.reaper.closed(replica)
        self.purger.closed(replica.name)
        self.recalls.reload()

    def _make_space(self, row: SpaceRow) -> None:
        """A space is held here from now on, or from its beginning anew."""
        replica = self.open_replica(row)
        self.dispatcher.watches.moved(replica)
        self.resolvers.moved(row.name)
        self.sync.space_opened(replica)

    def _close_space(self, replica: Replica, reason: str, is_gone: bool) -> None:
        """A space, or an epoch of it, is held here no longer."""
        self.dispatcher.space_closed(replica.name, reason, is_gone=is_gone)
        self.sync.space_closed(replica)
        self.close_replica(replica)

    def received(self, applied: Iterable[Applied]) -> None:
        """Changes that were not made here have been applied in memory."""
        for item in applied:
            self._applied.setdefault(item.space, []).append(item)
            self.restless.add(item.space)
        keys = [op.key for item in applied if item.space == CLUSTER_SPACE for op in item.change.ops]
        if keys:
            self.cluster.changed(keys)

    # -- for other parts, and for the shell ------------------------------------------------------------------------

    def _tell_agent(self, conn: int, request: int, events: list[dict[str, Any]]) -> int:
        """Send events to an agent; how many bytes that is."""
        data = frame(pack([request, 2, events]))
        self.dispatcher.replies.append(Reply(conn, None, data))
        return len(data)

    @property
    def is_settled(self) -> bool:
        """Whether all that memory holds is on disk."""
        return not self._applied and not self.ledger.batch

    def document_memory_bytes(self) -> int:
        """About how much memory the loaded documents of all spaces take."""
        return sum(replica.documents.memory_bytes for replica in self.replicas.values() if replica.asleep is None)

    def data(self) -> str:
        """The names of spaces in which this node holds data for agents, in words; empty if none."""
        held = [name for name, replica in sorted(self.replicas.items()) if replica.vector and name != CLUSTER_SPACE]
        return f"this node holds data already (in {', '.join(held)})" if held else ""

    def is_node_linked(self, node: str) -> bool:
        """Whether a node is connected."""
        peer = self.sync.peers.get(node)
        return peer is not None and peer.link is not None

    def is_linked(self, url: str) -> bool:
        """Whether the node that answered at ``url`` last is connected."""
        dial = self.sync.dials.get(url)
        peer = self.sync.peers.get(dial.node) if dial is not None and dial.node else None
        return peer is not None and peer.link is not None
