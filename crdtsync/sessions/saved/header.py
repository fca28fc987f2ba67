"""What is known of a saved session besides its lines: one record under ``sessions/ID``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from crdtsync.errors import InvalidRequest

HEADERS = "sessions/"
LINES = "sessions.lines/"
EXCLUDED = "sessions.excluded/"
FOLLOWED = "follows a session"
"""The role of a card whose status is the id of the session that its agent follows."""
MAIN = "main"
"""The name of a session's first file; others are called as they are beside it."""


def header_key(session: str) -> str:
    """The key of the record of ``session``."""
    return HEADERS + session


def excluded_key(session: str) -> str:
    """The key of the set of turns of ``session`` that are excluded, by their numbers."""
    return EXCLUDED + session


def lines_key(session: str, file: str) -> str:
    """The key of the log that holds the lines of a file of ``session``."""
    return f"{LINES}{session}/{file}"


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
    it. ``time`` is that of the last save.
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
    time: datetime | None = None

    @property
    def bytes(self) -> int:
        """Of all its files."""
        return sum(file.bytes for file in self.files.values())

    def join_redacted(self, before: Saved | None) -> None:
        """Count also what was replaced when this session was saved elsewhere."""
        if before is None or before.redacted is None or self.redacted is None:
            return
        kinds = {*self.redacted, *before.redacted}
        self.redacted = {kind: max(self.redacted.get(kind, 0), before.redacted.get(kind, 0)) for kind in sorted(kinds)}

    def plain(self) -> dict[str, Any]:
        """As it is stored."""
        fields = {name: getattr(self, name) for name in _TEXTS}
        files = {name: [file.end, file.bytes, file.lines] for name, file in self.files.items()}
        return {**fields, "turns": self.turns, "files": files, "redacted": self.redacted, "needs": self.needs}

    @classmethod
    def from_plain(cls, session: str, value: Any, time: datetime | None = None) -> Self:
        """The record that ``value`` holds; :class:`~crdtsync.errors.InvalidRequest` if that is none."""
        try:
            texts = {name: str(value[name]) for name in _TEXTS}
            if texts["id"] != session:
                raise ValueError(texts["id"])
            files = {str(name): SavedFile(bytes(end), int(size), int(lines)) for name, (end, size, lines)
                     in value["files"].items()}  # fmt: skip
            redacted = value["redacted"]
            counts = {str(kind): int(count) for kind, count in redacted.items()} if redacted is not None else None
            needs = [str(one) for one in value["needs"]]
            return cls(**texts, turns=int(value["turns"]), files=files, redacted=counts, needs=needs, time=time)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"{header_key(session)} holds no saved session: delete it, or save under that id again"
            raise InvalidRequest(message) from error


_TEXTS = ("agent", "id", "title", "cwd", "home", "user", "host", "root", "place", "model", "version")


def is_header(value: object) -> bool:
    """Whether ``value`` looks like a record of this room; others may write under its keys."""
    return isinstance(value, Mapping) and "files" in value and "agent" in value
