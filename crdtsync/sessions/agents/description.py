"""What a session tells of itself, and reading its lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

TITLE_CHARS_MAX = 80

NOTE = "[Note of crdtsync to "
"""Begins what a session that was handed over is told first."""


@dataclass(slots=True)
class Description:
    """What is shown of a session. ``turns`` counts what a person said; ``tokens`` are those of the model's last answer
    and of all that it was sent for it; ``needs`` are sessions that it goes on from.
    """

    title: str = ""
    cwd: str = ""
    version: str = ""
    model: str = ""
    turns: int = 0
    tokens: int = 0
    needs: list[str] = field(default_factory=list)

    def said(self, text: str) -> None:
        """Note what a person has said."""
        self.turns += 1
        if not self.title:
            self.title = titled(text)


def added(counts: dict[str, Any], *names: str) -> int:
    """The sum of these counts of tokens."""
    return sum(count for count in map(counts.get, names) if isinstance(count, int))


def titled(text: str) -> str:
    """``text`` as a title: one line, not long."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= TITLE_CHARS_MAX else f"{line[: TITLE_CHARS_MAX - 1]}…"


def records(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The objects in JSON lines; a line that is torn, or no object, is passed over, as the agents do."""
    for line in lines:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found


def as_dict(value: object) -> dict[str, Any]:
    """``value`` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """``value`` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    """``value`` if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""
