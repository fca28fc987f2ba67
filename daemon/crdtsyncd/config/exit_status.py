"""How the daemon ends: its exit statuses, and the errors that have one of their own.

The units name those after which starting again cannot help (``RestartPreventExitStatus=``); a test compares.
"""

from __future__ import annotations

from crdtsync.errors import ConfigError, CrdtSyncError, StorageError

FAILED = 1
SETTINGS = 2
UNFIT_DATA = 65
"""EX_DATAERR of sysexits.h."""
BUG = 70
"""EX_SOFTWARE of sysexits.h."""
FINAL = (SETTINGS, UNFIT_DATA)
"""Somebody has to do something before another start can come to another end."""

STATUSES = {
    0: "stopped as asked",
    FAILED: "an address, the database or its directory cannot be had, or the disk failed: that may pass",
    SETTINGS: "a setting is not usable",
    UNFIT_DATA: "the database is of a newer version, or of another program, or lacks the file that goes with it",
    BUG: "a fault of crdtsyncd itself",
}
"""The meaning of each, as the page of the configuration says it."""


class UnfitData(StorageError):
    """The data directory is not for this daemon: it is of a newer one, another program or another time."""


class AddressTaken(ConfigError):
    """An address cannot be had now: another program has it, or this machine does not have it yet. That may pass."""


def status_of(error: CrdtSyncError) -> int:
    """The exit status of a daemon that ends by this error."""
    if isinstance(error, AddressTaken):
        return FAILED
    if isinstance(error, UnfitData):
        return UNFIT_DATA
    return SETTINGS if isinstance(error, ConfigError) else FAILED
