"""Clears away uploads that nobody has finished: parts of blobs without an entry that shows them.

Only the node that wrote them does it. Elsewhere nobody can tell whether the entry is on its way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from crdtsync.causality import hlc_ms
from crdtsync.core.identity import OWN_AGENT
from crdtsync.core.replica.uploads import removal

if TYPE_CHECKING:
    from crdtsync.core.replica.replica import Applied, Replica

SWEEP_INTERVAL_S = 600.0
UNFINISHED_MS_MAX = 24 * 3600 * 1000
"""So long nothing may have come for an upload before it is cleared away."""


class Host(Protocol):
    """What the sweep needs of its node."""

    now_ms: int
    now_s: float
    read_only: str
    replicas: dict[str, Replica]

    def applied(self, replica: Replica, changes: list[Applied]) -> None:
        """Changes have been applied in memory."""


class UploadSweep:
    """Of one node. ``due_s``: when :meth:`run` has something to do."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.due_s = host.now_s + SWEEP_INTERVAL_S

    def run(self) -> None:
        """Look at all uploads; remove one of each space that is given up, and come back at once if there was one."""
        host = self._host
        if host.read_only or host.now_s < self.due_s:
            return
        self.due_s = host.now_s + SWEEP_INTERVAL_S
        for _, replica in sorted(host.replicas.items()):
            if replica.asleep is None and self._sweep(replica):
                self.due_s = host.now_s

    def _sweep(self, replica: Replica) -> bool:
        host = self._host
        for key, parts in replica.uploads.all_unfinished() if len(replica.uploads) else ():
            newest_ms = max(hlc_ms(entry.hlc) for entry in parts)
            is_own = all(replica.is_own(entry.writer) for entry in parts)
            if is_own and newest_ms < host.now_ms - UNFINISHED_MS_MAX:
                host.applied(replica, [replica.commit([removal(key, parts)], OWN_AGENT, None, host.now_ms)])
                return True
        return False
