"""A server of somebody else: started with its own directory and port, killed at the end."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0
POLL_S = 0.002


class ServerError(Exception):
    """A server does not start, or has ended by itself."""


class Process:
    """A program that listens on ``address`` (the path of a unix socket, or a port of 127.0.0.1) once it is ready."""

    def __init__(self, command: Sequence[str], directory: Path, address: str | int) -> None:
        self.command = command
        self.directory = directory
        self.address = address
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """While it runs."""
        return None if self._process is None else self._process.pid

    async def start(self) -> float:
        """Start it; returns the seconds until it took a connection.

        :raises ServerError: it does not.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        start_s = monotonic()
        with (self.directory / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.command, cwd=self.directory, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        while not answers(self.address):
            if self._process.returncode is not None or monotonic() > start_s + START_TIMEOUT_S:
                said = (self.directory / "log").read_text(errors="replace")[-1000:]
                raise ServerError(f"{self.command[0]} is not ready; its log ends:\n{said}")
            await asyncio.sleep(POLL_S)
        return monotonic() - start_s

    async def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it, and wait until it has.

        :raises ServerError: it did not in time, and was killed.
        """
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.send_signal(number)
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise ServerError(
                f"{self.command[0]} did not stop within {STOP_TIMEOUT_S:.0f} s of {number.name}"
            ) from None


def answers(address: str | int) -> bool:
    """Whether somebody takes connections at the path of a unix socket, or at a port of 127.0.0.1."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with closing(socket.socket(family)) as attempt:
        try:
            attempt.connect(address if isinstance(address, str) else ("127.0.0.1", address))
        except OSError:
            return False
        return True


def cpu_ns(pid: int | None) -> int:
    """CPU time of all threads of a process so far; unlike time on the clock it hardly depends on what others do."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks)


def rss_bytes(pid: int | None) -> int:
    """How much memory a process has now."""
    statm = Path(f"/proc/{pid}/statm").read_text(encoding="ascii")
    return int(statm.split()[1]) * resource.getpagesize()


def disk_bytes(directory: Path) -> int:
    """How much the files under a directory take on disk."""
    places = [Path(folder) / name for folder, _, names in os.walk(directory) for name in names]
    return sum(place.stat().st_blocks * 512 for place in places if place.is_file())


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
