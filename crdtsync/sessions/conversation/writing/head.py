"""What a new session is told of itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Head:
    """``id`` of the new session, the directory it works in, the time that stands where an item has none (RFC 3339), and
    the note that comes before the conversation.
    """

    id: str
    cwd: str
    time: str
    note: str
