"""A command that runs as long as something holds, and is told to end when it does not."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from crdtsyncd.cli.errors import NOT_EXECUTABLE, NOT_FOUND, CommandFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Result = TypeVar("Result")

_PR_SET_PDEATHSIG = 1
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
END_S = 10.0
"""So long a command may take to end after SIGTERM; then it is killed."""


def end_with_parent() -> None:
    """In a child before it is the command: the kernel sends it SIGTERM when its parent dies, however that is (Linux:
    prctl(2), with the thread that started it; elsewhere it lives on).
    """
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGTERM)


def check(command: Sequence[str]) -> None:
    """Before anything is begun for whose sake it runs.

    :raises CommandFailed: there is no such command, or it is none that can be run.
    """
    if shutil.which(command[0]) is None:
        is_there = os.sep in command[0] and Path(command[0]).exists()
        what, status = ("cannot be run", NOT_EXECUTABLE) if is_there else ("was not found", NOT_FOUND)
        raise CommandFailed(f"{command[0]!r} {what}", status=status, code="command_failed")


class Child:
    """One run of a command; with ``content`` on its stdin, its stdout is in ``output`` at the end. ``is_late``: it was
    ended since it took too long.

    One with ``content`` is the first of a session: Ctrl-C of a terminal goes to whoever started it alone, who ends it,
    with all that it has started itself. One that asks on the terminal fails, for it has none.
    """

    def __init__(self, command: Sequence[str], variables: Mapping[str, str], content: bytes | None = None) -> None:
        try:
            self.process = subprocess.Popen(
                command,
                env={**os.environ, **variables},
                stdin=None if content is None else subprocess.PIPE,
                stdout=None if content is None else subprocess.PIPE,
                start_new_session=content is not None,
                preexec_fn=end_with_parent,  # noqa: PLW1509  # one call of the system, made ready before the fork
            )
        except FileNotFoundError:
            raise CommandFailed(f"{command[0]!r} was not found", status=NOT_FOUND, code="command_failed") from None
        except OSError as error:
            raise CommandFailed(
                f"{command[0]!r} cannot be run ({error.strerror})", status=NOT_EXECUTABLE, code="command_failed"
            ) from None
        self._content = content
        self.output = b""
        self.is_late = False
        self._is_over = False

    def end(self) -> None:
        """Tell it to end: SIGTERM. From any thread."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        if self._content is None:
            self.process.send_signal(number)
        elif not self._is_over:  # the first of the group may have ended, and left others who hold its stdout
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def wait(self, limit_s: float | None = None) -> int:
        """Until it has ended, by itself or after so long; its exit status, as a shell has it."""
        try:
            self.output = self.process.communicate(self._content, limit_s)[0] or b""
        except subprocess.TimeoutExpired:
            self.end()
            try:
                self.output = self.process.communicate(timeout=END_S)[0] or b""
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                with suppress(subprocess.TimeoutExpired):  # who left the group goes on, and nobody waits for it
                    self.process.communicate(timeout=END_S)
            self.is_late = True
        finally:
            self._is_over = True
        status = self.process.returncode
        return 128 - status if status < 0 else status


def until_told(run: Callable[[], Result], end: Callable[[int], object]) -> Result:
    """The result of ``run``, which goes on in a thread. If somebody ends this process, ``end`` is called with the
    signal.

    Python handles a signal in the main thread, between two steps. If one comes just before that thread waits for
    another one or for a command, nothing wakes it. So it waits for nothing but signals, which come by a socket.
    """
    told, teller = socket.socketpair()
    with told, teller:
        teller.setblocking(False)
        signal.set_wakeup_fd(teller.fileno())
        stays = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # nohup: when the terminal is closed it goes on
        for number in (signal.SIGTERM, signal.SIGINT, *([] if stays else [signal.SIGHUP])):
            signal.signal(number, lambda *_: None)  # its number is a byte for ``told``
        try:
            with ThreadPoolExecutor(1) as pool:
                future = pool.submit(run)
                future.add_done_callback(lambda _: teller.send(_DONE))
                while not future.done():
                    for received in told.recv(64).replace(_DONE, b""):
                        end(received)
                return future.result()
        finally:
            signal.set_wakeup_fd(-1)


_DONE = b"\0"
