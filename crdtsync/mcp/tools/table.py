"""What a tool is, and which of them a server offers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mcp_types import ToolAnnotations

from crdtsync.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may call. ``writes``: it changes the state; ``destroys``: it takes something away."""

    function: Callable[..., Any]
    writes: bool = False
    destroys: bool = False
    repeatable: bool = False  # to call it twice does no more than to call it once

    @property
    def name(self) -> str:
        """What the model calls."""
        return self.function.__name__.rstrip("_")

    @property
    def annotations(self) -> ToolAnnotations:
        """What a client may tell its user, or decide by: whether to ask before it calls."""
        if not self.writes:  # what it would destroy or repeat means nothing then
            return ToolAnnotations(read_only_hint=True, open_world_hint=False)
        return ToolAnnotations(
            destructive_hint=self.destroys, idempotent_hint=self.repeatable or None, open_world_hint=False
        )


def offered(tools: Iterable[Tool], names: tuple[str, ...], *, read_only: bool) -> list[Tool]:
    """The tools of these ``names`` (none: all); without those that write, if ``read_only``.

    Raises :class:`~crdtsync.errors.InvalidRequest` for a name that no tool has.
    """
    all_tools = list(tools)
    unknown = set(names) - {tool.name for tool in all_tools}
    if unknown:
        message = f"no tool is called {min(unknown)!r}: there are {', '.join(tool.name for tool in all_tools)}"
        raise InvalidRequest(message)
    chosen = [tool for tool in all_tools if not names or tool.name in names]
    return [tool for tool in chosen if not (read_only and tool.writes)]
