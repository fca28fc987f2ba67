"""Processes of ``crdtsyncd``, ``crdtsync`` and frameworks' programs that are forked from one that has imported all.

Importing takes most of a second of processor time, and a run of all tests starts some thousands. What is forked is a
process like any other: its own pid, session, files, environment and arguments, killed and waited for like others. The
tests of services, of README and tutorial and of injected faults start theirs from nothing, and
``CRDTSYNC_TEST_COLD=1`` makes all tests do so.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

IS_COLD = os.environ.get("CRDTSYNC_TEST_COLD") == "1"
REQUEST_BYTES_MAX = 1 << 20
START_TIMEOUT_S = 280.0  # a framework is imported meanwhile, maybe on a busy machine
# What an interpreter heeds only when it starts; with another of these a process has to start from nothing.
_HEEDED_AT_START = ("PYTHON", "LD_", "MALLOC_", "GLIBC_")


# What a terminal or a person sends: ignored by who is started by somebody that ignores it, under ``nohup`` maybe.
_SENT = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


class WarmProcess:
    """One forked process, as far as a :class:`subprocess.Popen` is needed of it."""

    def __init__(self, arguments: Sequence[str], status: int, stderr: IO[bytes] | None) -> None:
        self.args = arguments
        self.stderr = stderr
        self.returncode: int | None = None
        self._status = status
        self._lock = threading.Lock()
        self.pid = int.from_bytes(self._read(4, START_TIMEOUT_S), "big")

    def poll(self) -> int | None:
        """Its exit status, minus the signal that ended it; None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Until it ends.

        :raises subprocess.TimeoutExpired: it has not ended in that time.
        """
        with self._lock:
            if self.returncode is None:
                self.returncode = os.waitstatus_to_exitcode(int.from_bytes(self._read(4, timeout), "big"))
                os.close(self._status)
            return self.returncode

    def _read(self, size: int, timeout_s: float | None) -> bytes:
        poll = select.poll()
        poll.register(self._status, select.POLLIN)
        if not poll.poll(None if timeout_s is None else timeout_s * 1000):
            raise subprocess.TimeoutExpired(list(self.args), timeout_s or 0)
        data = os.read(self._status, size)
        if len(data) != size:
            raise ChildProcessError(f"nobody looks after {self.args} any more")
        return data


class WarmStart:
    """The process that has imported everything, and the way to ask it for others.

    That of another Python has imported nothing yet: it imports what programs are started with, for those that follow.
    """

    def __init__(self, python: str, environment: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        self.address = f"crdtsync-warm-{os.urandom(16).hex()}"
        self._lock = threading.Lock()
        self._heeded = _heeded(environment)
        environment = {name: value for name, value in environment.items() if not name.startswith("CRDTSYNC_")}
        with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(f"\0{self.address}")
            listening.listen(64)
            numbers = [theirs.fileno(), listening.fileno()]
            command = [python, "-P", __file__, *map(str, numbers), *(["bare"] if python != sys.executable else [])]
            self._process = subprocess.Popen(  # with a stdin in which nobody can seek, as it may be in those forked
                command, env=environment, stdin=subprocess.PIPE, pass_fds=numbers, start_new_session=True
            )
        atexit.register(self.end)

    def suits(self, environment: Mapping[str, str]) -> bool:
        """Whether a process of this environment may be a fork."""
        return _heeded(environment) == self._heeded

    def start(
        self,
        program: str,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: Path | None = None,
        imports: Sequence[str] = (),
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> WarmProcess:
        """Start ``crdtsyncd``, ``crdtsync``, or what else a program in Python does, in a session of its own.

        A stream that is not given is nothing, but for ``stderr``, which is the ``stderr`` of the process returned.
        """
        order = {
            "program": program,
            "arguments": list(arguments),
            "imports": list(imports),
            "environment": dict(environment),
            "directory": os.fspath(directory or Path.cwd()),
            "ignored": [number for number in _SENT if signal.getsignal(number) is signal.SIG_IGN],
        }
        status, their_status = os.pipe()
        null = os.open(os.devnull, os.O_RDWR)
        ours, their_stderr = os.pipe() if stderr is None else (None, os.dup(stderr))
        handed = [null if stdin is None else stdin, null if stdout is None else stdout, their_stderr, their_status]
        try:
            with self._lock:
                socket.send_fds(self._socket, [json.dumps(order).encode()], handed)
        finally:
            for each in (null, their_stderr, their_status):
                os.close(each)
        return WarmProcess([program, *arguments], status, None if ours is None else os.fdopen(ours, "rb"))

    def end(self) -> None:
        """Kill it, with all that it has forked."""
        atexit.unregister(self.end)
        self._socket.close()
        self._process.communicate()


_made: dict[str, WarmStart] = {}  # by its Python
_making = threading.Lock()


def warm_start(environment: Mapping[str, str], python: str = sys.executable) -> WarmStart | None:
    """Where to ask for processes of this environment; None if they have to start from nothing.

    There is one for this Python, and one for that of another environment: the last one asked for.
    """
    if IS_COLD:
        return None
    with _making:
        if python not in _made:
            for other in _made.keys() - {sys.executable, python} if python != sys.executable else ():
                _made.pop(other).end()
            _made[python] = WarmStart(python, os.environ if python == sys.executable else environment)
    return _made[python] if _made[python].suits(environment) else None


def run_to_end(
    program: str,
    cold: Sequence[str],
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    directory: Path | None = None,
    imports: Sequence[str] = (),
    python: str = sys.executable,
    given: bytes = b"",
    timeout_s: float,
) -> subprocess.CompletedProcess[bytes]:
    """Run a program until it ends, with ``given`` on its stdin; ``cold`` is the command that starts it from nothing.

    :raises subprocess.TimeoutExpired: it had not ended in that time, and was killed.
    """
    warm = warm_start(environment, python)
    if warm is None:
        return subprocess.run(
            [*cold, *arguments], input=given, capture_output=True, cwd=directory, env=environment, timeout=timeout_s,
            check=False,
        )  # fmt: skip
    with TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
        stdin.write(given)
        stdin.seek(0)
        streams = {"stdin": stdin.fileno(), "stdout": stdout.fileno(), "stderr": stderr.fileno()}
        process = warm.start(
            program, arguments, environment=environment, directory=directory, imports=imports, **streams
        )
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            raise
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(process.args, status, stdout.read(), stderr.read())


STAND_IN = """
import json, os, signal, socket, sys
address, imports, program, *arguments = sys.argv[1:]
asking = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
asking.connect(chr(0) + address)
status, theirs = os.pipe()
order = {"program": program, "arguments": arguments, "imports": imports.split(), "directory": os.getcwd()}
handed_on = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
order["ignored"] = [number for number in handed_on if signal.getsignal(number) is signal.SIG_IGN]
signal.pthread_sigmask(signal.SIG_BLOCK, handed_on)  # until it is known to whom
socket.send_fds(asking, [json.dumps(order | {"environment": dict(os.environ)}).encode()], [0, 1, 2, theirs])
os.close(theirs)
for stream in (0, 1, 2):
    os.close(stream)
