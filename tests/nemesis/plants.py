"""Faults planted in a daemon, as the Python that it runs: what the harnesses must find, or they prove nothing."""

from __future__ import annotations

from dataclasses import dataclass

ACK_EARLY = """
from crdtsyncd.storage.database import Store
commit, held = Store.commit, []
def late(self, batch, is_direct=False):
    held.append((batch, is_direct))
    if len(held) > 16:
        commit(self, *held.pop(0))
Store.commit = late
from crdtsyncd.main import main
main()
"""
"""The last sixteen commits wait for others, and are acknowledged all the same: a kill loses them."""

GOES_ON = """
import sqlite3
from crdtsyncd.storage.database import Store
from crdtsync.errors import StorageError
commit = Store.commit
def deaf(self, batch, is_direct=False):
    try:
        commit(self, batch, is_direct)
    except StorageError:
        self._is_broken = False
Store.commit = deaf
from crdtsyncd.main import main
main()
"""
"""An error of the disk is ignored: what was acknowledged is not there."""


@dataclass(frozen=True)
class Plant:
    """A planted fault, and the faults of hosts by which it shows."""

    program: str
    shown_by: tuple[str, ...]
    """Those in which a host is alone: what its peers hold they give back to it, and nothing was lost."""


PLANTS = {
    "ack-early": Plant(ACK_EARLY, ("lone-kill",)),
    "ignore-errors": Plant(GOES_ON, ("lone-read-only-disk",)),
}
