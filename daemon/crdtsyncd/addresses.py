"""At which addresses other hosts can reach this daemon."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import ifaddr
from crdtsyncd.hostport import is_loopback, split_address
from crdtsyncd.telemetry import log

from crdtsync.wire.invites import ADDRESSES_MAX

_NOWHERE = (
    "this node does not listen for peers, so no other host could use an invite: give it an address with "
    "crdtsync cluster init --listen 0.0.0.0:7420, or with listen in its configuration"
)
_LOOPBACK = (
    "this node listens on loopback only, so no other host could use an invite: give it another address with "
    "crdtsync cluster init --listen 0.0.0.0:7420, or with listen in its configuration; "
    "for daemons of this machine alone there is --local"
)


def reachable(listening: Sequence[str], advertised: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The addresses to tell others, and why nobody could reach this node, if so.

    ``listening`` is ``HOST:PORT`` of every listener, where an address that stands for all interfaces means those of
    this machine, without loopback; ``advertised`` is what the configuration says instead.
    """
    if advertised:
        return tuple(_joined(*split_address(address)) for address in advertised)[:ADDRESSES_MAX], ""
    found: dict[str, None] = {}
    for address in listening:
        host, port = split_address(address)
        for each in _interfaces(host) if _is_wildcard(host) else [host]:
            found[_joined(each, port)] = None
    addresses = tuple(found)[:ADDRESSES_MAX]
    if not addresses:
        return (), _NOWHERE
    return addresses, _LOOPBACK if all(is_loopback(split_address(each)[0]) for each in addresses) else ""


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _interfaces(wildcard: str) -> list[str]:
    """The addresses of this machine's interfaces, of the family of ``wildcard``; IPv6's stands for its family alone."""
    wants_v4 = ipaddress.ip_address(wildcard).version == 4
    found = []
    try:
        adapters = list(ifaddr.get_adapters())
    except OSError as error:  # a service may be kept from asking
        log("interfaces_unknown", level="error", reason=str(error.strerror))
        return []
    for adapter in adapters:
        for each in adapter.ips:
            text = each.ip if isinstance(each.ip, str) else each.ip[0]
            address = ipaddress.ip_address(text)
            if (address.version == 4) == wants_v4 and not address.is_loopback and not address.is_link_local:
                found.append(str(address))
    return sorted(found)


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
