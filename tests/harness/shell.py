"""The command line as people and scripts run it: every command as a process of its own."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.harness.warm import run_to_end, stand_in

PROGRAM = [sys.executable, "-m", "crdtsyncd.cli"]
TIMEOUT_S = 60


class Done(NamedTuple):
    status: int
    out: str
    err: str


def command(*arguments: str, given: str = "", environment: dict[str, str] | None = None) -> Done:
    """Run ``crdtsync`` once, in this environment."""
    done = run_to_end(
        "crdtsync", PROGRAM, arguments, environment=environment or dict(os.environ), given=given.encode(),
        timeout_s=TIMEOUT_S,
    )  # fmt: skip
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


class Shell:
    """Runs ``crdtsync`` on the socket of one daemon, in a directory of its own."""

    def __init__(self, socket: Path, directory: Path) -> None:
        self.directory = directory
        (directory / "bin").mkdir(exist_ok=True)
        for name, module in (("crdtsync", "crdtsyncd.cli"), ("crdtsyncd", "crdtsyncd.main")):
            script = directory / "bin" / name
            program = shlex.join(stand_in(name, [sys.executable, "-m", module]))
            script.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
            script.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CRDTSYNC_")}
        path = f"{directory / 'bin'}:{os.environ['PATH']}"
        self.environment = {**kept, "CRDTSYNC_SOCKET": str(socket), "PATH": path}

    def __call__(self, *arguments: str, stdin: str | bytes = b"", **environment: str) -> Done:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        done = run_to_end(
            "crdtsync", PROGRAM, arguments, environment=self.environment | environment, directory=self.directory,
            given=given, timeout_s=TIMEOUT_S,
        )  # fmt: skip
        assert b"Traceback" not in done.stderr
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def ok(self, *arguments: str, stdin: str | bytes = b"", **environment: str) -> str:
        """What it prints, without the line end; it has to succeed in silence."""
        done = self(*arguments, stdin=stdin, **environment)
        assert (done.status, done.err) == (0, "")
        return done.out.rstrip("\n")

    def json(self, *arguments: str) -> list[Any]:
        """The lines that it prints, as JSON."""
        return [json.loads(line) for line in self.ok(*arguments).splitlines()]

    def start(self, *arguments: str) -> Running:
        return Running([*stand_in("crdtsync", PROGRAM), *arguments], self.environment, self.directory)


class Running:
    """A command that goes on until it is stopped; its output line by line, and with ``is_told`` what it is told."""

    def __init__(
        self, command: list[str], environment: dict[str, str], directory: Path, *, is_told: bool = False
    ) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE if is_told else None, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment, cwd=directory, start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        self.process.communicate()

    def _kill(self) -> None:
        """It and what it started, which may outlive it and hold its output open."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def tell(self, line: str) -> None:
        """One line on its stdin."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def line(self) -> str:
        """The next line of its stdout."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode()

    def event(self) -> Any:
        """The next line as JSON."""
        return json.loads(self.line())

    def interrupt(self) -> tuple[int, str]:
        """Ctrl-C: its exit status and what it said."""
        self.process.send_signal(signal.SIGINT)
        _, err = self.process.communicate()
        return self.process.returncode, err.decode()
