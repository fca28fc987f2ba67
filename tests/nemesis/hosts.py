"""Five hosts: each with a network, a disk and a clock of its own, all members of one cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.harness.cluster import wait_until
from tests.harness.daemon import Daemon
from tests.harness.lan import Lan

MIB = 1024 * 1024
DISK_BYTES = 160 * MIB
FREE_BYTES_MIN = 8 * MIB
PEER_PORT = 7420
LOG_BYTES_MAX = 256 * 1024
"""Little, so that a host that was away for some seconds has to take a snapshot."""


def run(*words: str, check: bool = True) -> None:
    """A command that says nothing."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if check and done.returncode != 0:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")


class Disk:
    """An ext4 file system of its own in a file."""

    def __init__(self, base: Path) -> None:
        self._image = base / "disk"
        self.place = base / "mounted"
        self.place.mkdir()
        with self._image.open("wb") as image:
            image.truncate(DISK_BYTES)
        run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))
        self.mount()

    def mount(self) -> None:
        """There."""
        run("mount", "-o", "loop", str(self._image), str(self.place))

    def empty(self) -> None:
        """Give it back, and durably: else a repair of what breaks next brings the file back, and the disk is full."""
        with suppress(FileNotFoundError):
            (self.place / "filling").unlink()
        self.flush()

    def flush(self) -> None:
        """What was made and deleted here is so whatever breaks next."""
        place = os.open(self.place, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)

    def abort(self) -> None:
        """Become read-only under all that is open, as ext4 does when the device fails."""
        run("mount", "-o", "remount,abort", str(self.place))

    def repair(self) -> None:
        """Check it and mount it anew; nobody may use it."""
        run("umount", str(self.place))
        run("e2fsck", "-p", str(self._image), check=False)
        self.mount()

    def close(self) -> None:
        """Unmount it."""
        run("umount", "-l", str(self.place), check=False)


class Hosts:
    """The hosts by name, ``a`` to ``e``; all run and are connected when it is made."""

    def __init__(self, names: str = "abcde", plant: str | None = None) -> None:
        self.names = list(names)
        self.base = Path(tempfile.mkdtemp(prefix="csn", dir="/tmp"))
        self.disks: dict[str, Disk] = {}
        self.daemons: dict[str, Daemon] = {}
        self.faketime = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
        self.strace = shutil.which("strace")
        self.nft = shutil.which("nft")
        self.lan = Lan(self.names)
        try:
            for name in self.names:
                (self.base / name).mkdir()
                self.disks[name] = Disk(self.base / name)
                self.set_clock(name, 0)
                self._start(name)
            self._join()
            if plant is not None:
                self._restart_with(plant)
            else:
                self._restart_as_voters()
        except BaseException:
            self.close()
            raise

    def _start(self, name: str) -> None:
        environment = [f"{key}={value}" for key, value in self.wrong_clock(name).items()]
        self.daemons[name] = self.lan.start(
            name, prefix=["env", *environment], data_dir=str(self.disks[name].place / "data"),
            free_bytes_min=FREE_BYTES_MIN, ballast_bytes=2 * MIB, log_bytes_max=LOG_BYTES_MAX,
        )  # fmt: skip

    def _join(self) -> None:
        first, *others = self.daemons.values()
        first.client().cluster_init(listen=[f"{self.lan.address('a')}:{PEER_PORT}"])
        invite = first.client().cluster_invite(uses=len(others))["invite"]
        for name in self.names[1:]:
            self.daemons[name].client().cluster_join(invite, listen=[f"{self.lan.address(name)}:{PEER_PORT}"])
        wait_until(self.are_connected, what="all hosts are connected")

    def _restart_with(self, program: str) -> None:
        for daemon in self.daemons.values():
            daemon.stop()
            daemon.program = program
            daemon.start()

    def _restart_as_voters(self) -> None:
        ids = [daemon.status()["node"]["id"] for daemon in self.daemons.values()]
        for daemon in self.daemons.values():
            daemon.stop()
            daemon.settings["voters"] = ids
            daemon.start()
        wait_until(self.are_connected, what="all hosts are connected again")
        wait_until(self._have_votes, what="all hosts have a vote")

    def _have_votes(self) -> bool:
        return all(daemon.status()["node"]["vote"] == "yes" for daemon in self.daemons.values())

    def are_connected(self) -> bool:
        """Whether everybody is connected with everybody."""
        return all(
            sum(peer["state"] == "connected" for peer in daemon.status()["peers"]) == len(self.names) - 1
            for daemon in self.daemons.values()
        )

    # -- clocks ------------------------------------------------------------------------------------------------

    def _clock(self, name: str) -> Path:
        return self.base / name / "clock"

    def wrong_clock(self, name: str) -> dict[str, str]:
        """The environment of a process that has this host's clock; its steady clocks are the true ones."""
        if self.faketime is None:
            return {}
        return {
            "LD_PRELOAD": str(self.faketime), "FAKETIME_TIMESTAMP_FILE": str(self._clock(name)),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_CACHE_DURATION": "1", "NO_FAKE_STAT": "1",
        }  # fmt: skip

    def set_clock(self, name: str, ahead_s: int) -> None:
        """So much ahead of the true time, within a second."""
        partial = self.base / name / "clock.new"
        partial.write_text(f"{ahead_s:+d}\n")
        partial.replace(self._clock(name))

    # -- networks ----------------------------------------------------------------------------------------------

    def rule(self, name: str, chain: str, hook: str, *rules: str) -> None:
        """A chain of its own in a host's packet filter."""
        lines = ["add table inet nemesis"]
        lines.append(f"add chain inet nemesis {chain} {{ type filter hook {hook} priority 0 ; }}")
        lines += [f"add rule inet nemesis {chain} {rule}" for rule in rules]
        self._nft(name, "; ".join(lines))

    def unrule(self, name: str, chain: str) -> None:
        """Without it."""
        self._nft(name, f"flush chain inet nemesis {chain}; delete chain inet nemesis {chain}")

    def _nft(self, name: str, words: str) -> None:
        run("ip", "netns", "exec", self.lan.space(name), "nft", words)

    # -- the end -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Take everything down. Idempotent."""
        self.lan.close()
        for disk in self.disks.values():
            disk.close()
        shutil.rmtree(self.base, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
