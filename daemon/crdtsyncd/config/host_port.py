"""``HOST:PORT``, and which hosts are this machine itself."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

PEER_PORT_DEFAULT = 7420
PLAIN_JOINS_NONE = (
    "this daemon runs with --insecure-loopback, in plain text: start it without that option to make "
    "it part of a cluster"
)


def split_address(address: str) -> tuple[str, int]:
    """``HOST:PORT`` or ``HOST`` in parts; ``[::1]:7420`` for IPv6."""
    try:
        parts = urlsplit(f"//{address}")
        if not parts.hostname or parts.path or parts.username:
            raise ValueError(address)
        return parts.hostname, PEER_PORT_DEFAULT if parts.port is None else parts.port
    except ValueError:
        raise ValueError(f"{address!r} is not HOST:PORT, such as 127.0.0.1:{PEER_PORT_DEFAULT}") from None


def is_loopback(host: str) -> bool:
    """Whether ``host`` is this machine's loopback, by its form alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.split("%", 1)[0]).is_loopback
    except ValueError:
        return False
