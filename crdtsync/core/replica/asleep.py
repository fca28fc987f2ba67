"""Spaces that nobody uses: what of them stays in memory, and when they may be put to sleep.

A daemon may hold 10,000 spaces of which agents use 100 at a time. For the others, memory keeps what is asked for all
the time: the frontier and the digest, for peers, and the figures of ``status``. Their live entries, schemas and texts
are read from disk when something needs them, as at a start (:meth:`crdtsync.core.replica.replica.Replica.wake`).

A space must not sleep if that would lose what only memory knows. So a space stays awake if it has a change that is not
on disk or waits for another, a value that the disk has spoilt, or an open text. So does one that time alone may change:
with a time to live, an upload, a policy of checkpoints, or a checkpoint that it lacks and a peer may give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.blobs import BLOB_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.causality import VersionVector
    from crdtsync.core.replica.replica import Replica

RESERVED_PREFIX = "_"
"""With this begin the keys that are not listed to users."""
ENTRIES_MAX = 1000
"""Entries of a space that is put to sleep: to wake it takes some ms."""


class Asleep(NamedTuple):
    """The facts that are kept of a sleeping replica, beside those that stay in it: see :func:`keys_of`,
    :func:`siblings_of`.
    """

    digest: int
    keys: int
    entries: int
    siblings: int
    schemas: int
    texts: int
    checkpoint_ms: int | None
    recalled_bytes: int
    history_floor: VersionVector
    history_since_ms: int
    trim_ms: int | None = None
    """From when on something of it is too old to be kept; None: nobody has looked."""


def may_sleep(replica: Replica, may_recall: Callable[[Replica], bool] | None = None) -> bool:
    """Whether memory knows nothing of it that cannot be read from disk, and nothing is going to happen by itself.

    ``may_recall``: whether a peer may give what it lacks of checkpoints; None: nobody has tried.
    """
    return (
        replica.entries.count <= ENTRIES_MAX
        and not replica.undurable
        and _is_nothing_under_way(replica)
        and not _is_time_to_change_it(replica)
        and not (replica.checkpoints.lacking() and (may_recall is None or may_recall(replica)))
        and not replica.storage.has_backlog
    )


def fall_asleep(replica: Replica) -> Asleep:
    """Take the facts that are kept of it."""
    entries, past = replica.entries, replica.past
    return Asleep(
        entries.digest,
        keys_of(replica),
        entries.count,
        siblings_of(replica, 0),
        len(replica.schemas),
        len(replica.documents.names()),
        replica.checkpoints.newest_ms(),
        replica.checkpoints.recalled_bytes(),
        past.floor,
        past.since_ms,
    )


def keys_of(replica: Replica) -> int:
    """How many keys there are for users."""
    entries = replica.entries
    return len(entries) - len(entries.keys_all_hidden) - sum(1 for _ in entries.keys(RESERVED_PREFIX))


def siblings_of(replica: Replica, now_ms: int) -> int:
    """How many keys have several values. Schemas that two hosts declared at once are shown by ``schema show``."""
    return sum(not key.startswith(RESERVED_PREFIX) for key in replica.conflicting.at(now_ms))


def _is_nothing_under_way(replica: Replica) -> bool:
    return (
        replica.entries.is_summed
        and replica.gate.is_empty
        and replica.unknown is None
        and not replica.pins
        and not replica.staging.is_under_way
        and not replica.schemas.is_retold
        and not replica.purges.is_noted
        and not replica.past.unsaved
        and replica.past.free_some()
        and not replica.values.damaged
        and replica.documents.is_idle
        and replica.texts.is_idle
    )


def _is_time_to_change_it(replica: Replica) -> bool:
    expiry, uploads = replica.entries.expiry, replica.uploads
    return bool(
        len(expiry)
        or expiry.hidden_count
        or replica.checkpoints.policies()
        or replica.checkpoints.leavings
        or replica.past.taken_away.before()
        or any(schema.history is not None for schema in replica.schemas.all())
        or len(uploads)
        or (uploads.have_gone and replica.storage.dead_under(replica.id, BLOB_PREFIX, None, 1))
    )
