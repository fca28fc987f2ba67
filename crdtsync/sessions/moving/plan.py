"""What loading does to each file: it is new here, the same, gone on with, ahead, or something else is in its way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from crdtsync.errors import Refused
from crdtsync.sessions.moving import files
from crdtsync.sessions.redaction.redactor import Redactor

NEW, SAME, GROWN, AHEAD = "new", "same", "grown", "ahead"


@dataclass(frozen=True, slots=True)
class Move:
    """What is to happen to the file at ``path``: ``state``, and ``content`` to be written, from byte ``size`` on."""

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


def move(path: Path, lines: Iterable[bytes], session: str, redactor: Redactor | None) -> Move:
    """How ``path`` becomes a file of ``lines``, which were saved by way of ``redactor``.

    What is there is compared without its secrets, and keeps them. Raises :class:`~crdtsync.errors.Refused` where
    something would be lost, or would change under a program that uses it.
    """
    wanted = b"".join(lines)
    if not path.exists():
        return Move(path, NEW, 0, wanted)
    with path.open("rb") as file:
        raw = list(file)
    there = b"".join(raw if redactor is None else redactor.lines(raw))
    if there == wanted:
        return Move(path, SAME, 0, b"")
    if there.startswith(wanted):
        return Move(path, AHEAD, 0, b"")
    if not wanted.startswith(there):
        message = (
            f"{path} is there and is not what was saved: it went on in another way, or is another one; "
            f"save it first (crdtsync session save {session}), then move it away"
        )
        raise Refused(message)
    user = files.user_of(path, session)
    if user is not None:
        raise Refused(f"{path} is in use by process {user}: end that, then load again")
    return Move(path, GROWN, sum(map(len, raw)), wanted[len(there) :])
