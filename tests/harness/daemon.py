"""A real ``crdtsyncd`` in a process of its own."""

from __future__ import annotations

import atexit
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, Self
from weakref import WeakSet

from crdtsync import Client
from tests.harness.raw import RawAgent
from tests.harness.warm import WarmProcess, warm_start

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
PROGRAM = "from crdtsyncd.main import main; main()"
CHANGED = "import crdtsyncd.serve\n"
"""Begins a program that changes what has been imported already, and so may be forked from a process that has."""
_LINUX = sys.platform == "linux"
# Each test process has a loopback address of its own, so that no other test and no outgoing connection takes its ports.
# The last part is never 0, and still that of one process alone.
HOST = (
    f"127.{64 + os.getpid() // (255 * 256) % 64}.{os.getpid() // 255 % 256}.{1 + os.getpid() % 255}"
    if _LINUX
    else "127.0.0.1"
)
_ports = itertools.count(21_000)
_numbers = itertools.count(1)
_alive: WeakSet[Daemon] = WeakSet()


class Daemon:
    """One daemon on one data directory. It can be killed, stopped and started again on the same data.

    ``settings`` are those of the configuration file. All its files are in ``base``: ``data`` is the data directory,
    ``run`` the runtime directory with the socket and the mark. ``prefix`` are words that its command line begins with,
    ``program`` the Python that it runs: another one plants a fault.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        start: bool = True,
        base: Path | None = None,
        prefix: Sequence[str] = (),
        program: str = PROGRAM,
        **settings: Any,
    ) -> None:
        self.prefix = prefix
        self.program = program
        self.name = name or f"host-{next(_numbers)}"
        self.base = base or Path(tempfile.mkdtemp(prefix="cs", dir="/tmp"))
        self.data = self.base / "data"
        self.run = self.base / "run"
        self.socket = self.run / "a"
        self.port = next(_ports)
        self.address = f"{HOST}:{self.port}"
        self.url = f"ws://{self.address}"
        self.settings: dict[str, Any] = {
            "node_name": self.name,
            "data_dir": str(self.data),
            "socket": str(self.socket),
            "listen": [self.address],
            "insecure_loopback": True,
            "ballast_bytes": 0,
            "log_format": "json",
            **settings,
        }
        self.process: subprocess.Popen[bytes] | WarmProcess | None = None
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._reader: threading.Thread | None = None
        self._ended = True
        self._clients: list[Client] = []
        self.base.mkdir(exist_ok=True)
        _alive.add(self)
        if start:
            try:
                self.start()
            except (KeyboardInterrupt, SystemExit):  # nobody has it yet who could close it
                self.close()
                raise

    # -- life ------------------------------

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} was never started"
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self, *, wait: bool = True, **settings: Any) -> None:
        """Start it, or start it again on the same data, and wait until it is ready; ``settings`` change the
        configuration.
        """
        assert not self.is_running, f"{self.name} runs already"
        self._join_reader()
        self.settings.update(settings)
        config = self.base / "crdtsyncd.toml"
        config.write_text("".join(f"{name} = {_toml(value)}\n" for name, value in self.settings.items()))
        seen = len(self._lines)
        self._ended = False
        self.process = self._spawn(["--config", str(config)])
        self._reader = threading.Thread(target=self._read_log, args=(self.process,), daemon=True)
        self._reader.start()
        if wait:
            self.wait_ready(after=seen)

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S, *, after: int = 0) -> None:
        """Until it logs ``ready``."""
        self.wait_log(lambda event: event.get("event") == "ready", timeout_s, after=after)

    def kill(self) -> None:
        """SIGKILL, as by a crash."""
        self._signal(signal.SIGKILL)
        self._reap(STOP_TIMEOUT_S)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """SIGTERM; the exit status. Fails if that takes longer than ``timeout_s``."""
        self._signal(signal.SIGTERM)
        return self._reap(timeout_s)

    def freeze(self) -> None:
        """SIGSTOP: it is there and does nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def reload(self, **settings: Any) -> None:
        """Change the configuration file and have it read again."""
        self.settings.update(settings)
        config = self.base / "crdtsyncd.toml"
        config.write_text("".join(f"{name} = {_toml(value)}\n" for name, value in self.settings.items()))
        self._signal(signal.SIGHUP)

    def wait_exit(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Until it ends by itself; the exit status."""
        return self._reap(timeout_s)

    def close(self) -> None:
        """End it by any means and remove its files. Idempotent."""
        for client in self._clients:
            client.close()
        self._clients.clear()
        if self.is_running:
            self._signal(signal.SIGKILL)
            self._reap(STOP_TIMEOUT_S)
        self._join_reader()
        shutil.rmtree(self.base, ignore_errors=True)
        _alive.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- talking to it ------------------------------

    def client(self, agent: str = "tester", *, socket: str | os.PathLike[str] | None = None, **options: Any) -> Client:
        """A client of this daemon, as patient as a busy machine is slow; closed at the latest with it."""
        client = Client(socket or self.socket, agent=agent, **{"timeout": START_TIMEOUT_S, **options})
        self._clients.append(client)
        return client

    def raw(self, agent: str | None = "tester", **options: Any) -> RawAgent:
        """A connection that speaks the agent protocol frame by frame; ``agent=None`` sends no hello."""
        return RawAgent(self.socket, agent, **options)

    def status(self, timeout_s: float = 60.0) -> dict[str, Any]:
        """What ``crdtsync status --json`` prints."""
        try:
            with self.raw("status", timeout_s=timeout_s) as agent:
                return agent.call("status")
        except (ConnectionError, EOFError) as error:
            error.add_note(f"{self.name} (process {self.process and self.process.poll()}) logged last:")
            error.add_note("\n".join(self.log_lines()[-20:]))
            raise

    def space(self, name: str = "default") -> dict[str, Any]:
        """One space of the status."""
        return next(space for space in self.status()["spaces"] if space["name"] == name)

    def peer(self, name: str) -> dict[str, Any] | None:
        """One peer of the status, by its name; None if it was never met."""
        return next((peer for peer in self.status()["peers"] if peer["name"] == name), None)

    def alarms(self) -> list[str]:
        """The codes of its alarms."""
        return [alarm["code"] for alarm in self.status()["alarms"]]

    # -- its log ------------------------------

    def log_lines(self) -> list[str]:
        """All that it has logged so far, over all its starts."""
        with self._news:
            return list(self._lines)

    def log_events(self, name: str | None = None) -> list[dict[str, Any]]:
        """The same, decoded; those called ``name`` if given."""
        events = [_decode(line) for line in self.log_lines()]
        return [event for event in events if name is None or event.get("event") == name]

    def wait_log(
        self, wanted: str | Callable[[dict[str, Any]], object], timeout_s: float = START_TIMEOUT_S, *, after: int = 0
    ) -> dict[str, Any]:
        """The first logged event that is called ``wanted``, or for which it is true, from line ``after`` on."""
        deadline = monotonic() + timeout_s
        at = after
        with self._news:
            while True:
                while at < len(self._lines):
                    event = _decode(self._lines[at])
                    at += 1
                    if event.get("event") == wanted if isinstance(wanted, str) else wanted(event):
                        return event
                left_s = deadline - monotonic()
                if self._ended or left_s <= 0:
                    why = "ended" if self._ended else f"did not log that in {timeout_s} s"
                    raise AssertionError(f"{self.name} {why}; its log ends:\n" + "\n".join(self._lines[-20:]))
                self._news.wait(left_s)

    # -- inside ------------------------------

    def _spawn(self, arguments: list[str]) -> subprocess.Popen[bytes] | WarmProcess:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CRDTSYNC_")}
        is_warm = not self.prefix and (self.program == PROGRAM or self.program.startswith(CHANGED))
        if is_warm and (warm := warm_start(environment)):
            program = "crdtsyncd" if self.program == PROGRAM else self.program
            return warm.start(program, arguments, environment=environment)
        command = [*self.prefix, sys.executable, "-P", "-c", self.program, *arguments]
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        if self.process.poll() is None:
            os.kill(self.process.pid, number)

    def _reap(self, timeout_s: float) -> int:
        assert self.process is not None
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            tail = "\n".join(self.log_lines()[-20:])
            raise AssertionError(f"{self.name} (pid {self.pid}) did not end in {timeout_s} s:\n{tail}") from None
        self._join_reader()
        return status

    def _join_reader(self) -> None:
        if self._reader is not None:
            self._reader.join(STOP_TIMEOUT_S)
            self._reader = None

    def _read_log(self, process: subprocess.Popen[bytes] | WarmProcess) -> None:
        assert process.stderr is not None
        with process.stderr as stream:
            for line in stream:
                with self._news:
                    self._lines.append(line.decode(errors="replace").rstrip("\n"))
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()


def _decode(line: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        return {"event": "", "text": line}
    return event if isinstance(event, dict) else {"event": "", "text": line}


def _toml(value: object) -> str:
    return json.dumps(value)  # for str, int, bool and lists of them TOML and JSON agree


@atexit.register
def _end_all() -> None:
    for daemon in list(_alive):
        daemon.close()
