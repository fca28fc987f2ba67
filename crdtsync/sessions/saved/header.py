"""The header of a saved session, besides its lines: one record under ``sessions/ID``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PureWindowsPath
from typing import Any, Self

from crdtsync.client import Entry
from crdtsync.errors import InvalidRequest

HEADERS = "sessions/"
LINES = "sessions.lines/"
EXCLUDED = "sessions.excluded/"
LIMITS = "sessions.limits"
"""Limits of what is kept: how old, and how much."""
FOLLOWED = "follows a session"
"""The role of a card whose status is the id of the session that its agent follows."""
MAIN = "main"
"""The name of a session's first file; others are called as they are beside it."""
FILES_MAX = 1000
"""Beside a session's first one."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def header_key(session: str) -> str:
    """The key of the record of ``session``."""
    return HEADERS + session


def excluded_key(session: str) -> str:
    """The key of the set of turns of ``session`` that are excluded, by their numbers."""
    return EXCLUDED + session


def lines_key(session: str, file: str) -> str:
    """The key of the log that holds the lines of a file of ``session``."""
    return f"{LINES}{session}/{file}"


def large_key(session: str, digest: bytes) -> str:
    """The key of the blob that holds a large line of ``session``."""
    return lines_key(session, f".large/{digest.hex()}")


@dataclass(slots=True)
class SavedFile:
    """One file of a session: the digest that its last saved piece has, and how much that is."""

    end: bytes
    bytes: int
    lines: int


@dataclass(slots=True)
class Saved:
    """A saved session.

    ``id`` is the agent's own id of it. ``cwd``, ``home``, ``user``, ``host`` say where it was saved last, ``place`` is
    its main file below ``root``, the agent's directory there. ``redacted`` counts the secrets that were
    replaced, by kind; None: nothing was looked for. ``needs`` are other sessions without which the agent cannot resume
    it. ``tokens`` are those of the model's last answer with all that it was sent for it, and ``commit`` is what git had
    checked out in ``cwd``. ``time`` is that of the last save, ``node`` the name of the host's daemon.
    """

    agent: str
    id: str
    title: str
    cwd: str
    home: str
    user: str
    host: str
    root: str
    place: str
    turns: int
    model: str
    version: str
    files: dict[str, SavedFile]
    redacted: dict[str, int] | None
    needs: list[str] = field(default_factory=list)
    tokens: int = 0
    commit: str = ""
    time: datetime | None = None
    node: str = ""

    def __post_init__(self) -> None:
        for name in (*_TEXTS, "commit"):
            if _CONTROL.search(getattr(self, name)):
                raise InvalidRequest(f"session {self.id} cannot be saved: its {name} has control characters")

    @property
    def bytes(self) -> int:
        """Bytes of all its files."""
        return sum(file.bytes for file in self.files.values())

    def join_redacted(self, before: Saved | None) -> None:
        """Count also what was replaced when this session was saved elsewhere."""
        if before is None or before.redacted is None or self.redacted is None:
            return
        kinds = {*self.redacted, *before.redacted}
        self.redacted = {kind: max(self.redacted.get(kind, 0), before.redacted.get(kind, 0)) for kind in sorted(kinds)}

    def says_more_than(self, before: Saved) -> bool:
        """Whether there is more to tell than what every answer changes: how far the files go, and the tokens."""
        same = {"tokens": 0, "files": set(self.files) - set(before.files)}
        return {**self.plain(), **same} != {**before.plain(), **same, "files": set()}

    def plain(self) -> dict[str, Any]:
        """As it is stored."""
        fields = {name: getattr(self, name) for name in _TEXTS}
        files = {name: [file.end, file.bytes, file.lines] for name, file in self.files.items()}
        more = {"tokens": self.tokens, "commit": self.commit}
        return {**fields, **more, "turns": self.turns, "files": files, "redacted": self.redacted, "needs": self.needs}

    @classmethod
    def found(cls, session: str, value: Any, entry: Entry | None = None) -> Self | None:
        """The record that ``value`` holds, if it is one."""
        try:
            return cls.from_plain(session, value, entry)
        except InvalidRequest:
            return None

    @classmethod
    def from_plain(cls, session: str, value: Any, entry: Entry | None = None) -> Self:
        """The record that ``value`` holds; :class:`~crdtsync.errors.InvalidRequest` if that is none: others may write
        there, too.
        """
        try:
            texts = {name: str(value[name]) for name in _TEXTS}
            if texts["id"] != session or (texts["cwd"] and not is_absolute(texts["cwd"])):
                raise ValueError(session)
            files = {str(name): SavedFile(_bytes(end), int(size), int(lines)) for name, (end, size, lines)
                     in value["files"].items()}  # fmt: skip
            redacted, needs = value["redacted"], value["needs"]
            counts = {str(kind): int(count) for kind, count in redacted.items()} if redacted is not None else None
            if len(files) > FILES_MAX + 1 or not isinstance(needs, list):
                raise ValueError(session)
            needs = [str(one) for one in needs]
            tokens, commit = int(value.get("tokens", 0)), str(value.get("commit", ""))
            return cls(
                **texts, turns=int(value["turns"]), files=files, redacted=counts, needs=needs, tokens=tokens,
                commit=commit, time=entry.time if entry else None, node=entry.node or "" if entry else "",
            )  # fmt: skip
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError, InvalidRequest) as error:
            message = f"{header_key(session)} holds no saved session: delete it, or save under that id again"
            raise InvalidRequest(message) from error


_TEXTS = ("agent", "id", "title", "cwd", "home", "user", "host", "root", "place", "model", "version")


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(type(value))
    return value


def is_absolute(path: str) -> bool:
    """Whether it is a whole path, on whatever system."""
    return path.startswith("/") or PureWindowsPath(path).is_absolute()
