"""Texts of the kinds that agents hand each other: each is what a real program wrote on this machine just now.

Nothing is fetched, and nothing was written for this. Another machine has other texts of the same kinds.

- ``json``: the answers of pip, ruff and npm in JSON, the metadata of the installed packages as a package index gives
  it, and what a daemon answers to ``status``
- ``log``: verbose runs of tests: the standard library's by unittest, this project's by pytest
- ``traceback``: what logging and unittest print of exceptions: calls of the standard library with wrong arguments
- ``code``: modules of the standard library and of installed packages, drawn evenly
- ``transcript``: a session of a coding agent, whose tools were run: each call and each answer is a record
"""

from __future__ import annotations

import importlib
import inspect
import io
import json
import logging
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 600  # also where other work has the cores
_JSON_COMMANDS = (
    ("pip inspect", [sys.executable, "-m", "pip", "inspect", "--local"]),
    ("pip list", [sys.executable, "-m", "pip", "list", "--format", "json", "--verbose"]),
    ("ruff rule", [sys.executable, "-m", "ruff", "rule", "--all", "--output-format", "json"]),
    ("ruff check", [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "D,ANN,S", "--output-format",
                    "json", "--exit-zero", "benchmarks", "tools"]),
    ("npm", ["npm", "config", "list", "--json", "--long"]),
)  # fmt: skip
UNITTEST = [sys.executable, "-m", "unittest", "-v"]
_LOG_COMMANDS = (
    ("unittest: json, argparse", [*UNITTEST, "test.test_json", "test.test_argparse"]),
    ("unittest: os, shutil", [*UNITTEST, "test.test_os", "test.test_shutil"]),
    ("unittest: email", [*UNITTEST, "test.test_email"]),
    ("pytest: unit/client", [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "no:xdist",
                             "tests/unit/client/session", "tests/unit/client/values"]),
)  # fmt: skip
_CALLS: Sequence[tuple[str, list[str]]] = (
    ("Which tests are there?", ["ls", "-l", "tests/unit/client"]),
    ("I run some of the client.", _LOG_COMMANDS[3][1]),
    ("Where is the frame limit defined?", ["grep", "-rn", "BYTES_MAX", "crdtsync/wire", "crdtsync/client"]),
    ("I read the module.", ["cat", "crdtsync/client/protocol/frames.py"]),
    ("What does the style checker say?", _JSON_COMMANDS[3][1]),
    ("What has changed lately?", ["git", "log", "--stat", "-n", "12", "--no-color"]),
    ("Which packages are installed?", [sys.executable, "-m", "pip", "list"]),
    ("And the standard library's own tests?", _LOG_COMMANDS[0][1]),
)
_MODULES = ("json", "datetime", "ipaddress", "fractions", "decimal", "shlex", "configparser", "ast", "struct", "uuid",
            "urllib.parse", "email.utils", "base64", "zlib", "re", "statistics", "textwrap", "calendar")  # fmt: skip
_WRONG: tuple[tuple[Any, ...], ...] = (("\x00 not this",), (-7,), ([None, 3],), (b"\xff\xfe",), ({"a": object()},))
_SOURCES, _SOURCE_BYTES_MIN, _SOURCE_BYTES_MAX = 30, 8_000, 60_000


class Text(NamedTuple):
    """One text: where it comes from, and what it says."""

    name: str
    content: str


def corpora() -> dict[str, list[Text]]:
    """The texts of each kind."""
    made = {
        "json": list(_json()),
        "log": list(_logs()),
        "traceback": list(tracebacks(_MODULES, _WRONG)),
        "code": list(sources()),
    }
    return made | {"transcript": [Text("a session", session(_CALLS))]}


def _json() -> Iterator[Text]:
    for name, command in _JSON_COMMANDS:
        said = run_command(command)
        if said.startswith(("{", "[")):
            yield Text(name, said)
    packages = [_metadata(one) for one in metadata.distributions()]
    yield Text("package metadata", json.dumps(sorted(packages, key=lambda one: str(one.get("name"))), indent=2))


