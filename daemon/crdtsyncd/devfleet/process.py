"""One ``crdtsyncd`` process that is started again when it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import sysconfig
import time
from contextlib import suppress
from pathlib import Path

from crdtsyncd.cli.commands.together.children import end_with_parent
from crdtsyncd.devfleet.layout import ClusterError, NodePlace, last_log_line

READY_TIMEOUT_S = 90.0
READY_POLL_S = 0.02
RESTART_S_FIRST = 1.0
RESTART_S_MAX = 30.0
STABLE_S = 10.0
STOP_TIMEOUT_S = 12.0


class DevNode:
    """One node's daemon. ``pid`` is None while it does not run; ``fault`` says how it ended last, ``ends`` how often it
    has.
    """

    def __init__(self, place: NodePlace) -> None:
        self.place = place
        self.pid: int | None = None
        self.is_ready = False
        self.fault = ""
        self.ends = 0
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()
        self._ready = asyncio.Event()

    async def run(self) -> None:
        """Keep the daemon running until :meth:`terminate`.

        :raises ClusterError: it did not become ready the first time.
        """
        delay_s = RESTART_S_FIRST
        while not self._stopping.is_set():
            started_s = time.monotonic()
            await self._run_once()
            if self._stopping.is_set():
                return
            if not self._ready.is_set():
                raise ClusterError(f"{self.place.name} did not start, {self.fault}")
            delay_s = RESTART_S_FIRST if time.monotonic() - started_s > STABLE_S else delay_s
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay_s)
            delay_s = min(2 * delay_s, RESTART_S_MAX)

    async def ready(self) -> None:
        """Wait until it is ready for the first time."""
        await self._ready.wait()

    def terminate(self) -> None:
        """Ask it to stop, and start it no more. A process that was stopped by SIGSTOP is woken up for it."""
        self._stopping.set()
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once."""
        self._stopping.set()
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _run_once(self) -> None:
        with self.place.log.open("ab") as log:
            offset = log.tell()
            process = self._process = await asyncio.create_subprocess_exec(
                _program(),
                "--config",
                str(self.place.config),
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,  # Ctrl-C is for us alone: we stop the daemons
                preexec_fn=end_with_parent,  # there are no threads
            )
        self.pid = process.pid
        if self._stopping.is_set():
            self.terminate()
        watching = asyncio.create_task(self._await_ready(offset))
        status = await process.wait()
        watching.cancel()
        self.pid, self.is_ready = None, False
        self.fault = self._epitaph(status)
        self.ends += 1

    def _epitaph(self, status: int) -> str:
        how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        said = last_log_line(self.place)
        return f"{how}; it last said: {said}" if said else how

    async def _await_ready(self, offset: int) -> None:
        """Ready is what a daemon calls ready: the line in its log."""
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline_s:
            with self.place.log.open("rb") as log:
                log.seek(offset)
                if b'"event": "ready"' in log.read():
                    self.is_ready = True
                    self._ready.set()
                    return
            await asyncio.sleep(READY_POLL_S)
        self._signal(signal.SIGKILL)


async def stop_all(members: list[DevNode], runs: list[asyncio.Task[None]], hurry: asyncio.Event) -> None:
    """Stop every daemon: ask, then, after a bound or when ``hurry`` is set, kill."""
    for member in members:
        member.terminate()
    ending = asyncio.create_task(_settled(runs))
    hurrying = asyncio.create_task(hurry.wait())
    await asyncio.wait([ending, hurrying], timeout=STOP_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
    hurrying.cancel()
    for member in members:
        member.kill()
    await ending


async def _settled(runs: list[asyncio.Task[None]]) -> None:
    await asyncio.gather(*runs, return_exceptions=True)


def _program() -> str:
    """The daemon of this very installation, whatever PATH says."""
    program = Path(sysconfig.get_path("scripts")) / "crdtsyncd"
    if not program.exists():
        raise ClusterError(f"there is no {program}: install crdtsync into {sys.prefix}, or use ./dev up")
    return str(program)


def _environment() -> dict[str, str]:
    """Ours, without settings that are meant for another daemon."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CRDTSYNC_")}
