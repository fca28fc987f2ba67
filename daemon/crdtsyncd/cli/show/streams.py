"""For commands that print for as long as somebody reads: notice when nobody does any more."""

from __future__ import annotations

import os
import select
import stat
import sys
import threading

from crdtsyncd.cli.errors import PIPE_CLOSED
from crdtsyncd.wording import counted

from crdtsync.errors import Timeout


def end_with_reader() -> None:
    """From now on, end this process as soon as the reader of its stdout has gone.

    A write would notice, but the next event may be hours away, and ``crdtsync watch | head -1`` would wait for it. Only
    for commands that flush every line and have nothing to tidy up.
    """
    mode = os.fstat(sys.stdout.fileno()).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        threading.Thread(target=_wait_for_end, args=(sys.stdout.fileno(),), daemon=True).start()


def _wait_for_end(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, 0)  # nothing but POLLERR and POLLHUP, which are always reported
    poll.poll()
    os._exit(PIPE_CLOSED)


def nothing_came(what: str, late: Timeout, way_on: str = "") -> Timeout:
    """How a command ends that waited for ``what`` as long as --timeout says."""
    lacks = ", ".join(f"{counted(count, 'change')} of {node}" for node, count in late.missing.items())
    why = f": this host lacks {lacks}, which were to be there first" if lacks else ""
    return Timeout(f"no {what} came for so long{why}{way_on}", **late.details)
