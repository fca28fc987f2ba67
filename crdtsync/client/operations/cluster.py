"""Requests about the cluster that a node belongs to, as both clients make them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crdtsync.client.operations.keys import Operations
    from crdtsync.client.protocol.steps import Plan
    from crdtsync.client.session.request_context import Arguments

JOIN_TIMEOUT_S = 60.0


def ask(operations: Operations, name: str, arguments: Arguments) -> Plan[dict[str, Any]]:
    """One request, answered with an object."""
    reply = yield operations.call(name, arguments)
    return dict(reply)


def invite_arguments(ttl_s: float, uses: int, addresses: Sequence[str], local: bool) -> Arguments:
    """The arguments of ``cluster_invite``."""
    return {"ttl_ms": round(ttl_s * 1000), "uses": uses, "addresses": list(addresses), "local": local}


def join_arguments(invite: str, listen: Sequence[str], archive: bool) -> Arguments:
    """The arguments of ``cluster_join``."""
    return {"invite": invite, "listen": list(listen), "mode": "archive" if archive else ""}
