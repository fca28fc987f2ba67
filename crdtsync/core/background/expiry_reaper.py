"""Hides what has expired, and deletes it where that is this node's task.

If every node deleted it, as many would write the same change as there are nodes. So the entry's own node does it, and
where that has been away for long, the live node of the lowest id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from crdtsync.causality import Writer
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.crdt.expiry import EXPIRED_ATTR
from crdtsync.core.identity import OWN_AGENT
from crdtsync.core.replica.replica import Replica
from crdtsync.wire.change import Op

if TYPE_CHECKING:
    from crdtsync.core.node_context import NodeContext
    from crdtsync.core.sync.protocol import Sync
    from crdtsync.core.watch.watches import Watches

EXPIRY_TAKEOVER_MS = 3600 * 1000
"""How long a node must have been away before another deletes its expired entries."""
EXPIRY_CHANGE_ENTRIES_MAX = 256
"""Expired entries that one change deletes."""
EXPIRY_TURN_ENTRIES_MAX = 256
"""Expired entries that are hidden in one turn."""
EXPIRY_INTERVAL_S = 1.0
"""How long deletions are collected before the next change. A full change is followed sooner, by the next one."""
EXPIRY_BUSY_INTERVAL_S = 0.05
"""Between two changes that delete what has expired, if the first was full."""
EXPIRY_LOOK_S_MAX = 60.0
"""How often to look at least: at the wall clock, which may be set, and for nodes that have been away for long."""


class Reaper:
    """Deletes expired values of one node. :meth:`run` is called in every turn, and when :meth:`deadline_s` has come."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self._me = node.identity.node
        self._started_ms = node.now_ms
        self._due_s: dict[str, float] = {}
        self._changed_s: dict[str, float] = {}

    def loaded(self, replica: Replica) -> None:
        """A replica has been read from disk. Nobody here has ever been shown values that have expired by now."""
        self._note(replica, replica.entries.expire(self._node.now_ms))

    def closed(self, replica: Replica) -> None:
        """A replica is no longer here."""
        self._due_s.pop(replica.name, None)
        self._changed_s.pop(replica.name, None)

    def run(self, watches: Watches, sync: Sync) -> None:
        """Hide and delete what is due: ``watches`` hear of the first, and the second depends on who else is there."""
        node = self._node
        for replica in node.restless_replicas():
            if replica.entries.expiry.is_due(node.now_ms):
                self._hide(replica, watches)
            if self._due_s and not node.read_only and node.now_s >= self._due_s.get(replica.name, float("inf")):
                self._delete(replica, sync)

    def is_waiting(self, name: str) -> bool:
        """Whether there is something to delete in a space, now or later."""
        return name in self._due_s

    def deadline_s(self) -> float | None:
        """When :meth:`run` has something to do, on the monotonic clock."""
        node = self._node
        due = [] if node.read_only else list(self._due_s.values())
        for replica in node.restless_replicas():
            expires_ms = replica.entries.expiry.next_ms()
            if expires_ms is not None:
                due.append(node.now_s + min(EXPIRY_LOOK_S_MAX, max(0, expires_ms - node.now_ms) / 1000))
        return min(due, default=None)

    def _hide(self, replica: Replica, watches: Watches) -> None:
        node = self._node
        back = replica.entries.unexpire(node.now_ms)
        if back:
            watches.retell(replica.name, [entry.key for entry in back])
        hidden = replica.entries.expire(node.now_ms, EXPIRY_TURN_ENTRIES_MAX)
        if hidden:
            known = replica.durable_vector()  # what this turn brings is the business of its changes' events
            shown = [entry for entry in hidden if entry.is_in(known)]
            watches.expired(replica.name, shown, node.now_ms)
            self._note(replica, hidden)

    def _note(self, replica: Replica, hidden: Iterable[Entry]) -> None:
        for entry in hidden:
            due_s = self._node.now_s + EXPIRY_LOOK_S_MAX
            if self._owner(replica, entry.writer) == self._me:
                due_s = self._changed_s.get(replica.name, 0.0) + EXPIRY_INTERVAL_S
            self._due_s[replica.name] = min(due_s, self._due_s.get(replica.name, due_s))

    def _delete(self, replica: Replica, sync: Sync) -> None:
        node, name = self._node, replica.name
        batch = self._batch(replica, sync)
        if len(batch) == EXPIRY_CHANGE_ENTRIES_MAX:
            self._due_s[name] = node.now_s + EXPIRY_BUSY_INTERVAL_S
        elif replica.entries.expiry.hidden_count > len(batch):
            self._due_s[name] = node.now_s + EXPIRY_LOOK_S_MAX
        else:
            del self._due_s[name]
        if not batch:
            return
        self._changed_s[name] = node.now_s
        by_key: dict[str, list[Entry]] = {}
        for entry in batch:
            by_key.setdefault(entry.key, []).append(entry)
        ops = [
            Op(key, None, gone[-1].kind, None, None, tuple(entry.dot for entry in gone), {EXPIRED_ATTR: True})
            for key, gone in by_key.items()
        ]
        node.applied(replica, [replica.commit(ops, OWN_AGENT, None, node.now_ms)])

    def _batch(self, replica: Replica, sync: Sync) -> list[Entry]:
        """The entries that this node deletes next."""
        now_ms = self._node.now_ms
        batch: list[Entry] = []
        alive: Collection[str] | None = None
        for writer, entries in replica.entries.expiry.hidden.items():
            owner = self._owner(replica, writer)
            patience_ms: int | None = 0
            if owner != self._me:
                alive = sync.live_nodes() if alive is None else alive
                patience_ms = self._patience_ms(owner, alive, sync.contacts.seen_ms(owner), now_ms)
            if patience_ms is None:
                continue
            for entry in entries.values():
                if len(batch) == EXPIRY_CHANGE_ENTRIES_MAX:
                    return batch
                expires_ms = entry.expires_ms()
                if expires_ms is None or expires_ms + patience_ms > now_ms:
                    break  # those after it expired later
                batch.append(entry)
        return batch

    def _patience_ms(self, owner: str, alive: Collection[str], seen_ms: int, now_ms: int) -> int | None:
        """For how long entries of another node must have been expired before this one deletes them; None: not its task.

        The live node of the lowest id does it after ``EXPIRY_TAKEOVER_MS``. It may be unable to: so the next one does
        it after twice that time, and so on.
        """
        turn = 1 + sum(1 for other in alive if other < self._me)
        away_ms = now_ms - max(seen_ms, self._started_ms)
        if owner in alive or away_ms < turn * EXPIRY_TAKEOVER_MS:
            return None
        return turn * EXPIRY_TAKEOVER_MS

    def _owner(self, replica: Replica, writer: Writer) -> str:
        return replica.origins.get(writer, ("", ""))[0]
