"""Faults planted in the loaded daemon: what ``./dev load`` must find, or it proves nothing."""

from __future__ import annotations

SLOW_COMMITS = """
import time
from crdtsyncd.storage.database import Store
commit = Store.commit
def slow(self, batch, is_direct=False):
    if self.commits % 30 == 29:
        time.sleep(0.6)
    commit(self, batch, is_direct)
Store.commit = slow
from crdtsyncd.main import main
main()
"""
"""Every 30th commit takes long: the median does not show it."""

UNBOUNDED = """
from crdtsyncd.loop.agent_socket import AgentConnection
AgentConnection.pause_writing = lambda self: None
from crdtsyncd.main import main
main()
"""
"""What agents do not read is kept for them, however much it is."""

PLANTS = {"slow-commits": SLOW_COMMITS, "unbounded": UNBOUNDED}
