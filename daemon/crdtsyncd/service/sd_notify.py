"""Services of systemd: notifications (sd_notify(3)), sockets that it opened (sd_listen_fds(3)), a watchdog.

Without systemd all of this does nothing.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

LISTEN_FD_FIRST = 3
STATUS_INTERVAL_S = 10.0
WATCHDOG_PINGS_PER_TIMEOUT = 3
_told: set[str] = set()


def notify(*states: str) -> None:
    """Send ``NAME=value`` states to the manager that started us, if one did."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock, suppress(OSError):
        sock.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        sock.send("\n".join(states).encode())
        _told.update(state for state in states if state == "READY=1")


def is_starting() -> bool:
    """Whether a manager has started us and has not been told yet that we are ready."""
    return bool(os.environ.get("NOTIFY_SOCKET")) and not _told


def notify_reloading() -> None:
    """A reload has begun; ``READY=1`` ends it. The time tells the manager which reload this is."""
    notify("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")


def inherited_sockets() -> dict[str, list[socket.socket]]:
    """The listening sockets that the manager opened for this process, by ``FileDescriptorName=``.

    File descriptors come in no promised order, so only names tell what they are for. Call once: the variables are taken
    out of the environment, for they are not meant for processes that this one starts.
    """
    pid, count, names = (os.environ.pop(name, "") for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"))
    found: defaultdict[str, list[socket.socket]] = defaultdict(list)
    if pid != str(os.getpid()) or not count.isdigit():
        return found
    labels = names.split(":") if names else []
    for index in range(int(count)):
        descriptor = LISTEN_FD_FIRST + index
        os.set_inheritable(descriptor, False)
        found[labels[index] if index < len(labels) else "unknown"].append(socket.socket(fileno=descriptor))
    return found


class TurnLoop(Protocol):
    """The part that must be seen to move before the watchdog is told that all is well."""

    progress: int

    async def turn(self) -> None:
        """Make one whole turn: step, commit, deliver."""


async def report(worker: TurnLoop, status: Callable[[], str]) -> None:
    """Keep the manager informed: what the service does, and, for its watchdog, that it gets on.

    The watchdog is pinged only after the worker has made a turn. A daemon whose event loop runs and whose work is stuck
    is as dead as one that hangs. Runs until cancelled.
    """
    if not os.environ.get("NOTIFY_SOCKET"):
        return
    timeout_s = _watchdog_timeout_s()
    interval_s = min(STATUS_INTERVAL_S, timeout_s / WATCHDOG_PINGS_PER_TIMEOUT) if timeout_s else STATUS_INTERVAL_S
    while True:
        before = worker.progress
        await worker.turn()
        states = [f"STATUS={status()}"]
        if timeout_s and worker.progress > before:
            states.append("WATCHDOG=1")
        notify(*states)
        await asyncio.sleep(interval_s)


def _watchdog_timeout_s() -> float | None:
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 1e6 if microseconds.isdigit() and int(microseconds) > 0 else None
