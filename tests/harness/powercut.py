"""What a disk may hold after the power went, from a trace of what a process wrote and synced.

A traced process reports each step that it takes for durable. Its writes to files under one directory are replayed up
to any point: all that was synced by then is there; of what was written to a file after its last sync, each sector of
512 bytes may be there or not, whatever the order. (What a disk promises; a file system may promise more.)
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

SECTOR_BYTES = 512
_CALLS = "pwrite64,write,fdatasync,fsync,ftruncate,unlink"
_LINE = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\) += (-?\d+)")
_FILE = re.compile(r'^(\d+)<([^>]*)>(?:, "([^"]*)", \d+(?:, (\d+))?)?(?:, (\d+))?$')
_KINDS = {"pwrite64": "write", "fdatasync": "sync", "fsync": "sync", "ftruncate": "truncate", "unlink": "unlink"}


class Call(NamedTuple):
    """One system call: ``name`` is ``write``, ``sync``, ``truncate``, ``unlink`` or ``report``."""

    name: str
    path: str
    offset: int
    data: bytes


@dataclass(slots=True)
class _File:
    synced: bytearray = field(default_factory=bytearray)
    later: list[Call] = field(default_factory=list)


def trace(command: Sequence[str], directory: Path, output: Path) -> list[Call]:
    """Run a process under strace until it ends, and return what it did to files in ``directory``.

    What it writes to its standard output are its reports.
    """
    subprocess.run(
        ["strace", "-f", "-y", "-xx", "-s", "2000000", "-e", f"trace={_CALLS}", "-o", str(output), *command],
        stdout=subprocess.DEVNULL, stderr=sys.stderr, check=True,
    )  # fmt: skip
    return list(_calls(output, str(directory)))


def _calls(output: Path, directory: str) -> Iterator[Call]:
    with output.open() as lines:
        for line in lines:
            found = _LINE.match(line)
            if found is None or int(found[3]) < 0:
                continue
            name, arguments, result = found[1], found[2], int(found[3])
            if name == "unlink":
                path, data, place = _bytes(arguments).decode(), b"", 0
            else:
                parts = _FILE.match(arguments)
                assert parts is not None, f"not understood: {line[:200]}"
                path, data, place = _bytes(parts[2]).decode(), _bytes(parts[3] or ""), int(parts[4] or parts[5] or 0)
                if parts[1] == "1":
                    yield Call("report", "", 0, data)
                    continue
            if path.startswith(f"{directory}/") and not path.endswith("-shm"):  # that one is made anew after a crash
                yield Call(_KINDS[name], path, place, data[:result])


def _bytes(hexadecimal: str) -> bytes:
    return bytes.fromhex(hexadecimal.strip('"').replace("\\x", ""))


class Disk:
    """What is on disk while calls are replayed."""

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}

    def take(self, call: Call) -> None:
        """The next call."""
        if call.name == "unlink":
            self._files.pop(call.path, None)  # a name that is gone comes back in no case that matters here
            return
        file = self._files.setdefault(call.path, _File())
        if call.name == "sync":
            for earlier in file.later:
                _apply(file.synced, earlier)
            file.later.clear()
        else:
            file.later.append(call)

    def cut(self, rng: Random, into: Path) -> None:
        """Write what may be there after the power goes now into the directory ``into``, by names."""
        into.mkdir(parents=True)
        keeps = rng.choice((0.0, 0.5, 0.95))  # nothing, anything, nearly all
        for path, file in self._files.items():
            content = bytearray(file.synced)
            for call in file.later:
                for part in _sectors(call):
                    if rng.random() < keeps:
                        _apply(content, part)
            (into / Path(path).name).write_bytes(content)


def _sectors(call: Call) -> Iterator[Call]:
    if call.name != "write":
        yield call
        return
    start = 0
    while start < len(call.data):
        length = SECTOR_BYTES - (call.offset + start) % SECTOR_BYTES
        yield Call("write", call.path, call.offset + start, call.data[start : start + length])
        start += length


def _apply(content: bytearray, call: Call) -> None:
    if call.name == "truncate":
        del content[call.offset :]
        content.extend(bytes(call.offset - len(content)))
        return
    end = call.offset + len(call.data)
    content.extend(bytes(max(0, end - len(content))))
    content[call.offset : end] = call.data
