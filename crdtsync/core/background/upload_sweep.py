"""Clears away uploads that nobody has finished: parts of blobs without an entry that shows them.

Only the node that wrote them does it. Elsewhere nobody can tell whether the entry is on its way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.causality import hlc_ms
from crdtsync.core.crdt.uploads import removal
from crdtsync.core.identity import OWN_AGENT

if TYPE_CHECKING:
    from crdtsync.core.node_context import NodeContext
    from crdtsync.core.replica.replica import Replica

SWEEP_INTERVAL_S = 600.0
UNFINISHED_MS_MAX = 24 * 3600 * 1000
"""So long nothing may have come for an upload before it is cleared away."""


class UploadSweep:
    """Sweeps the uploads of one node. ``due_s``: when :meth:`run` has something to do."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self.due_s = node.now_s + SWEEP_INTERVAL_S

    def run(self) -> None:
        """Look at all uploads; remove one of each space that is given up, and come back at once if there was one."""
        node = self._node
        if node.read_only or node.now_s < self.due_s:
            return
        self.due_s = node.now_s + SWEEP_INTERVAL_S
        for _, replica in sorted(node.replicas.items()):
            if replica.asleep is None and self._sweep(replica):
                self.due_s = node.now_s

    def _sweep(self, replica: Replica) -> bool:
        node = self._node
        for key, parts in replica.uploads.all_unfinished() if len(replica.uploads) else ():
            newest_ms = max(hlc_ms(entry.hlc) for entry in parts)
            is_own = all(replica.is_own(entry.writer) for entry in parts)
            if is_own and newest_ms < node.now_ms - UNFINISHED_MS_MAX:
                node.applied(replica, [replica.commit([removal(key, parts)], OWN_AGENT, None, node.now_ms)])
                return True
        return False
