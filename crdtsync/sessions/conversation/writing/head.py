"""What a new session is told of itself."""

from __future__ import annotations

from dataclasses import dataclass

COMPACTED = "[The conversation before this was made compact. What was left of it:]"


@dataclass(frozen=True, slots=True)
class Head:
    """``id`` of the new session, the directory it works in, the time that stands where an item has none (RFC 3339), and
    the note that comes before the conversation; ``model``, where the agent must be told it, as PROVIDER/MODEL.
    """

    id: str
    cwd: str
    time: str
    note: str
    title: str = ""
    model: str = ""
