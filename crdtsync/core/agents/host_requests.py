"""Operations of agents that concern the daemon's process and files, not the state: the shell carries them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from crdtsync.errors import InvalidRequest

SERVICE_OPERATIONS = ("backup", "log_level", "metrics")

Service = Callable[[int, Mapping[str, Any]], object]
"""Called with connection and arguments; returns the result, or raises what the agent is told."""


def serve(services: Mapping[str, Service], name: str, conn: int, args: Mapping[str, Any]) -> object:
    """Hand an operation to the shell.

    :raises InvalidRequest: there is no shell that knows it, as in a simulated world.
    """
    service = services.get(name)
    if service is None:
        raise InvalidRequest(f"{name} is not served here")
    return service(conn, args)
