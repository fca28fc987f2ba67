"""The user's own patterns of secrets, looked for by a process of their own.

A pattern such as ``(a+)+$`` takes longer than anybody waits, and nothing ends a search within this process. So another
one searches, which has :data:`LINE_S` of processor time for a line; a pattern that takes longer is refused by its name.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import weakref
from pathlib import Path

from crdtsync.errors import InvalidRequest

LINE_S = 2
_WORKER = """
import json, math, re, resource, sys, time
patterns = [re.compile(one.encode()) for one in json.loads(sys.argv[1])]
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
while request := sys.stdin.buffer.readline():
    number, size = map(int, request.split())
    line, spans = sys.stdin.buffer.read(size), []
    end_s = math.ceil(time.process_time()) + int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_CPU, (end_s, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    for number in range(number, len(patterns)):
        print(number, end=" ", flush=True)
        group = 1 if patterns[number].groups else 0
        spans = [span for span in (one.span(group) for one in patterns[number].finditer(line)) if span[0] < span[1]]
        if spans:
            break
    print(json.dumps(spans), flush=True)
"""
"""It is told from which pattern on to look, and prints the number of each that it tries, then where it found one."""


class OwnPatterns:
    """Regular expressions, looked for one after the other; group 1 is the secret, if there is one, else all."""

    def __init__(self, sources: list[str], file: str = "") -> None:
        self._sources, self._file = sources, file
        self._worker: subprocess.Popen[bytes] | None = None

    def __len__(self) -> int:
        return len(self._sources)

    def __repr__(self) -> str:
        return repr(self._sources)

    def found(self, line: bytes, number: int) -> tuple[int, list[tuple[int, int]]]:
        """Where the first of the patterns from ``number`` on that are in ``line`` stands in it, and its number; an
        empty list if none is. Raises :class:`~crdtsync.errors.InvalidRequest` if one takes too long.
        """
        if self._worker is None:
            command = [sys.executable, "-I", "-S", "-c", _WORKER, json.dumps(self._sources), str(LINE_S)]
            self._worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            weakref.finalize(self, _end, self._worker)
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.write(b"%d %d\n%b" % (number, len(line), line))
        self._worker.stdin.flush()
        tried, sign, spans = self._worker.stdout.readline().partition(b"[")
        last = int(tried.split()[-1])
        if not sign:
            self._worker = None
            raise InvalidRequest(
                f"{self._sources[last]!r} in {self._file} takes more than {LINE_S} s for one line: write it so that a "
                f"text can match in one way alone, for example without a repeat in a repeat"
            )
        return last, [(start, end) for start, end in json.loads(sign + spans)]


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


def _end(worker: subprocess.Popen[bytes]) -> None:
    worker.kill()
    worker.communicate()
