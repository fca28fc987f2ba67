"""A command that runs as long as something holds, and is told to end when it does not."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

from crdtsyncd.cli.errors import NOT_EXECUTABLE, NOT_FOUND, CommandFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Child:
    """One run of a command. SIGTERM and SIGINT to this process go on to it."""

    def __init__(self, command: Sequence[str], variables: Mapping[str, str], content: bytes | None = None) -> None:
        try:
            self.process = subprocess.Popen(
                command,
                env={**os.environ, **variables},
                stdin=None if content is None else subprocess.PIPE,
                stdout=None if content is None else subprocess.PIPE,
            )
        except FileNotFoundError:
            raise CommandFailed(f"{command[0]!r} was not found", status=NOT_FOUND, code="command_failed") from None
        except OSError as error:
            raise CommandFailed(
                f"{command[0]!r} cannot be run ({error.strerror})", status=NOT_EXECUTABLE, code="command_failed"
            ) from None
        self._content = content
        self.output = b""

    def end(self) -> None:
        """Tell it to end: SIGTERM. From any thread."""
        self.process.terminate()

    def wait(self) -> int:
        """Until it has ended; its exit status, as a shell has it."""
        if self._content is not None:
            self.output = self.process.communicate(self._content)[0]
        status = self.process.wait()
        return 128 - status if status < 0 else status


def pass_on_signals(child: Child) -> None:
    """While it runs, whoever ends this process ends it. For the main thread."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: child.process.send_signal(received))
