"""The addresses of the settings: those to listen on, those of peers, that of the metrics."""

from __future__ import annotations

import errno
import socket
from collections.abc import Collection, Iterator
from urllib.parse import urlsplit

from crdtsyncd.config.host_port import PEER_PORT_DEFAULT, split_address
from crdtsyncd.config.model import Config
from crdtsyncd.doctor.finding import Finding, ok, problem, warning

TIMEOUT_S = 2.0


def examine_ports(config: Config, told: Collection[str] | None) -> Iterator[Finding]:
    """Whether each address can be listened on or is, and whether each peer's can be reached.

    ``told``: the addresses of the peers that a running daemon tells of itself; None: none runs.
    """
    wanted = [*config.listen, *([config.metrics_listen] if config.metrics_listen else [])]
    for address in wanted:
        host, port = split_address(address)
        yield _answers(address, host, port) if told is not None else _is_free(address, host, port)
    for url in config.peers:
        if url in (told or ()):
            continue  # of which it knows better
        parts = urlsplit(url)
        yield _reaches(url, str(parts.hostname), parts.port or PEER_PORT_DEFAULT)


def _answers(address: str, host: str, port: int) -> Finding:
    fault = _connect(host, port)
    if not fault:
        return ok("ports", f"{address} answers")
    remedy = "restart the daemon, so that it reads the settings; if it says that the address is in use, choose another"
    return problem("ports", f"the settings say {address}, and nothing answers there: {fault}", remedy)


def _is_free(address: str, host: str, port: int) -> Finding:
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        what = "another program has it" if error.errno == errno.EADDRINUSE else str(error.strerror or error)
        return problem(
            "ports",
            f"{address} cannot be had: {what}",
            f"choose another, or see who has it: ss -ltnp 'sport = :{port}'",
        )
    return ok("ports", f"{address} is free")


def _reaches(url: str, host: str, port: int) -> Finding:
    fault = _connect(host, port)
    if not fault:
        return ok("peers", f"{url} can be reached")
    remedy = "see that the peer's daemon runs and listens there, and that no firewall is between"
    return warning("peers", f"{url} cannot be reached: {fault}", remedy)


def _connect(host: str, port: int) -> str:
    """Why nothing answers there; empty if something does."""
    try:
        socket.create_connection((host, port), TIMEOUT_S).close()
    except OSError as error:
        return str(error.strerror or error)
    return ""
