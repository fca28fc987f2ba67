"""At which addresses other hosts can reach this daemon."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from crdtsyncd.config.host_port import is_loopback, split_address
from crdtsyncd.telemetry.event_log import log

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

_ADVERTISED_ONLY = (
    "this node advertises {addresses} and listens nowhere, so no other host could use an invite: have it listen with "
    "crdtsync cluster init --listen 0.0.0.0:7420, or with listen in its configuration"
)
_INTERFACES_UNKNOWN = (
    "this node listens on {listening}, and the addresses of this machine cannot be read ({why}): name one at which "
    "others reach it, with crdtsync cluster invite --address HOST:PORT or with advertise in its configuration"
)
_NO_INTERFACE = (
    "this node listens on {listening}, and no interface of this machine has an address but loopback, so no other host "
    "could use an invite: connect it to a network, or name another address with crdtsync cluster invite --address "
    "HOST:PORT or with advertise in its configuration; for daemons of this machine alone there is --local"
)


def reachable(listening: Sequence[str], advertised: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The addresses to tell others, and why nobody could reach this node, if so.

    ``listening`` is ``HOST:PORT`` of every listener, where an address that stands for all interfaces means those of
    this machine, without loopback unless there are no others; ``advertised`` is what the configuration says instead.
    """
    if advertised and not listening:
        return (), _ADVERTISED_ONLY.format(addresses=", ".join(advertised))
    if advertised:
        return tuple(_joined(*split_address(address)) for address in advertised)[:ADDRESSES_MAX], ""
    if not listening:
        return (), _NOWHERE
    found: dict[str, None] = {}
    on_all: list[str] = []
    why = ""
    for address in listening:
        host, port = split_address(address)
        if not _is_wildcard(host):
            found[_joined(host, port)] = None
            continue
        on_all.append(address)
        try:
            found |= dict.fromkeys(_joined(each, port) for each in _interfaces(host))
        except OSError as error:  # a service may be kept from asking
            why = error.strerror or str(error)
            log("interfaces_unknown", level="error", reason=why)
    addresses = tuple(found)[:ADDRESSES_MAX]
    if not all(is_loopback(split_address(each)[0]) for each in addresses):
        return addresses, ""
    if why:
        return addresses, _INTERFACES_UNKNOWN.format(listening=", ".join(on_all), why=why)
    if on_all:
        local = [_joined(_loopback_of(split_address(each)[0]), split_address(each)[1]) for each in on_all]
        return (*addresses, *local)[:ADDRESSES_MAX], _NO_INTERFACE.format(listening=", ".join(on_all))
    return addresses, _LOOPBACK


def _loopback_of(wildcard: str) -> str:
    return "127.0.0.1" if ipaddress.ip_address(wildcard).version == 4 else "::1"


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _interfaces(wildcard: str) -> list[str]:
    """The addresses of this machine's interfaces, of the family of ``wildcard``; IPv6's stands for its family alone.

    :raises OSError: they are not to be had.
    """
    import ifaddr  # only where somebody listens on all interfaces: it takes some ms of every start

    wants_v4 = ipaddress.ip_address(wildcard).version == 4
    found = []
    for adapter in ifaddr.get_adapters():
        for each in adapter.ips:
            text = each.ip if isinstance(each.ip, str) else each.ip[0]
            address = ipaddress.ip_address(text)
            if (address.version == 4) == wants_v4 and not address.is_loopback and not address.is_link_local:
                found.append(str(address))
    return sorted(found)


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
