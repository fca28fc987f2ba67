"""The user's own patterns of secrets, looked for by a process of their own.

A pattern such as ``(a+)+$`` takes longer than anybody waits, and nothing ends a search within this process. So another
one searches, which has :data:`LINE_S` of processor time for a line; a pattern that takes longer is refused by its name.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from pathlib import Path

from crdtsync.errors import InvalidRequest, Refused

LINE_S = 2
DYING_S = 10.0
_WORKER = """
import json, math, re, resource, sys, time
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
patterns = [re.compile(one.encode()) for one in json.loads(sys.stdin.buffer.readline())]
while request := sys.stdin.buffer.readline():
    number, size = map(int, request.split())
    line, spans = sys.stdin.buffer.read(size), []
    end_s = math.ceil(time.process_time()) + int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (end_s, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    for number in range(number, len(patterns)):
        print(number, end=" ", flush=True)
        group = 1 if patterns[number].groups else 0
        spans = [span for span in (one.span(group) for one in patterns[number].finditer(line)) if span[0] < span[1]]
        if spans:
            break
    print(json.dumps(spans), flush=True)
"""
"""It is told the patterns, which nobody else is to read in a list of processes; then from which one on to look. It
prints the number of each that it tries, then where it found one.
"""


class OwnPatterns:
    """Regular expressions, looked for one after the other; group 1 is the secret, if there is one, else all."""

    def __init__(self, sources: list[str], file: str = "") -> None:
        self._sources, self._file = sources, file
        self._worker: subprocess.Popen[bytes] | None = None
        self._process = 0  # whose worker that is
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._sources)

    def __repr__(self) -> str:
        return repr(self._sources)

    def found(self, line: bytes, number: int) -> tuple[int, list[tuple[int, int]]]:
        """Where the first of the patterns from ``number`` on that are in ``line`` stands in it, and its number; an
        empty list if none is. Raises :class:`~crdtsync.errors.InvalidRequest` if one takes too long, and
        :class:`~crdtsync.errors.Refused` if somebody ends the process that looks.
        """
        with self._lock:
            worker = self._running()
            try:
                answer = self._asked(worker, b"%d %d\n%b" % (number, len(line), line))
            except BaseException:  # also Ctrl-C: what comes of it later would be taken for the next line's
                self._worker = None
                _end(worker, self._process)
                raise
            tried, sign, spans = answer.partition(b"[")
            if sign:
                return int(tried.split()[-1]), [(start, end) for start, end in json.loads(sign + spans)]
            self._worker = None
            with suppress(subprocess.TimeoutExpired):
                worker.wait(DYING_S)
            _end(worker, self._process)
        if worker.returncode != -signal.SIGXCPU or not tried.split():
            raise Refused("the process that looks for your patterns of secrets was ended: nothing was saved; try again")
        raise InvalidRequest(
            f"{self._sources[int(tried.split()[-1])]!r} in {self._file} takes more than {LINE_S} s for one line: write "
            "it so that a text can match in one way alone, for example without a repeat in a repeat"
        )

    def _running(self) -> subprocess.Popen[bytes]:
        if self._worker is None or self._process != os.getpid():  # a fork has the pipes of its parent's
            command = [sys.executable, "-I", "-S", "-c", _WORKER, str(LINE_S)]
            self._worker = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
            self._process = os.getpid()
            weakref.finalize(self, _end, self._worker, self._process)
            assert self._worker.stdin is not None
            self._worker.stdin.write(json.dumps(self._sources).encode() + b"\n")
        return self._worker

    def _asked(self, worker: subprocess.Popen[bytes], question: bytes) -> bytes:
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            worker.stdin.write(question)
            worker.stdin.flush()
            return worker.stdout.readline()
        except BrokenPipeError:
            return b""


def own_patterns() -> OwnPatterns:
    """The user's own patterns, if there are some: one regular expression a line of ``crdtsync/secrets.txt`` in the
    folder of settings; blank lines and those that begin with ``#`` are none.
    """
    file = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "crdtsync" / "secrets.txt"
    sources = []
    for number, line in enumerate(file.read_text("utf-8").splitlines() if file.exists() else (), 1):
        if line.strip() and not line.startswith("#"):
            try:
                re.compile(line.encode())
            except re.error as error:
                raise InvalidRequest(f"{file}, line {number} is no regular expression: {error}") from None
            sources.append(line)
    return OwnPatterns(sources, str(file))


def _end(worker: subprocess.Popen[bytes], process: int) -> None:
    if process != os.getpid():
        return  # a fork ends, and its parent goes on
    worker.kill()
    for stream in (worker.stdin, worker.stdout):
        with suppress(OSError):
            assert stream is not None
            stream.close()
    worker.wait()
