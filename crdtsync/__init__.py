"""crdtsync: shared state for fleets of AI agents, kept by a daemon on every host and merged without conflicts lost.

An agent imports :class:`Client` or :class:`AsyncClient` from here, and the errors that they raise. Each name is
imported when it is first used, so that ``import crdtsync`` costs next to nothing.

Rooms and modules, top to bottom; each may import those below it (``pyproject.toml`` holds the order):

- ``ui``: the page for people
- ``sessions``: of coding agents, taken along to other hosts
- ``adapters``: the state behind the interfaces of agent frameworks; of the agent layer
- ``mcp``: the shared state for coding agents; of the agent layer
- ``yjs``: Yjs editors join texts; of the agent layer
- ``context``: what goes into a model's window; of the agent layer
- ``coordination``: who does what, who is here; of the agent layer. The client's methods of that name open it
- ``client``: the library that agents import
- ``core``: the state machine that the daemon runs; client and core know nothing of each other
- ``wire``: bytes in, values out: framing, changes, messages, tokens, limits
- ``causality``: version vectors, dots, frontiers, clocks
- ``differences``: what turns one text into another
- ``lazy``: names of a package that are imported when they are first used
- ``loopback``: a port that only its user may use
- ``visible``: text that does only what it shows
- ``errors``: every error, under one root
- ``named_tuple``: named tuples whose classes are made quickly

The daemon is another package, ``crdtsyncd``. Nothing here imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crdtsync.client import AsyncClient, Client
    from crdtsync.errors import (
        ClaimHeld,
        ClaimLost,
        CrdtSyncError,
        DaemonUnavailable,
        InvalidRequest,
        InvalidValue,
        KindMismatch,
        NoSpace,
        NotAllowed,
        OutcomeUnknown,
        QuotaExceeded,
        RanksLower,
        Refused,
        SchemaMismatch,
        StaleRead,
        Timeout,
        TooLarge,
        TooManySiblings,
        TooOld,
        UnknownSpace,
        Unresolved,
        VersionMismatch,
    )

    __version__: str

_CLIENTS = ("AsyncClient", "Client")

__all__ = [
    "AsyncClient",
    "ClaimHeld",
    "ClaimLost",
    "Client",
    "CrdtSyncError",
    "DaemonUnavailable",
    "InvalidRequest",
    "InvalidValue",
    "KindMismatch",
    "NoSpace",
    "NotAllowed",
    "OutcomeUnknown",
    "QuotaExceeded",
    "RanksLower",
    "Refused",
    "SchemaMismatch",
    "StaleRead",
    "Timeout",
    "TooLarge",
    "TooManySiblings",
    "TooOld",
    "UnknownSpace",
    "Unresolved",
    "VersionMismatch",
    "__version__",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = _find(name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _find(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("crdtsync")
    if name in _CLIENTS:
        from crdtsync import client

        return getattr(client, name)
    from crdtsync import errors

    return getattr(errors, name)
