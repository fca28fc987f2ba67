"""A process in which only what an agent's installation has can be imported."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.harness import Daemon

pytestmark = pytest.mark.integration

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
IMPORTED_AS = {"prometheus-client": "prometheus_client"}


def modules(extra: str) -> list[str]:
    """What an extra brings, by the names under which it is imported."""
    names = [line.partition(">=")[0] for line in PROJECT["optional-dependencies"][extra]]
    return [IMPORTED_AS.get(name, name) for name in names]


def run_without(missing: list[str], program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    lines = ["import sys", f"sys.modules.update(dict.fromkeys({missing!r}))", program]
    command = [sys.executable, "-c", "\n".join(lines), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_an_agent_needs_msgpack_alone() -> None:
    assert [line.partition(">=")[0] for line in PROJECT["dependencies"]] == ["msgpack"]
    assert set(modules("text")) < set(modules("daemon"))


def test_an_agent_does_all_it_does_but_for_texts(daemon: Daemon) -> None:
    daemon.client().text("t").set("a text")
    program = """
import asyncio
from crdtsync import AsyncClient, Client
from crdtsync.client import Conflict, Entry, Event, Mirror, Resolver, Watch

with Client(socket=sys.argv[1], agent="Research Lead") as state:
    with state.batch() as batch:
        batch.set("k", {"n": 1})
        batch.append("l", 1, meta={"round": 1})
    state.incr("c"), state.add("s", 1), state.merge("m", {"x": 1}), state.update("k", lambda value: value)
    with state.mirror("k") as mirror, state.watch("k", timeout=60) as watch, state.resolver("k", lambda conflict: None):
        assert mirror["k"] == next(watch).value == {"n": 1}
    assert state.get("t") == "a text"
    assert state.items(where_meta={"round": 1}) and state.history("k") and state.status() and state.explain("k")
    for edit in (lambda: state.text("t").insert(0, "x"), lambda: state.text("t").read(), lambda: state.editor("t")):
        try:
            edit()
        except ModuleNotFoundError as error:
            assert "pip install 'crdtsync[text]'" in str(error)
        else:
            raise AssertionError("it was edited without pycrdt")

async def main():
    async with AsyncClient(socket=sys.argv[1], agent="a") as state:
        assert await state.get("k") == {"n": 1}

asyncio.run(main())
print("done")
"""
    done = run_without(modules("daemon"), program, str(daemon.socket))
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.parametrize("program", ["crdtsync", "crdtsyncd"])
def test_the_programs_say_what_to_install(program: str) -> None:
    for missing in (modules("daemon"), ["click"]):
        done = run_without(missing, f"from crdtsyncd.scripts import {program}\n{program}()", "--version")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"{program}: click is not installed: ")
        assert done.stderr.endswith("pip install 'crdtsync[daemon]'\n")
        assert done.stderr.count("\n") == 1


def test_a_daemon_without_options_says_what_to_install() -> None:
    done = run_without(modules("daemon"), "from crdtsyncd.scripts import crdtsyncd\ncrdtsyncd()")
    assert (done.returncode, done.stdout) == (2, "")
    assert " is not installed: " in done.stderr
    assert done.stderr.endswith("pip install 'crdtsync[daemon]'\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("program", ["crdtsync", "crdtsyncd"])
def test_with_all_of_it_they_begin(program: str) -> None:
    done = run_without([], f"from crdtsyncd.scripts import {program}\n{program}()", "--version")
    assert done.returncode == 0
    assert done.stdout.startswith(program)
