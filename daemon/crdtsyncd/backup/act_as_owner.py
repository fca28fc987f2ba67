"""Root works in somebody else's directory as that somebody.

The owner of a directory can put anything into it. Example: a service whose user was taken over leaves a symbolic link
``lock`` to ``/etc/shadow`` in its data directory, and waits until root restores a backup there. Root would open the
link, and hand what it finds to the service's user. No check of names helps that is made before the use: the user may
change the directory in between.

So root gives up its rights before it touches anything there, and takes them back afterwards: what the owner cannot do,
nobody does for it. The owner is the first user beside root who owns something on the way there, a directory or a link,
since that one can put something else in the place of all that is behind.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from crdtsync.errors import ConfigError
from crdtsync.named_tuple import NamedTuple

ROOT = 0
LINKS_MAX = 40
"""On the way to a directory, as the kernel has it (path_resolution(7))."""
LIST_OF_RIGHTS = "system.posix_acl_access"


class Owner(NamedTuple):
    """Whom to act as."""

    uid: int
    gid: int


@contextmanager
def acting_as_owner(directory: Path) -> Iterator[Path]:
    """Do what is within as the owner of a directory, which need not be there yet. Yields its path without links.

    It changes who the process is as long as it lasts: nothing else may run in it meanwhile.

    :raises ConfigError: others beside an owner may write there, or it leads nowhere.
    """
    steps = [*_steps(directory)]
    place, owner = steps[-1], _owner_of(steps) if os.geteuid() == ROOT else None
    if owner is None:
        yield place
        return
    groups, gid = os.getgroups(), os.getegid()
    os.setgroups([])
    os.setegid(owner.gid)
    os.seteuid(owner.uid)
    try:
        yield place
    finally:
        os.seteuid(ROOT)
        os.setegid(gid)
        os.setgroups(groups)


def _steps(directory: Path) -> Iterator[Path]:
    """Every directory and link on the way, the last of them the directory itself, without links.

    :raises ConfigError: the links go in a circle.
    """
    ahead, links = [*reversed(directory.absolute().parts)], 0
    here = Path(ahead.pop())
    yield here
    while ahead:
        here = here.parent if ahead[-1] == ".." else here / ahead[-1]
        ahead.pop()
        yield here
        if here.is_symlink():
            links += 1
            if links > LINKS_MAX:
                raise ConfigError(f"the links of {directory} lead nowhere: name the directory itself")
            ahead += reversed(here.readlink().parts)
            here = here.parent
            if not ahead:
                yield here


def _owner_of(steps: Iterable[Path]) -> Owner | None:
    """The first user beside root who can change where these lead; None: root alone.

    :raises ConfigError: a group or everybody can.
    """
    *_, last = steps = [*steps]
    for step in steps:
        try:
            found = step.lstat()
        except FileNotFoundError:
            return None  # what root makes in a directory of root's
        if found.st_uid != ROOT:
            return Owner(found.st_uid, _group_of(found.st_uid, found.st_gid))
        is_kept = found.st_mode & stat.S_ISVTX and step != last  # what is in it only its owner can replace
        if not stat.S_ISLNK(found.st_mode) and not is_kept and _is_written_by_others(step, found):
            raise ConfigError(
                f"others can write into {step}, so nothing there is safe from them: give it to one user, or take their "
                "right to write away"
            )
    return None


def _is_written_by_others(directory: Path, found: os.stat_result) -> bool:
    """Whether somebody beside root may write into a directory of root's: a group, everybody, or who is on its list of
    rights (acl(5)), which the mode shows as a right of the group.
    """
    if found.st_mode & stat.S_IWOTH:
        return True
    if not found.st_mode & stat.S_IWGRP:
        return False
    if found.st_gid != ROOT:
        return True
    try:
        return LIST_OF_RIGHTS in os.listxattr(directory)
    except OSError:  # a file system without
        return False


def _group_of(uid: int, gid: int) -> int:
    """The user's own group, whatever group the directory is in."""
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return gid
