"""A few daemons on this machine, linked over loopback, each of which can be killed and started again."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
# The daemon, which the kernel ends should we be killed (PR_SET_PDEATHSIG of prctl(2)).
_PROGRAM = """
import ctypes, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
from crdtsyncd.main import main
main()
"""
_LOG_LINES_SHOWN = 5


class DaemonError(Exception):
    """A daemon does not do what it should; the message is a sentence, with the end of its log."""


class Daemon:
    """One ``crdtsyncd``, with its own data directory, socket and port."""

    def __init__(
        self, name: str, directory: Path, port: int, peers: Sequence[str], settings: Mapping[str, object]
    ) -> None:
        self.name = name
        self.port = port
        self.socket = directory / "s"
        self.database = directory / "data" / "crdtsync.db"
        self._directory = directory
        self._peers = peers
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """Of the process that runs now."""
        return None if self._process is None else self._process.pid

    @property
    def log(self) -> Path:
        """What it has logged, over all its lives."""
        return self._directory / "log"

    async def start(self) -> float:
        """Start it; returns after how many seconds it was ready.

        :raises DaemonError: it is not ready in time, or ended.
        """
        assert self._process is None, f"{self.name} runs already"
        self._directory.mkdir(exist_ok=True, mode=0o700)
        start_s = monotonic()
        self._ready.clear()
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _PROGRAM),
            env=self._environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for us alone
        )
        self._reader = asyncio.create_task(self._read_log(self._process))
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait([ready, self._reader], timeout=START_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            raise DaemonError(f"{self.name} was not ready within {START_TIMEOUT_S:.0f} s; {self.last_words()}")
        return monotonic() - start_s

    async def stop(self) -> None:
        """Ask it to stop (SIGTERM), and wait until it has.

        :raises DaemonError: it did not stop in time, or not with exit status 0.
        """
        status = await self._end(signal.SIGTERM)
        if status not in (0, None):
            raise DaemonError(f"{self.name} stopped with exit status {status}; {self.last_words()}")

    async def kill(self) -> None:
        """``kill -9``."""
        await self._end(signal.SIGKILL)

    def last_words(self) -> str:
        """The end of its log, for a message."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()[-_LOG_LINES_SHOWN:]
        except OSError:
            lines = []
        return "the end of its log:\n" + "\n".join(f"    {line}" for line in lines) if lines else "it logged nothing"

    def bugs(self) -> list[str]:
        """The faults of its own that it logged and survived, one line each."""
        return self.logged("bug")

    def snapshots_taken(self) -> int:
        """How many snapshots it has taken from others, by its log."""
        return len(self.logged("snapshot_taken"))

    def logged(self, event: str) -> list[str]:
        """The lines of its log with this event, over all its lives."""
        try:
            lines = self.log.read_bytes().splitlines()
        except OSError:
            return []
        return [line.decode(errors="replace") for line in lines if _event(line) == event]

    async def _end(self, number: signal.Signals) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        if process.returncode is None:
            process.send_signal(number)
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                status = await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise DaemonError(f"{self.name} did not stop within {STOP_TIMEOUT_S:.0f} s; {self.last_words()}") from None
        if self._reader is not None:
            await self._reader
        return status

    async def _read_log(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        with self.log.open("ab", buffering=0) as log:
            async for line in process.stderr:
                log.write(line)
                if not self._ready.is_set() and _event(line) == "ready":
                    self._ready.set()

    def _environment(self) -> dict[str, str]:
        """Ours, with its settings and no others: a service, too, is started without options."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CRDTSYNC_", "NOTIFY_"))}
        settings = {
            "data_dir": self._directory / "data",
            "socket": self.socket,
            "node_name": self.name,
            "insecure_loopback": True,
            "listen": f"127.0.0.1:{self.port}",
            "peers": " ".join(self._peers),
            "ballast_bytes": 0,
            "log_format": "json",
            **self._settings,
        }
        given = {f"CRDTSYNC_{name.upper()}": str(value) for name, value in settings.items()}
        return {**kept, "XDG_CONFIG_HOME": str(self._directory), **given}


class Daemons:
    """Daemons that are all linked with each other, under one temporary directory; stops them all at the end.

    ``settings`` are those of the configuration file, the same for all.
    """

    def __init__(self, count: int, settings: Mapping[str, object] | None = None) -> None:
        self._settings = dict(settings or {})
        # Short: the path of a unix socket may have 107 bytes.
        self.directory = Path(tempfile.mkdtemp(prefix="crdtsync-"))
        ports = free_ports(count)
        self.daemons = [
            Daemon(
                f"node-{number}",
                self.directory / str(number),
                port,
                [f"ws://127.0.0.1:{other}" for other in ports if other != port],
                self._settings,
            )
            for number, port in enumerate(ports)
        ]

    def add(self, name: str, peers: Sequence[str] = ()) -> Daemon:
        """One more daemon, with no data and not started yet; it dials ``peers``, and none of the others dials it."""
        (port,) = free_ports(1)
        daemon = Daemon(name, self.directory / str(len(self.daemons)), port, peers, self._settings)
        self.daemons.append(daemon)
        return daemon

    def __getitem__(self, number: int) -> Daemon:
        return self.daemons[number]

    async def __aenter__(self) -> Self:
        try:
            async with asyncio.TaskGroup() as group:
                for daemon in self.daemons:
                    group.create_task(daemon.start())
        except BaseExceptionGroup as group_error:
            await self.clean_up()
            raise group_error.exceptions[0] from None
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.clean_up()

    async def clean_up(self) -> None:
        """Kill all that run, and remove their files."""
        try:
            await asyncio.gather(*(daemon.kill() for daemon in self.daemons), return_exceptions=True)
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now. All are held until all are known, so that they differ."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _event(line: bytes) -> object:
    try:
        plain = json.loads(line)
    except ValueError:
        return None
    return plain.get("event") if isinstance(plain, dict) else None