pid = int.from_bytes(os.read(status, 4), "big")
if not pid:
    sys.exit("the process that forks is gone")
for number in handed_on:
    signal.signal(number, lambda number, _: os.kill(pid, number))
signal.pthread_sigmask(signal.SIG_UNBLOCK, handed_on)
ended = int.from_bytes(os.read(status, 4), "big")
if os.WIFSIGNALED(ended):
    signal.signal(os.WTERMSIG(ended), signal.SIG_DFL)
    os.kill(os.getpid(), os.WTERMSIG(ended))
os._exit(os.waitstatus_to_exitcode(ended))
"""
"""A process for those who start one by themselves: it has another forked with its streams, and ends as that ends."""


def stand_in(program: str, cold: Sequence[str], *imports: str) -> list[str]:
    """A command that does what ``cold`` does, forked from a process that has also imported ``imports``."""
    warm = warm_start(os.environ)
    if warm is None:
        return list(cold)
    return [sys.executable, "-I", "-S", "-c", STAND_IN, warm.address, " ".join(imports), program]


def _heeded(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_HEEDED_AT_START)}


# -- in the process that forks -----------------------------------------------------------------------------------------


class _Forked:
    """The processes that were forked, each of which is reported to whom had it started: its pid, and then its end."""

    def __init__(self) -> None:
        self._pids: dict[int, int] = {}  # by where they are reported
        self._ended, self._tell_ended = os.pipe()
        os.set_blocking(self._tell_ended, False)
        signal.set_wakeup_fd(self._tell_ended, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._poll = select.poll()
        self._poll.register(self._ended, select.POLLIN)

    def wait(self, *asking: socket.socket) -> list[socket.socket]:
        """Look after them until somebody asks for another one; who does."""
        for each in asking:
            self._poll.register(each, select.POLLIN)
        while True:
            happened = dict(self._poll.poll())
            for status in happened.keys() & self._pids:  # who waits for its end is gone, killed maybe
                os.kill(self._pids[status], signal.SIGKILL)
                self._poll.unregister(status)
            if self._ended in happened:
                os.read(self._ended, 4096)
                self._report_ends()
            if ready := [each for each in asking if each.fileno() in happened]:
                return ready

    def add(self, pid: int, status: int) -> None:
        self._pids[status] = pid
        self._poll.register(status, 0)
        with suppress(BrokenPipeError):
            os.write(status, pid.to_bytes(4, "big"))

    def kill(self) -> None:
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)

    def leave(self) -> None:
        """In a process that has just been forked: it looks after nobody."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (self._ended, self._tell_ended, *self._pids):
            os.close(each)

    def _report_ends(self) -> None:
        statuses = {pid: status for status, pid in self._pids.items()}
        with suppress(ChildProcessError):  # there is none left
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                status = statuses[found[0]]
                del self._pids[status]
                with suppress(KeyError):  # nobody waits for it
                    self._poll.unregister(status)
                with suppress(BrokenPipeError):
                    os.write(status, found[1].to_bytes(4, "big"))
                os.close(status)


