"""The plan of loading for each file: it is new here, the same, gone on with, ahead, or something else is in its way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from crdtsync.errors import Refused
from crdtsync.sessions.moving import files
from crdtsync.sessions.moving.paths import PathMap
from crdtsync.sessions.redaction.redactor import Redactor

NEW, SAME, GROWN, AHEAD = "new", "same", "grown", "ahead"


@dataclass(frozen=True, slots=True)
class Move:
    """The move for the file at ``path``: ``state``, and ``content`` to be written, from byte ``size`` on."""

    path: Path
    state: str
    size: int
    content: bytes

    def carry_out(self) -> None:
        """Write it, and flush it."""
        if self.state == NEW:
            files.create(self.path, [self.content])
        elif self.state == GROWN:
            files.extend(self.path, self.size, [self.content])


def move(
    path: Path,
    lines: Iterable[bytes],
    session: str,
    redactor: Redactor | None,
    paths: PathMap | None = None,
    *,
    is_export: bool = False,
) -> Move:
    """How ``path`` becomes a file of ``lines``, which were saved by way of ``redactor`` and rewritten by ``paths``.

    What is there is compared without its secrets, and keeps them; a path may stand there as it was elsewhere.
    ``is_export``: a last line without a line end says how it stood when it was written, and is no part of what grows.
    Raises :class:`~crdtsync.errors.Refused` where something would be lost, or would change under a program that uses
    it.
    """
    files.check_no_link(path)
    wanted, end = b"".join(lines), b""
    if not path.exists():
        return Move(path, NEW, 0, wanted)
    with path.open("rb") as file:
        raw = list(file)
    if is_export:
        raw = [line for line in raw if line.endswith(b"\n")]
        wanted, end = wanted[: wanted.rfind(b"\n") + 1], wanted[wanted.rfind(b"\n") + 1 :]
    there = list(raw if redactor is None else redactor.lines(raw))
    for form in (there, [] if paths is None else list(paths.twin().lines(there))):
        found = b"".join(form)
        if there and not form:
            continue
        if found.startswith(wanted):
            return Move(path, SAME if found == wanted else AHEAD, 0, b"")
        if wanted.startswith(found):
            user = files.user_of(path, session)
            if user is not None:
                raise Refused(f"{path} is in use by process {user}: end that, then load again")
            return Move(path, GROWN, sum(map(len, raw)), wanted[len(found) :] + end)
    raise Refused(
        f"{path} is there and is not what was saved: it went on in another way, or is another one; "
        f"save it first (crdtsync session save {session}), then move it away"
    )
