"""Checks of the host: its files and their rights, disk, clock, units."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from crdtsyncd.config.model import Config
from crdtsyncd.doctor.finding import Finding, ok, problem, warning
from crdtsyncd.storage.database import DATABASE_NAME
from crdtsyncd.storage.file_header import read_header
from crdtsyncd.storage.journal.journal import journal_misfit
from crdtsyncd.storage.schema import APPLICATION_ID, FORMAT
from crdtsyncd.wording import byte_size

if TYPE_CHECKING:
    from crdtsyncd.service.install_units import UnitsPlace

CALL_TIMEOUT_S = 5.0
YEAR_MIN = 2025
_MISFIT_REMEDY = "do one of these, then start the daemon; docs/how-to/troubleshoot.md says more, under Messages"
_NETWORK_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "glusterfs", "ceph", "afs")


def examine_data(place: Path, *, runs: bool) -> Iterator[Finding]:
    """The data directory and the database in it."""
    try:
        about = place.stat()
    except FileNotFoundError:
        yield ok("data", f"{place} is not there yet: the daemon makes it")
        return
    except PermissionError:
        yield warning("data", f"{place} is not for this user to look at", "look again as root: sudo crdtsync doctor")
        return
    if not stat.S_ISDIR(about.st_mode):
        yield problem("data", f"{place} is no directory", "move it away, or choose another with data_dir")
        return
    if about.st_mode & 0o077:
        yield warning("data", f"others may look into {place}, past all access rights", f"sudo chmod go-rwx {place}")
    yield from _database(place, runs=runs)
    yield from _strangers(place, about.st_uid)
    kind = _file_system(place)
    if kind in _NETWORK_FILE_SYSTEMS:
        yield problem(
            "data",
            f"{place} lies on {kind}: locks and flushes over a network cannot be trusted",
            "choose a data_dir on a local disk; other hosts get the data from their own daemons",
        )


def _database(place: Path, *, runs: bool) -> Iterator[Finding]:
    path = place / DATABASE_NAME
    try:
        header = read_header(path) if not runs else None  # the daemon that answers has judged it
    except PermissionError:
        yield warning("data", f"{path} is not for this user to read", "look again as root: sudo crdtsync doctor")
        return
    except (OSError, ValueError) as error:
        yield problem(
            "data", f"{path} cannot be read: {error}", "check the disk, or put a backup in place: crdtsync restore"
        )
        return
    if not runs and (header is None or header == (0, 0)) and (misfit := journal_misfit(path)):
        yield problem("data", misfit, _MISFIT_REMEDY)
    elif runs or header is None or header == (0, 0):
        yield ok("data", f"{place}" + ("" if runs or header else ", which has no database yet"))
    elif header.application_id != APPLICATION_ID:
        yield problem("data", f"{path} belongs to another program", "move it away, or choose another data_dir")
    elif header.format > FORMAT:
        yield problem(
            "data",
            f"{path} was written by a newer crdtsyncd (format {header.format}, this one knows {FORMAT})",
            "upgrade crdtsync; the database is as it was",
        )
    elif misfit := journal_misfit(path):
        yield problem("data", misfit, _MISFIT_REMEDY)
    else:
        older = f", of the older format {header.format}, brought up to date at the next start"
        yield ok("data", f"{path}" + (older if header.format < FORMAT else ""))


def _strangers(place: Path, owner: int) -> Iterator[Finding]:
    """Files of another user than the directory's: what root has left there, the daemon cannot open."""
    try:
        found = sorted(each.name for each in place.iterdir() if each.lstat().st_uid != owner)
    except OSError:
        return
    if found:
        name = pwd.getpwuid(owner).pw_name if _has_name(owner) else str(owner)
        yield problem(
            "rights",
            f"{', '.join(found[:3])} in {place} do not belong to {name}, as whom the daemon runs",
            f"sudo chown -R {name}: {place}",
        )


