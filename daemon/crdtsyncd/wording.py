"""Words for people."""

from __future__ import annotations


def counted(count: int, what: str) -> str:
    """``1 agent``, ``2 agents``."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")
