"""The things that the parts of a node share: who it is, the time, its disk, the spaces that it holds, and the turn
under way.

For example, the part that deletes expired entries looks through ``restless_replicas()``, commits a deletion in one of
them, and says so by :meth:`NodeContext.applied`: watchers, peers and the agenda then hear of it from the node.

A part is given this, and the other parts that it calls; so its constructor says what it has to do with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from crdtsync.core.agenda import Agenda
from crdtsync.core.alarms import Alarms
from crdtsync.core.replica.replica import Replica
from crdtsync.core.space import Applied
from crdtsync.core.storage.long_values import ValueCache
from crdtsync.core.storage.write_batch import Ledger

if TYPE_CHECKING:
    from random import Random

    from crdtsync.core.identity import Identity
    from crdtsync.core.storage.interface import Storage
    from crdtsync.core.storage.rows import SpaceRow

Log = Callable[..., None]


class NodeContext:
    """See the module's description.

    ``read_only``: why nothing can be written, or empty; ``can_free``: what frees disk can be; ``ledger``: what the next
    commit must write; ``restless``: the spaces that time alone may change something in, and those that something has
    just happened to; ``barred``: changes that no table takes, by space, writer and number.
    """

    def __init__(
        self,
        identity: Identity,
        storage: Storage,
        random: Random,
        log: Log,
        now: tuple[int, float],
        cache_bytes_max: int,
    ) -> None:
        self.identity = identity
        self.storage = storage
        self.random = random
        self.log = log
        self.now_ms, self.now_s = now
        self.read_only = ""
        self.can_free = True
        self.alarms = Alarms(log)
        self.agenda = Agenda()
        self.value_cache = ValueCache(cache_bytes_max)
        self.ledger = Ledger(0, 0)
        self.replicas: dict[str, Replica] = {}
        self.restless: set[str] = set()
        self.barred: set[tuple[int, int, int]] = set()
        self._applied: dict[str, list[Applied]] = {}

    def applied(self, replica: Replica, changes: list[Applied]) -> None:
        """Changes have been applied in memory, of which anything may follow."""
        self.agenda.all_now()
        self.applied_plainly(replica, changes)

    def applied_plainly(self, replica: Replica, changes: list[Applied]) -> None:
        """Changes have been applied in memory, of which nothing follows but news; see :mod:`crdtsync.core.agenda`."""
        self._applied.setdefault(replica.name, []).extend(changes)
        self.restless.add(replica.name)

    def restless_replicas(self) -> list[Replica]:
        """Those of the restless spaces."""
        return [self.replicas[name] for name in sorted(self.restless)]

    def read_archive(self, row: SpaceRow) -> Replica:
        """A replica of what is stored under a row's number, for reading alone."""
        return self._replica_of(row, Ledger(0, 0))

    def _replica_of(self, row: SpaceRow, ledger: Ledger) -> Replica:
        cluster, me = self.identity.cluster, (self.identity.node, self.identity.name)
        replica = Replica(row, cluster, self.storage, ledger, self.random, me, self.alarms, self.value_cache)
        replica.documents.now_s = self.now_s
        replica.barred = self.barred
        return replica
