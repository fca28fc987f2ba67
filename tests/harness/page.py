"""A page of the documentation, carried out as a reader would: its console blocks and Python programs, in order."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Self

STEP_TIMEOUT_S = 60.0
_MARK = "@@@step-is-done"
_OPAQUE = re.compile(r"\b[cv]1\.[\w-]+")
"""Tokens and versions: other ones each time."""
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$|((?:^    [^\n]*\n)+)", re.MULTILINE | re.DOTALL)
_SAVE = re.compile(r"Save\s+this\s+as\s+`([\w.]+)`[^`]*$")
_LOOP = f'exec 2>&1; while IFS= read -r line; do eval "$line"; echo; echo "{_MARK}"; done'
_ELSEWHERE = ("./dev ", "source ")
"""What a reader does in another terminal, or once: the test has done it."""


class Program(NamedTuple):
    """Python code. ``name``: to be saved, and run later by a command."""

    code: str
    name: str | None


class Command(NamedTuple):
    """A line for the shell, and what the page shows that it prints."""

    line: str
    shown: str


class Output(NamedTuple):
    """What the page shows that a program prints."""

    text: str


def steps(page: str) -> Iterator[Program | Command | Output]:
    """What a page has its reader do, in order."""
    has_program = False
    for block in _BLOCK.finditer(page):
        language, code, indented = block.groups()
        if language == "python":
            name = _SAVE.search(page[: block.start()])
            has_program = name is None
            yield Program(code, name[1] if name else None)
        elif language == "console":
            for part in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
                line, _, shown = part.partition("\n")
                if not line.startswith(_ELSEWHERE):
                    yield Command(line, shown.rstrip("\n"))
        elif indented and indented.strip() and has_program:
            has_program = False
            yield Output(re.sub(r"^    ", "", indented.strip("\n"), flags=re.MULTILINE))


class Reader:
    """Does what a page says, in one shell, and compares. Tokens that the page shows stand for those that come."""

    def __init__(self, directory: Path, environment: Mapping[str, str], replaced: Mapping[str, str]) -> None:
        self._directory = directory
        self._environment = dict(environment)
        self._replaced = dict(replaced)
        self._programs: list[tuple[str, subprocess.Popen[str]]] = []
        self._shell = subprocess.Popen(
            ["bash", "-c", _LOOP],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=directory,
            env=self._environment,
        )

    def follow(self, page: str) -> int:
        """Carry out a page; how many things were done.

        A program runs until its output is compared; one whose output the page shows only after further commands runs
        beside these.
        """
        count = 0
        todo = list(steps(page))
        for number, step in enumerate(todo):
            count += 1
            match step:
                case Command():
                    self._compare(step.line, step.shown, self._say(self._fitted(step.line)))
                case Program(code, None):
                    self._start(self._fitted(code))
                    if number + 1 == len(todo) or not any(isinstance(later, Output) for later in todo[number:]):
                        self._end_program("")
                case Program(code, str(name)):
                    (self._directory / name).write_text(self._fitted(code))
                case Output(text):
                    self._end_program(text)
        return count

    def _fitted(self, text: str) -> str:
        for shown, actual in self._replaced.items():
            text = text.replace(shown, actual)
        return text

    def _start(self, code: str) -> None:
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            cwd=self._directory,
            env=self._environment,
        )
        self._programs.append((code, process))
        if ".watch(" in code:  # what it is to see must come after it has begun
            assert process.stdout is not None
            first = process.stdout.readline()
            while "None" not in (line := process.stdout.readline()) and line:
                first += line
            self._programs[-1] = (first + line, process)

    def _end_program(self, shown: str) -> None:
        code, process = self._programs.pop()
        out, _ = process.communicate(timeout=STEP_TIMEOUT_S)
        begun = code if ".watch(" not in code and code.startswith(("snapshot", "set")) else ""
        self._compare(code, shown, (begun + out).rstrip("\n"))

    def _say(self, line: str) -> str:
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        timer = threading.Timer(STEP_TIMEOUT_S, self._shell.kill)
        timer.start()
        try:
            self._shell.stdin.write(f"{line}\n")
            self._shell.stdin.flush()
            printed = []
            for text in self._shell.stdout:
                if text.startswith(_MARK):
                    break
                printed.append(text)
            else:
                raise AssertionError(f"the shell ended, or hung, at: {line}\n{''.join(printed)}")
        finally:
            timer.cancel()
        return "".join(printed).rstrip("\n")

    def _compare(self, what: str, shown: str, actual: str) -> None:
        pattern, end = "", 0
        for token in _OPAQUE.finditer(shown):
            pattern += _loosely(shown[end : token.start()]) + r"([cv]1\.[\w-]+)"
            end = token.end()
        found = re.fullmatch(pattern + _loosely(shown[end:]), actual, re.DOTALL)
        assert found is not None, f"{what}\n\nprints\n\n{actual}\n\nand not\n\n{shown}"
        self._replaced.update(zip(_OPAQUE.findall(shown), map(str, found.groups()), strict=True))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for _code, process in self._programs:
            process.kill()
            process.communicate()
        self._shell.kill()
        self._shell.communicate()


def _loosely(shown: str) -> str:
    return ".*".join(re.escape(part) for part in shown.split("…"))
