"""``HOST:PORT``, and which hosts are this machine itself."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

PEER_PORT_DEFAULT = 7420
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z.-]+)(?::[0-9]{1,5})?")
PLAIN_JOINS_NONE = (
    "this daemon runs with --insecure-loopback, in plain text: start it without that option to make "
    "it part of a cluster"
)


def split_address(address: str) -> tuple[str, int]:
    """``HOST:PORT`` or ``HOST`` in parts; ``[::1]:7420`` for IPv6."""
    try:
        parts = urlsplit(f"//{address}")
        if not parts.hostname or parts.path or "@" in address:
            raise ValueError(address)
        return parts.hostname, PEER_PORT_DEFAULT if parts.port is None else parts.port
    except ValueError:
        raise ValueError(f"{address!r} is not HOST:PORT, such as 127.0.0.1:{PEER_PORT_DEFAULT}") from None


def names_loopback(header: str) -> bool:
    """Whether an HTTP ``Host`` header is of this machine's loopback: a host and perhaps a port, and nothing else.

    A web page can have a name of its own point to loopback (DNS rebinding); its browser then sends that name.
    """
    found = _HOST.fullmatch(header)
    return found is not None and is_loopback(found[1].strip("[]").lower())


def is_loopback(host: str) -> bool:
    """Whether ``host`` is this machine's loopback, by its form alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.split("%", 1)[0]).is_loopback
    except ValueError:
        return False
