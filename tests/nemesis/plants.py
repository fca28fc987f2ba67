"""Faults planted in a daemon, as the Python that it runs: what the harnesses must find, or they prove nothing."""

from __future__ import annotations

ACK_EARLY = """
from crdtsyncd.store import Store
commit, held = Store.commit, []
def late(self, batch):
    held.append(batch)
    if len(held) >= 8:
        for each in held:
            commit(self, each)
        held.clear()
Store.commit = late
from crdtsyncd.main import main
main()
"""
"""Commits wait for others and are acknowledged all the same: a kill loses them."""

GOES_ON = """
import sqlite3
from crdtsyncd.store import Store
from crdtsync.errors import StorageError
commit = Store.commit
def deaf(self, batch):
    try:
        commit(self, batch)
    except StorageError:
        self._is_broken = False
Store.commit = deaf
from crdtsyncd.main import main
main()
"""
"""An error of the disk is ignored: what was acknowledged is not there."""

PLANTS = {"ack-early": ACK_EARLY, "ignore-errors": GOES_ON}