def _has_name(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _file_system(place: Path) -> str:
    """The kind of file system that a directory lies on; empty if it cannot be told."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        real = place.resolve()
    except OSError:
        return ""
    fitting = [(len(fields[1]), fields[2]) for fields in mounts if real.is_relative_to(fields[1])]
    return max(fitting, default=(0, ""))[1]


def examine_disk(place: Path, config: Config | None) -> Iterator[Finding]:
    """Free space, against what the daemon keeps in reserve."""
    there = next((parent for parent in (place, *place.parents) if parent.exists()), Path("/"))
    usage = os.statvfs(there)
    free_bytes = usage.f_bavail * usage.f_frsize
    reserve = config.free_bytes_min if config is not None else 0
    said = f"{byte_size(free_bytes)} free where {place} is"
    if free_bytes < reserve:
        yield problem(
            "disk", f"{said}, and {byte_size(reserve)} are kept in reserve: writes are refused",
            "free some space there; writes go on by themselves",
        )  # fmt: skip
    elif usage.f_files and not usage.f_favail:
        yield problem("disk", f"there is no inode left where {place} is", "remove files there, many small ones")
    elif free_bytes < 10 * reserve:
        yield warning(
            "disk", f"{said}, and below {byte_size(reserve)} writes are refused", "free some space there in time"
        )
    else:
        yield ok("disk", said)


def examine_clock(place: Path) -> Iterator[Finding]:
    """The time of day, as far as it can be judged alone."""
    year = time.gmtime().tm_year
    remedy = "set the clock, and let it be kept: sudo timedatectl set-ntp true"
    if year < YEAR_MIN:
        yield problem("clock", f"it is the year {year} here", remedy)
        return
    newest = _newest_file_s(place)
    if newest > time.time() + 60:
        yield problem("clock", "the clock stands before the time at which the database was last written", remedy)
    elif _says_unsynchronised():
        yield warning("clock", "nothing keeps the clock in step with others", remedy)
    else:
        yield ok("clock", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))


def _newest_file_s(place: Path) -> float:
    try:
        return max((each.stat().st_mtime for each in place.iterdir()), default=0.0)
    except OSError:
        return 0.0


def _says_unsynchronised() -> bool:
    return _call("timedatectl", "show", "--property=NTPSynchronized", "--value").strip() == "no"


def _call(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=CALL_TIMEOUT_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def examine_units() -> Iterator[Finding]:
    """The units of the service, if it is installed, for the machine or for this user: of this version, not failed."""
    from crdtsyncd.service.install_units import installed_places

    from crdtsync.errors import ConfigError

    try:
        installed = installed_places()
    except ConfigError:
        yield ok("service", "systemd does not run here")
        return
    if not installed:
        yield ok("service", "not installed")
    for place in installed:
        yield from _units(place)


def _units(place: UnitsPlace) -> Iterator[Finding]:
    from crdtsyncd.service.diagnose_units import faults
    from crdtsyncd.service.install_units import UNITS, is_current, states

    from crdtsync.errors import ConfigError

    try:
        found_states = states(place)
    except ConfigError as error:
        yield warning("service", f"its manager does not say how it is: {error.message}", "log in anew, then look again")
        return
    wrong = {fault.unit: fault for fault in faults(place, found_states)}
    for found in found_states:
        fault = wrong.get(found.unit)
        waits = found.active == "inactive" and found.unit == UNITS[1] and UNITS[0] not in wrong
        if fault is not None and not waits:  # the first agent that connects starts it
            yield problem("service", f"{fault.unit}{place.whose} {fault.message}", fault.remedy)
        elif not is_current(place, found.unit):
            install = "crdtsync service install --user" if place.sysusers is None else "sudo crdtsync service install"
            yield warning("service", f"{found.unit}{place.whose} is not that of this version", install)
        elif found.unit in UNITS or (found.active, found.enabled) != ("inactive", "disabled"):
            yield ok("service", f"{found.unit}{place.whose} is {found.active}, {found.enabled}")
