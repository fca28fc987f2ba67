"""Whether an address that is to stand in an invite could lead anybody to this node, by its form alone."""

from __future__ import annotations

import ipaddress
import re

from crdtsync.errors import InvalidRequest, Refused
from crdtsync.wire.limits import shown

_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+(?:%[\w.-]+)?)\]|(?P<name>[^\[\]:/@?#%\s]+)):(?P<port>[0-9]{1,5})")
_LABEL = r"\w(?:[\w-]{0,61}\w)?"
_NAME = re.compile(rf"(?:{_LABEL}\.)*{_LABEL}")
_PORT_MAX = 65535


def check_invite_address(address: str, *, is_local: bool) -> None:
    """``HOST:PORT`` that leads here from other hosts; with ``is_local``, from this one.

    :raises InvalidRequest: it is no ``HOST:PORT``.
    :raises Refused: it leads from every host to that host itself.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise InvalidRequest(
            f"the address {shown(address)} is not HOST:PORT, such as host-a.example:7420 or [2001:db8::1]:7420"
        )
    if not 1 <= int(match["port"]) <= _PORT_MAX:
        raise InvalidRequest(f"the port of the address {shown(address)} is not from 1 to {_PORT_MAX}")
    found = _ip(match["v6"] or match["name"])
    if found is None:
        name = (match["name"] or "").removesuffix(".").lower()
        if match["v6"] or not _NAME.fullmatch(name) or name.rpartition(".")[2].isdigit():
            raise InvalidRequest(
                f"the address {shown(address)} names no host: give a name or an IP address, and a port"
            )
        is_loopback, is_wildcard = name == "localhost" or name.endswith(".localhost"), False
    else:
        is_loopback, is_wildcard = found.is_loopback, found.is_unspecified
    if is_local:
        return
    if is_wildcard:
        raise Refused(
            f"the address {shown(address)} stands for all interfaces and can only be listened on, so no other host "
            "could use the invite: name one at which others reach this node",
            "unreachable",
        )
    if is_loopback:
        raise Refused(
            f"the address {shown(address)} is loopback, which leads every host to itself, so no other host could "
            "use the invite; for daemons of this machine alone there is --local",
            "unreachable",
        )


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
