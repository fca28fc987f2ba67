"""Agent frameworks that adapters are tested against, each with its packages in an environment of its own.

The folder ``tests/adapters/NAME`` has what is installed (``requirements.lock``, which ``./dev lock`` makes) and the
tests that run in there. The environment is made when a test first needs it, and again when the lock file has changed.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from tests.harness.daemon import Daemon
from tests.harness.warm import run_to_end

ROOT = Path(__file__).resolve().parents[2]
FRAMEWORKS = ROOT / "tests" / "adapters"
ENVIRONMENTS = ROOT / ".venv-adapters"
PAGE = ROOT / "docs" / "how-to" / "frameworks.md"
INSTALL_TIMEOUT_S = 600  # of all tries
PAUSES_S = (2, 5, 15)
RUN_TIMEOUT_S = 600


def python_with(name: str) -> Path:
    """The Python that has the framework; the test is over if the registry does not bring it (``fetch``)."""
    lock, place = FRAMEWORKS / name / "requirements.lock", ENVIRONMENTS / name
    python, stamp = place / "bin" / "python", place / "stamp"
    wanted = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()
    ENVIRONMENTS.mkdir(exist_ok=True)
    with (ENVIRONMENTS / f"{name}.lock").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            shutil.rmtree(place, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
            _install(name, python, lock)
            stamp.write_text(wanted)
    return python


def _install(name: str, python: Path, lock: Path) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--retries", "3"]
    fetch(
        name,
        [*command, "--disable-pip-version-check", "--no-deps", "--no-compile", "--require-hashes", "-r", str(lock)],
    )


def fetch(name: str, command: list[str], *, pauses_s: Sequence[float] = PAUSES_S) -> None:
    """Run a command that gets packages, again after each pause if it fails.

    If it never succeeds, the test fails in CI, so that no adapter goes untested there, and is skipped elsewhere.
    """
    until, why = monotonic() + INSTALL_TIMEOUT_S, ""
    for pause_s in (0, *pauses_s):
        sleep(pause_s)
        try:
            left_s = max(0.0, until - monotonic())
            done = subprocess.run(command, capture_output=True, text=True, timeout=left_s, check=False)
        except subprocess.TimeoutExpired:
            why = f"it did not answer in {INSTALL_TIMEOUT_S} s"
            break
        assert "HASHES" not in done.stderr, done.stderr
        if done.returncode == 0:
            return
        why = done.stderr[-300:]
    message = f"the registry does not bring the packages, {name} is NOT tested: {why}"
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(message)
    pytest.skip(message)


def environment(**variables: Any) -> dict[str, str]:
    """For programs of a framework: they find crdtsync in this checkout, and call nobody."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CRDTSYNC_", "PYTHON", "LANG"))}
    quiet = {"LANGSMITH_TRACING": "false", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    quiet["PYTHONPYCACHEPREFIX"] = str(ENVIRONMENTS / "compiled")  # of what is imported alone: half of the work
    quiet |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "HEADROOM_OFFLINE": "1"}
    return {**kept, **quiet, "PYTHONPATH": str(ROOT), **{name: str(value) for name, value in variables.items()}}


def passes(name: str, file: str, **variables: Any) -> None:
    """The tests of one file of the framework's folder pass, in its environment and with these variables."""
    command = ["-c", os.devnull, "--confcutdir", str(FRAMEWORKS / name), "--rootdir", str(FRAMEWORKS / name)]
    command += ["--import-mode=importlib", "-p", "no:cacheprovider", "-q", "-x", str(FRAMEWORKS / name / file)]
    done = _run(name, "pytest", FRAMEWORKS / name / file, command, variables)
    assert done.returncode == 0, f"{done.stdout[-6000:].decode()}\n{done.stderr[-2000:].decode()}"


def run_with(name: str, daemon: Daemon, program: Path, *arguments: str) -> str:
    """What a program prints that runs beside a daemon, in the framework's environment; it finds the folder's files."""
    variables = {"CRDTSYNC_SOCKET": daemon.socket, "XDG_CACHE_HOME": ENVIRONMENTS / name / "cache"}
    done = _run(name, str(program), program, arguments, variables)
    assert done.returncode == 0, done.stderr[-3000:].decode()
    return done.stdout.decode()


def _run(
    name: str, what: str, source: Path, arguments: Sequence[str], variables: Mapping[str, Any]
) -> subprocess.CompletedProcess[bytes]:
    """Run a program or a module in the framework's environment, where what ``source`` imports is there already.

    Importing a framework takes seconds of processor time, and most of its tests start several programs.
    """
    python, is_program = str(python_with(name)), what.endswith(".py")
    imports = [] if is_program else [what]
    for each in ast.parse(source.read_text()).body:
        match each:
            case ast.Import(names):
                imports += [alias.name for alias in names]
            case ast.ImportFrom(module=str(module)):
                imports.append(module)
    run = "run_path" if is_program else "run_module"
    return run_to_end(
        f"import runpy\nrunpy.{run}({what!r}, run_name='__main__'{'' if is_program else ', alter_sys=True'})",
        [python, what] if is_program else [python, "-m", what],
        arguments,
        environment=environment(**variables) | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(FRAMEWORKS / name)])},
        imports=imports,
        python=python,
        timeout_s=RUN_TIMEOUT_S,
    )


def program_of_the_page(word: str, place: Path, first: str = "") -> Path:
    """The program of the how-to page that calls a class, in a file that imports ``first`` from the folder before."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (program,) = [block for block in blocks if f"{word}(" in block]
    place.write_text(f"import {first}\n{program}" if first else program)
    return place


def own_tests(name: str, daemon: Daemon, plugin: str, *arguments: str, package: str = "") -> str:
    """What a framework's own tests say, those of its source distribution, with a plugin of the framework's folder."""
    command = [str(python_with(name)), "-m", "pytest", "-p", plugin, "-p", "no:cacheprovider", "-q", *arguments]
    variables = environment(SOCKET=daemon.socket) | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(FRAMEWORKS / name)])}
    place = source_of(name, package or name)
    done = subprocess.run(command, env=variables, cwd=place, capture_output=True, text=True, check=False)
    return done.stdout[-5000:] + done.stderr[-1000:]


def source_of(name: str, package: str) -> Path:
    """The unpacked source distribution of a package of the framework, in the locked version: it has its own tests."""
    place = ENVIRONMENTS / name / "source"
    lock = (FRAMEWORKS / name / "requirements.lock").read_text()
    (locked,) = re.findall(rf"^{package}==(?:[^\n]*\n[ ]+)+--hash[^\n]*$", lock, re.MULTILINE)
    with (ENVIRONMENTS / f"{name}.lock").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        if not place.exists():
            wanted = ENVIRONMENTS / name / "source.lock"
            wanted.write_text(locked)
            partial = place.with_name("source.partial")
            shutil.rmtree(partial, ignore_errors=True)
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--retries", "3", "--no-deps"]
            command += ["--disable-pip-version-check", "--no-build-isolation", "--no-binary", ":all:"]
            fetch(name, [*command, "--require-hashes", "-r", str(wanted), "-d", str(partial)])
            (archive,) = partial.glob("*.tar.gz")
            with tarfile.open(archive) as opened:
                opened.extractall(partial, filter="data")
            archive.unlink()
            partial.rename(place)
    (found,) = place.iterdir()
    return found
