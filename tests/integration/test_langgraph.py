"""LangGraph on real daemons: its conformance suite, and graphs that go on where a host has died."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from crdtsync import Client
from tests.harness import Cluster, Daemon
from tests.harness.frameworks import FRAMEWORKS, ROOT, environment, passes, python_with
from tests.harness.shell import Running, Shell
from tests.integration.test_examples import fenced

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]

PAGE = "docs/how-to/frameworks.md"


def test_the_checkpointers(daemon: Daemon) -> None:
    passes("langgraph", "saver.py", SOCKET=daemon.socket)


def test_the_stores(daemon: Daemon) -> None:
    passes("langgraph", "store.py", SOCKET=daemon.socket)


def test_the_store_of_the_page(daemon: Daemon, tmp_path: Path) -> None:
    (program,) = programs("CrdtStore")
    (tmp_path / "remember.py").write_text(program)
    assert run(daemon, tmp_path / "remember.py") == "food Ada likes pizza with anchovies\n"


def test_an_item_that_two_hosts_put_at_once(parted: Cluster) -> None:
    program = FRAMEWORKS / "langgraph" / "one_item.py"
    for daemon in parted:
        run(daemon, program, "put", daemon.name)
    parted.heal()
    states = [daemon.client() for daemon in parted]
    meet(states)
    assert len(states[0].conflicts()) == 1
    assert run(parted[0], program, "get") == run(parted[1], program, "get") != "None\n"
    run(parted[0], program, "put", "both")
    meet(states)
    assert [run(daemon, program, "get") for daemon in parted] == ["{'by': 'both'}\n"] * 2
    assert [state.conflicts() for state in states] == [[], []]


def test_a_run_goes_on_where_its_host_has_died(pair: Cluster, tmp_path: Path) -> None:
    """The program of the how-to page, on two hosts."""
    (program,) = programs("CrdtSaver")
    (tmp_path / "report.py").write_text(program)
    asked = run(pair[0], tmp_path / "report.py")
    assert "Shall we report that the cache is cold after a restart?" in asked
    pair[1].client().wait(pair[0].client().now(), timeout=60)
    pair[0].kill()
    told = run(pair[1], tmp_path / "report.py", "yes")
    assert "'text': 'the cache is cold after a restart; asked, a person said yes'" in told
    assert "'messages': ['researcher: one finding', 'analyst: asked', 'writer: done']" in told
    pair.start()
    states = [daemon.client() for daemon in pair]
    meet(states)
    assert [state.conflicts("langgraph/") for state in states] == [[], []]


def test_a_kill_in_the_middle_of_a_checkpoint_leaves_those_before(daemon: Daemon) -> None:
    program = FRAMEWORKS / "langgraph" / "steps.py"
    command = [str(python_with("langgraph")), str(program), "put"]
    with Running(command, environment(CRDTSYNC_SOCKET=daemon.socket), FRAMEWORKS) as steps:
        while int(steps.line()) < 5:
            pass
        daemon.kill()
    daemon.start()
    step, size = run(daemon, program, "show").split()
    assert (int(step) >= 5, size) == (True, "4000000")


def test_two_hosts_that_run_one_thread_both_keep_their_branch(parted: Cluster) -> None:
    begin = FRAMEWORKS / "langgraph" / "branches.py"
    run(parted[0], begin, "begin")
    parted.heal()
    parted[1].client().wait(parted[0].client().now(), timeout=60)
    parted.cut(0, 1)
    parted.wait_parted(0, 1)
    for daemon in parted:
        run(daemon, begin, "branch", daemon.name)
    parted.heal()
    meet([daemon.client() for daemon in parted])
    shown = [run(daemon, begin, "show") for daemon in parted]
    assert shown[0] == shown[1]
    for daemon in parted:
        assert f"['begun', 'asked on {daemon.name}', 'done on {daemon.name}']" in shown[0]


def test_what_the_sqlite_saver_has_kept_is_brought_over(daemon: Daemon, tmp_path: Path) -> None:
    program = FRAMEWORKS / "langgraph" / "with_sqlite.py"
    run(daemon, program, "keep", str(tmp_path / "kept.sqlite"))
    packages = next((python_with("langgraph").parents[1] / "lib").glob("python*/site-packages"))
    shell = Shell(daemon.socket, tmp_path)

    def bring(file: str, *options: str) -> str:
        done = shell("import-from", "langgraph-sqlite", file, *options, PYTHONPATH=f"{ROOT}:{packages}")
        return done.out or done.err

    assert bring("kept.sqlite", "--dry-run") == "3 created, 0 unchanged, if it were done\n"
    assert bring("kept.sqlite") == "3 created, 0 unchanged\n"
    assert bring("kept.sqlite") == "0 created, 3 unchanged\n"
    assert run(daemon, program, "go on") == "['one', 'and a half', 'yes']\n"
    (tmp_path / "other").write_text("no database" * 1000)
    assert "is no database of LangGraph's SqliteSaver" in bring("other")


def test_the_benchmark_measures_all_savers() -> None:
    python_with("langgraph")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "checkpointers", "--steps", "30", "--json"],
        cwd=ROOT, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found.keys() == {"in memory", "SQLite", "crdtsync"}
    assert found["SQLite"].keys() == found["crdtsync"].keys()
    assert all(figure > 0 for of in found.values() for figure in of.values())


def programs(word: str) -> list[str]:
    """Those of the how-to page that use a class."""
    return [code for where, code in fenced("python") if where.startswith(PAGE) and f"with {word}(" in code]


def meet(states: Sequence[Client]) -> None:
    """Until all have what each has now."""
    for token in [state.now() for state in states]:
        for state in states:
            state.wait(token, timeout=60)


def run(daemon: Daemon, program: Path, *arguments: str) -> str:
    """What a program prints that runs beside a daemon."""
    done = subprocess.run(
        [str(python_with("langgraph")), str(program), *arguments],
        env=environment(CRDTSYNC_SOCKET=daemon.socket), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
