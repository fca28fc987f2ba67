"""Hosts with a network of their own each: namespaces on one bridge. Needs root and ``ip``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tests.harness.daemon import Daemon


def has_namespaces() -> bool:
    """Whether such hosts can be made here."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    return subprocess.run(["ip", "netns", "list"], capture_output=True, check=False).returncode == 0


def ip(*words: str) -> None:
    """Run ``ip``, which must succeed."""
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


class Lan:
    """A bridge, and hosts ``10.99.x.n`` on it, each in a namespace of its own."""

    def __init__(self, names: list[str]) -> None:
        self.tag = f"{os.getpid() % 0xFFFF:x}"
        self.bridge = f"csb{self.tag}"
        self.names = names
        self.daemons: dict[str, Daemon] = {}
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        ip("link", "add", self.bridge, "type", "bridge")
        ip("link", "set", self.bridge, "up")
        for number, name in enumerate(self.names, 1):
            space = self.space(name)
            ip("netns", "add", space)
            ip("link", "add", self.wire(name), "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", self.wire(name), "master", self.bridge, "up")
            ip("-n", space, "addr", "add", f"10.99.{os.getpid() % 250}.{number}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "link", "set", "lo", "up")

    def space(self, name: str) -> str:
        """Its namespace."""
        return f"cs{self.tag}{name}"

    def wire(self, name: str) -> str:
        """The bridge's end of its link."""
        return f"csv{self.tag}{name}"

    def address(self, name: str) -> str:
        """Where others reach it."""
        return f"10.99.{os.getpid() % 250}.{self.names.index(name) + 1}"

    def start(self, name: str, *, prefix: Sequence[str] = (), **options: Any) -> Daemon:
        """A daemon as it is started without any setting, but for its directories and what ``options`` say."""
        # not by `ip netns exec`, which would keep a copy of all that is mounted now
        inside = ["nsenter", f"--net=/run/netns/{self.space(name)}", *prefix]
        daemon = Daemon(f"host-{name}", prefix=inside, **{"insecure_loopback": False, "listen": [], **options})
        self.daemons[name] = daemon
        return daemon

    def cut(self, name: str) -> None:
        """Take its link down."""
        ip("link", "set", self.wire(name), "down")

    def heal(self, name: str) -> None:
        """And up again."""
        ip("link", "set", self.wire(name), "up")

    def mute(self, name: str, other: str) -> None:
        """What ``name`` sends to ``other`` is lost, and not the other way."""
        ip(
            "-n",
            self.space(name),
            "neigh",
            "replace",
            self.address(other),
            "lladdr",
            "02:00:00:00:00:01",
            "dev",
            "eth0",
        )

    def reaches(self, name: str, other: str) -> bool:
        """Whether a TCP connection comes about."""
        code = f"import socket; socket.create_connection(('{self.address(other)}', 7420), 1)"
        command = ["ip", "netns", "exec", self.space(name), sys.executable, "-c", code]
        return subprocess.run(command, capture_output=True, timeout=20, check=False).returncode == 0

    def unmute(self, name: str, other: str) -> None:
        """The end of :meth:`mute`."""
        ip("-n", self.space(name), "neigh", "del", self.address(other), "dev", "eth0")

    def close(self) -> None:
        """End the daemons and take everything down."""
        for daemon in self.daemons.values():
            daemon.close()
        for name in self.names:  # the link by itself: with its namespace it would go at some later time
            subprocess.run(["ip", "link", "del", self.wire(name)], check=False, capture_output=True)
            subprocess.run(["ip", "netns", "del", self.space(name)], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", self.bridge], check=False, capture_output=True)
