"""Operations of agents that concern the daemon's process and files, not the state: the shell carries them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from crdtsync.errors import InvalidRequest

if TYPE_CHECKING:
    from crdtsync.core.access.agent import Agent
    from crdtsync.core.kinds.arguments import Arguments

SERVICE_OPERATIONS = ("backup", "log_level", "metrics")

Service = Callable[[int, Mapping[str, Any]], object]
"""Called with connection and arguments; returns the result, or raises what the agent is told."""


def host_requests(services: Mapping[str, Service]) -> dict[str, Callable[[Agent, int, Arguments], object]]:
    """The handlers by operation; in a simulated world there is no shell that knows any."""

    def handler(name: str) -> Callable[[Agent, int, Arguments], object]:
        def serve(agent: Agent, _request: int, args: Arguments) -> object:
            if name not in services:
                raise InvalidRequest(f"{name} is not served here")
            return services[name](agent.conn, args)

        return serve

    return {name: handler(name) for name in SERVICE_OPERATIONS}
