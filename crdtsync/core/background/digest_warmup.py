"""Works out, bit by bit, the digests of what was loaded from disk, and which keys are in conflict: at once it would
keep everybody waiting.
"""

from __future__ import annotations

from collections.abc import Mapping

from crdtsync.core.replica.replica import Replica

SLICE_ENTRIES_MAX = 2000
"""So many entries are summed up at once: some ms."""
SLICE_KEYS_MAX = 1000
"""So many keys are looked at, likewise."""


def sum_some(replicas: Mapping[str, Replica]) -> bool:
    """Do a part of it; whether there is more to do."""
    for replica in replicas.values():
        if replica.asleep is None and not replica.entries.is_summed:
            replica.entries.sum_up(SLICE_ENTRIES_MAX)
            return True
        if replica.asleep is None and replica.conflicting.judge(SLICE_KEYS_MAX):
            return True
    return False
