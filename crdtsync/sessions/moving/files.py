"""A session's file onto this machine: nothing that is there is overwritten, at most gone on with."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from crdtsync.errors import Refused


def check_no_link(path: Path, folder: Path | None = None) -> None:
    """Raise :class:`~crdtsync.errors.Refused` if ``path`` is a symbolic link, or lies behind one below ``folder``."""
    folder = folder or path.parent
    if path.resolve() != folder.resolve() / path.relative_to(folder):
        raise Refused(f"{path} leads elsewhere by a symbolic link: nothing is written there")


def create(path: Path, lines: Iterable[bytes]) -> None:
    """Write a file that is not there, whole or not at all; only its owner may read it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=".crdtsync-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, path)  # fails if somebody was quicker
    except FileExistsError:
        raise Refused(f"{path} was made by somebody else meanwhile: try again") from None
    finally:
        Path(partial).unlink(missing_ok=True)
    _flush_folder(path.parent)


def extend(path: Path, size: int, lines: Iterable[bytes]) -> None:
    """Append to a file that has ``size`` bytes, but for a last line without a line end, which is replaced."""
    with path.open("r+b") as file:
        file.seek(size)
        if b"\n" in file.read():
            raise Refused(f"{path} has grown meanwhile: try again when nobody works with it")
        try:
            file.truncate(size)
            file.seek(size)
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            file.truncate(size)
            raise


def user_of(path: Path, session: str) -> int | None:
    """The process that has the session open: the file itself, or its id on the command line. None: nobody is known."""
    needle = session.encode()
    own = _ancestors()
    for process in Path("/proc").glob("[0-9]*"):
        number = int(process.name)
        if number in own:
            continue
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if needle in words and b"crdtsync" not in b" ".join(words[:4]):
                return number
            for descriptor in (process / "fd").iterdir():
                with suppress(OSError):
                    if descriptor.samefile(path):
                        return number
    return None


def _ancestors() -> set[int]:
    """This process and those that have started it: a shell that names the session does not use it."""
    found, number = set(), os.getpid()
    while number > 1 and number not in found:
        found.add(number)
        try:
            number = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            break
    return found


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
