"""A daemon forked from this process, which has loaded all of its code: it is up in a fraction of a second."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

# The settings are read in a fork of the daemon: loading what checks them takes longer than all the rest.
import crdtsyncd.config.model
import crdtsyncd.serve  # forked with it
import crdtsyncd.storage.wal_checkpoint
import uvloop  # noqa: F401
from crdtsyncd.storage.open_database import ENDINGS

from tests.harness.daemon import PROGRAM
from tests.harness.raw import RawAgent
from tests.simulator.commands import heed_as_usual

POLL_S = 0.002
START_TIMEOUT_S = 120.0
END_TIMEOUT_S = 120.0
vars(crdtsyncd.storage.wal_checkpoint)["WAL_CHECKPOINT_BYTES"] = 128 * 1024  # so that a short life has several


class Child:
    """One daemon on one data directory; the process that makes it must have no other threads."""

    def __init__(self, base: Path, program: str = PROGRAM) -> None:
        self.base, self.data, self.run = base, base / "data", base / "run"
        self.socket = self.run / "a"
        self.log = base / "log"
        self.pid = 0
        self.status: int | None = None
        self._program = program
        self._tracer: subprocess.Popen[bytes] | None = None
        self.run.mkdir(parents=True, exist_ok=True)
        (base / "crdtsyncd.toml").write_text(
            f'data_dir = "{self.data}"\nsocket = "{self.socket}"\nnode_name = "crash"\nlog_format = "json"\n'
            "insecure_loopback = true\nballast_bytes = 65536\nfree_bytes_min = 0\n"
        )

    @property
    def files(self) -> list[str]:
        """What it keeps on disk, by path; and the directory."""
        names = [f"crdtsync.db{ending}" for ending in (*ENDINGS, "-journal")] + ["lock", "ballast"]
        marks = self.run.glob("mark-*")
        return [str(self.data), *(str(self.data / name) for name in names), *map(str, marks)]

    def start(self, trace: Sequence[str] = ()) -> None:
        """Fork it; with ``trace`` under strace with these words from its first step on."""
        assert not self.pid
        self.status = None
        with suppress(FileNotFoundError):
            self.socket.unlink()
        gate, opener = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(opener)
            self._become(gate)
        os.close(gate)
        self.pid = pid
        if trace:
            self._trace(trace)
        os.write(opener, b"!")
        os.close(opener)

    def _become(self, gate: int) -> None:
        status = 99
        try:
            os.setsid()
            heed_as_usual()
            os.read(gate, 1)
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            null = os.open("/dev/null", os.O_RDWR)
            for number, target in ((null, 0), (null, 1), (log, 2)):
                os.dup2(number, target)
            import sys

            sys.argv = ["crdtsyncd", "--config", str(self.base / "crdtsyncd.toml")]
            exec(self._program, {"__name__": "child"})
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1 if end.code else 0
        except BaseException:  # noqa: BLE001  # for whoever reads the log
            traceback.print_exc()
        finally:
            os._exit(status)

    def _trace(self, words: Sequence[str]) -> None:
        self._tracer = subprocess.Popen(
            ["strace", "-f", "-qq", *words, "-p", str(self.pid)], stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
        status = Path(f"/proc/{self.pid}/status")
        deadline = monotonic() + START_TIMEOUT_S
        while f"TracerPid:\t{self._tracer.pid}" not in status.read_text():
            assert self._tracer.poll() is None, "strace cannot attach here"
            assert monotonic() < deadline
            sleep(POLL_S)

    def is_running(self) -> bool:
        """Whether it has not ended; takes note of how it did."""
        if self.pid:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self._ended(status)
        return bool(self.pid)

    def attach(self) -> RawAgent | None:
        """A connection as soon as it listens; None: it has ended before that."""
        deadline = monotonic() + START_TIMEOUT_S
        while self.is_running():
            with suppress(OSError, EOFError):
                return RawAgent(self.socket, "crash", timeout_s=START_TIMEOUT_S)
            assert monotonic() < deadline, f"not up in {START_TIMEOUT_S} s: {self.tail()}"
            sleep(POLL_S)
        return None

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._ended(os.waitpid(self.pid, 0)[1])

    def stop(self) -> int | None:
        """SIGTERM; its exit status, negative for a signal."""
        if self.is_running():
            os.kill(self.pid, signal.SIGTERM)
        return self.wait()

    def wait(self) -> int | None:
        """Until it ends by itself; its exit status."""
        deadline = monotonic() + END_TIMEOUT_S
        while self.is_running():
            if monotonic() > deadline:
                self.kill()
                raise AssertionError(f"it did not end in {END_TIMEOUT_S} s: {self.tail()}")
            sleep(POLL_S)
        return self.status

    def _ended(self, status: int) -> None:
        self.pid, self.status = 0, os.waitstatus_to_exitcode(status)
        if self._tracer is not None:
            self._tracer.wait(END_TIMEOUT_S)
            self._tracer = None

    def lines(self) -> list[str]:
        """Its log over all its lives."""
        return self.log.read_text(errors="replace").splitlines() if self.log.exists() else []

    def tail(self) -> str:
        """The end of it."""
        return " | ".join(self.lines()[-3:])

    def close(self) -> None:
        """End it, and remove its files."""
        self.kill()
        shutil.rmtree(self.base, ignore_errors=True)
