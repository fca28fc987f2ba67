"""What must stay within its bound at every moment, and the digest that must be what it stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.core.agenda import NodePart
from crdtsync.core.crdt import causal_gate
from crdtsync.core.sync import change_feed, snapshot_server
from crdtsync.core.text import document_cache
from crdtsync.core.watch import change_watch
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX, PEER_FRAME_BYTES_MAX
from tests.simulator.model import require

if TYPE_CHECKING:
    from crdtsync.core.interface import Ready
    from tests.simulator.hosts import Host

TURNS_BEHIND_MAX = 2


def check_messages(host: Host, ready: Ready) -> None:
    """No message is larger than its receiver takes."""
    for _, data in ready.sends:
        require(len(data) <= PEER_FRAME_BYTES_MAX, host.name, "sends a message of", len(data), "bytes to a peer")
    for reply in ready.replies:
        require(len(reply.data) <= AGENT_FRAME_BYTES_MAX, host.name, "answers with", len(reply.data), "bytes")


def check_short_turn(host: Host) -> None:
    """A turn that did not run every part left nothing undone that was due."""
    node = host.running
    if NodePart.REQUESTS not in node.agenda.ran:
        require(not len(node.dispatcher.waits), host.name, "leaves requests waiting in a short turn")
    if NodePart.RETENTION not in node.agenda.ran and not node.read_only:
        is_due = node.now_s >= node.retention.due_s
        require(not is_due, host.name, "leaves log and history untrimmed in a short turn")


def check_limits(host: Host) -> None:
    """What waits in memory for somebody is within its bound. After a commit, when nothing is half done."""
    node = host.running
    for replica in node.replicas.values():
        held = replica.gate._held
        counted_bytes = sum(sum(sizes.values()) for sizes in held.values())
        crowded = [writer for writer, sizes in held.items() if len(sizes) > causal_gate.WRITER_CHANGES_MAX]
        require(not crowded, host.name, "keeps too many early changes of", crowded)
        is_within = counted_bytes == replica.gate.size_bytes <= causal_gate.BYTES_MAX
        require(is_within, host.name, "keeps", counted_bytes, "bytes of early changes")
        opened = len(replica.documents)
        require(opened <= document_cache.OPEN_DOCUMENTS_MAX, host.name, "keeps", opened, "texts open")
    for link in node.sync.links.values():
        under_way = link.sent_bytes - link.acked_bytes
        most = change_feed.CREDIT_BYTES_MAX + PEER_FRAME_BYTES_MAX
        require(under_way <= most, host.name, "has", under_way, "bytes under way to one peer")
    require(not node.sync.outbox.sends, host.name, "keeps messages that ought to have left")
    for _, count in node.dispatcher.watches.missed():
        require(count <= change_watch.DIRTY_KEYS_MAX, host.name, "keeps", count, "missed keys for a watcher")
    given = node.sync.snapshot_server.open_count()
    require(given <= snapshot_server.SNAPSHOTS_OPEN_MAX, host.name, "keeps", given, "snapshots for others")


def check_progress(host: Host) -> None:
    """Rows that are enough for a slice are on their way into their tables. One turn may have been for the end of the
    transaction before.
    """
    assert host.store is not None
    journal = host.store._journal
    host.turns_behind = host.turns_behind + 1 if journal.has_slice else 0
    waiting = journal.untaken_changes
    require(host.turns_behind <= TURNS_BEHIND_MAX, host.name, "leaves", waiting, "changes waiting for their tables")


def check_digest(host: Host) -> None:
    """The digest, kept up to date operation by operation, is that of the entries there are."""
    entries = host.replica.entries
    anew = sum(entry.digest for key in entries._keys for entry in entries.held(key)) % (1 << 128)
    require(entries.digest % (1 << 128) == anew, host.name, "has a digest that is not that of its entries")
