"""Doctor: looks a host over: what can be seen without a daemon, then what the daemon says of itself.

Open first: :func:`examine`. It yields findings as soon as they are known; ``crdtsync doctor`` prints them. Each
finding is ok, a warning or a problem, and what is not ok comes with a remedy.

Example: no daemon answers. ``examine`` says so, and from ``host`` it says why: the unit has failed, since the data
directory belongs to another user; and what to do.

Modules:

- ``finding``: what a check has found
- ``settings``: which settings are judged: those of the daemon that runs, if that can be told
- ``host``: files and their rights, disk, clock, units
- ``ports``: the addresses of the settings: can they be had, can they be reached
- ``hung_daemon``: one that listens and does not answer
- ``running_daemon``: alarms, peers and clocks, as the daemon says
- ``views``: named views whose sources outgrow them

To add a check: a function that yields findings in the module of its subject, and its call in ``examine``. The remedy of
an alarm stands in :mod:`crdtsync.core.alarm_catalogue`.

May import: every room of the daemon below it (see :mod:`crdtsyncd`), the public client, and ``crdtsync.context``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crdtsyncd.config.model import Config, default_data_dir
from crdtsyncd.doctor.finding import Finding, ok, problem, warning
from crdtsyncd.doctor.host import examine_clock, examine_data, examine_disk, examine_units
from crdtsyncd.doctor.hung_daemon import examine_hung, listener_of
from crdtsyncd.doctor.ports import examine_ports
from crdtsyncd.doctor.running_daemon import examine_status
from crdtsyncd.doctor.settings import examine_settings
from crdtsyncd.doctor.views import examine_views
from crdtsyncd.service.install_units import SERVICE_DATA, installed_places, is_service_here

from crdtsync.errors import ConfigError, CrdtSyncError, DaemonUnavailable, Timeout

__all__ = ["Finding", "examine"]

TIMEOUT_S = 5.0
HUNG_S = 4.0
"""A caller that has waited for so long waits for a daemon that is there."""


def examine(socket: str | None, config_file: str | None, data_dir: str | None) -> Iterator[Finding]:
    """Every finding, as soon as it is known."""
    yield from examine_units()  # before the daemon is asked: a connection makes systemd try to start it
    status, pid, finding = _ask(socket)
    yield finding
    runs = status is not None or bool(pid)
    config, finding = examine_settings(config_file, pid or None)
    yield finding
    place = Path(data_dir) if data_dir is not None else _data_dir(config, status)
    yield from examine_data(place, runs=runs)
    yield from examine_disk(place, config)
    yield from examine_clock(place)
    if config is not None:
        told = [peer.get("url") for peer in status["peers"]] if status is not None else []
        yield from examine_ports(config, told if runs else None)
    if status is not None:
        yield from examine_status(status)
        yield from examine_views(socket, TIMEOUT_S)


def _ask(socket: str | None) -> tuple[dict[str, Any] | None, int, Finding]:
    """A daemon's status, and its pid; None: it does not answer, 0: there is none, or it cannot be told."""
    from crdtsync.client import Client

    began_s = time.monotonic()
    try:
        with Client(socket=socket, agent="doctor", timeout=TIMEOUT_S) as client:
            status = client.status()
    except (DaemonUnavailable, Timeout) as error:
        waited_s = time.monotonic() - began_s
        pid = _listener(socket) if waited_s >= HUNG_S else 0
        if pid:
            return None, pid, examine_hung(pid, waited_s)
        remedy = "sudo crdtsync service install starts it as a service; crdtsyncd in a terminal, for a trial"
        if _is_installed():
            remedy = "see above, under service, why it does not run"
        if "may not open" in error.message:
            remedy = "do that, or run this with sudo"
        return None, 0, problem("daemon", error.message, remedy)
    except CrdtSyncError as error:
        remedy = "look at its log: journalctl --unit crdtsyncd; and see above, under service"
        return None, 0, problem("daemon", f"it listens and does not answer as it should: {error.message}", remedy)
    pid = int(status["node"]["pid"])
    if status.get("limited"):
        remedy = "run this as root, or as the user that crdtsyncd runs as, without an agent key"
        return None, 0, problem("daemon", "it does not show this agent how it is, who may not read everything", remedy)
    return status, pid, _version(status["node"])


def _listener(socket: str | None) -> int:
    from crdtsync.client.protocol.address import socket_paths

    return next(filter(None, map(listener_of, socket_paths(socket))), 0)


def _is_installed() -> bool:
    try:
        return bool(installed_places())
    except ConfigError:
        return False


def _version(node: dict[str, Any]) -> Finding:
    from importlib.metadata import version

    mine, said = version("crdtsync"), f"{node['name']}, version {node['version']}, pid {node['pid']}"
    if node["version"] == mine:
        return ok("daemon", said)
    remedy = "restart the daemon, so that it runs what is installed: sudo systemctl restart crdtsyncd"
    return warning("daemon", f"{said}, and this command is of version {mine}", remedy)


def _data_dir(config: Config | None, status: dict[str, Any] | None) -> Path:
    """Where the daemon that answers keeps its data; else where one with these settings would."""
    if status is not None:
        return Path(status["store"]["path"]).parent
    if (config is None or "data_dir" not in config.model_fields_set) and os.geteuid() == 0 and is_service_here():
        return SERVICE_DATA
    return config.data_dir if config is not None else default_data_dir()
