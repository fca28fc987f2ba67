"""Names of nodes, for people."""

from __future__ import annotations

NAMES_MAX = 20
"""How many nodes a message names one by one."""


def names(nodes: list[str]) -> str:
    """A list of nodes for a message; of many, the first."""
    more = len(nodes) - NAMES_MAX
    return ", ".join(nodes) if more <= 0 else f"{', '.join(nodes[:NAMES_MAX])} and {more:,} more"