def _serve(asked: socket.socket, listening: socket.socket) -> tuple[str, list[str]]:
    """Fork until nobody can ask any more. Returns in the forked process, with what it is to be."""
    forked = _Forked()
    while True:
        for ready in forked.wait(asked, listening):
            asking = ready if ready is asked else ready.accept()[0]
            _, uid, _ = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if uid != os.getuid():
                asking.close()
                continue
            data, handed, _, _ = socket.recv_fds(asking, REQUEST_BYTES_MAX, 4)
            if asking is not asked:
                asking.close()
            elif not data:
                forked.kill()
                os._exit(0)
            if not data:  # a stand-in that was killed before it could ask
                continue
            order = json.loads(data)
            for name in order.get("imports", ()):
                if name not in sys.modules:
                    with suppress(Exception):  # the program that asked for it imports it again, and says why it cannot
                        importlib.import_module(name)
                    gc.freeze()
            *streams, status = handed
            if (pid := os.fork()) == 0:
                forked.leave()
                for each in (asked.detach(), listening.detach(), status):
                    os.close(each)
                return _become(order, streams)
            for each in streams:
                os.close(each)
            forked.add(pid, status)


def _become(order: dict[str, Any], streams: list[int]) -> tuple[str, list[str]]:
    """Be like a process that has been started so, in a session of its own."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    for number in _SENT:
        handler = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in order["ignored"] else handler)
    os.chdir(order["directory"])
    os.environ.clear()
    os.environ.update(order["environment"])
    return order["program"], order["arguments"]


def _import_all() -> None:
    """Also what a daemon imports when it has begun to serve, and each command when it is called."""
    for name in ("crdtsyncd", "crdtsync.client", "crdtsync.coordination", "crdtsync.context", "crdtsync.sessions"):
        for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
            if not module.name.endswith(".__main__"):
                importlib.import_module(module.name)
    for name in ("structlog", "cryptography.hazmat.backends.openssl.backend", "encodings.idna"):
        importlib.import_module(name)


def _ours() -> dict[str, Callable[[], object]]:
    from crdtsyncd.cli.main import main as command_line  # only here, and not where tests are
    from crdtsyncd.main import main as daemon

    _import_all()
    sys.modules["crdtsyncd.serve"].release_start_pages = lambda: 0  # type: ignore[attr-defined]  # all share them
    return {"crdtsync": command_line, "crdtsyncd": daemon}


def _main() -> None:
    asked, listening = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    programs: dict[str, Callable[[], object]] = {} if sys.argv[3:] else _ours()
    gc.freeze()  # a collection in a fork would touch, and so copy, every page of it

    program, arguments = _serve(asked, listening)
    sys.argv = [program if program in programs else "crdtsyncd", *arguments]
    status: object = None
    try:
        programs.get(program, lambda: exec(program, {}))()  # a test's own
    except SystemExit as ended:
        status = ended.code
    _end(status)


def _end(status: object) -> None:
    """As an interpreter ends, but for taking everything apart, which would touch, and so copy, every page."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if status is not None and not isinstance(status, int):
        sys.stderr.write(f"{status}\n")
        status = 1
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit((status or 0) & 0xFF)


if __name__ == "__main__":
    _main()