def _metadata(package: metadata.Distribution) -> dict[str, Any]:
    """As a package index answers: everything but the description, which is no JSON but a page."""
    return {name: value for name, value in package.metadata.json.items() if name != "description"}


def _logs() -> Iterator[Text]:
    for name, command in _LOG_COMMANDS:
        yield Text(name, run_command(command, both=True))


def tracebacks(modules: Sequence[str], wrong: Sequence[tuple[Any, ...]]) -> Iterator[Text]:
    """A log in which a program notes every exception, and the report of a test run of which most fails."""
    stream = io.StringIO()
    log = logging.getLogger("worker")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    for number, (module, name, function) in enumerate(_callables(modules)):
        arguments = wrong[number % len(wrong)]
        log.info("task %d: %s.%s", number, module, name)
        try:
            function(*arguments)
        except Exception:
            log.exception("task %d failed", number)
    yield Text("a worker's log", stream.getvalue())
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_wrong.py").write_text(_test_file(modules, wrong))
        yield Text(
            "a failing test run",
            run_command([sys.executable, "-m", "unittest", "-v", "test_wrong"], Path(folder), both=True),
        )


def _callables(modules: Sequence[str]) -> Iterator[tuple[str, str, Any]]:
    for module in modules:
        for name, function in sorted(vars(importlib.import_module(module)).items()):
            if (
                inspect.isfunction(function)
                and name not in ("main", "test")
                and name[0] != "_"
                and function.__module__ == module
            ):
                yield module, name, function


def _test_file(modules: Sequence[str], wrong: Sequence[tuple[Any, ...]]) -> str:
    lines = ["import importlib, unittest", "", "class Wrong(unittest.TestCase):"]
    for number, (module, name, _) in enumerate(_callables(modules)):
        call = f"importlib.import_module({module!r}).{name}(*{wrong[number % 4]!r})"
        lines += [f"    def test_{module.replace('.', '_')}_{name}(self):", f"        {call}"]
    return "\n".join(lines)


def sources() -> Iterator[Text]:
    """Modules of the standard library and of installed packages, drawn evenly."""
    places = [Path(sysconfig.get_paths()["stdlib"]), Path(sysconfig.get_paths()["purelib"])]
    for place in places:
        files = [path for path in sorted(place.glob("*.py" if place == places[0] else "*/*.py")) if is_code(path)]
        for path in files[:: max(1, len(files) // (_SOURCES // 2))][: _SOURCES // 2]:
            yield Text(str(path.relative_to(place)), path.read_text("utf-8"))


def is_code(path: Path) -> bool:
    """A module of some length, whose text is code: tables of data have no functions to speak of."""
    if not _SOURCE_BYTES_MIN <= path.stat().st_size <= _SOURCE_BYTES_MAX:
        return False
    text = path.read_text("utf-8", "replace")
    return "\ufffd" not in text and len(re.findall(r"^\s*def ", text, re.MULTILINE)) * 60 > text.count("\n")


def session(calls: Sequence[tuple[str, list[str]]]) -> str:
    """A coding agent at work: what it said and called, and what each tool answered."""
    lines = []
    for number, (said, command) in enumerate(calls):
        call = {"type": "tool_use", "id": f"call_{number}", "name": "Bash", "input": {"command": " ".join(command)}}
        answer = {
            "type": "tool_result",
            "tool_use_id": f"call_{number}",
            "content": run_command(command, both="ruff" not in command),
        }
        lines.append({"role": "assistant", "content": [{"type": "text", "text": said}, call]})
        lines.append({"role": "user", "content": [answer]})
    return "\n".join(json.dumps(line) for line in lines)


def run_command(command: list[str], place: Path = ROOT, *, both: bool = False) -> str:
    """What a command prints; "" where it is not installed."""
    try:
        done = subprocess.run(
            command, cwd=place, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        return ""
    return done.stderr + done.stdout if both else done.stdout
