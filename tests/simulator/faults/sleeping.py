"""Faults of spaces that are put to sleep, and woken."""

from __future__ import annotations

from crdtsync.core.node import Node
from crdtsync.core.replica.replica import Replica
from tests.simulator.faults.planting import Patches, fault
from tests.simulator.hosts import SPACE


@fault("ought to")
def sleeps_with_something_unwritten(patch: Patches):
    """A space is put to sleep while a change of it is on its way to the disk: who wakes it finds what was before."""
    step = Node.step

    def drowsy(self, event, now):
        step(self, event, now)
        if self._applied.get(SPACE) and self.replicas[SPACE].asleep is None:
            self.replicas[SPACE].sleep()

    patch.setattr(Node, "step", drowsy)


@fault("sleeps and tells")
def a_sleeper_tells_an_old_digest(patch: Patches):
    """A space that sleeps once more tells peers what it held when it slept first."""
    sleep = Replica.sleep
    told: dict[Replica, int] = {}

    def forgetful(self):
        sleep(self)
        self.asleep = self.asleep._replace(digest=told.setdefault(self, self.asleep.digest))

    patch.setattr(Replica, "sleep", forgetful)
