"""LangGraph on real daemons: its conformance suite, and graphs that go on where a host has died."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.harness import Cluster, Daemon
from tests.harness.frameworks import FRAMEWORKS, environment, passes, python_with
from tests.integration.test_examples import fenced

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]

PAGE = "docs/how-to/frameworks.md"


def test_the_checkpointers(daemon: Daemon) -> None:
    passes("langgraph", "saver.py", SOCKET=daemon.socket)


def test_a_run_goes_on_where_its_host_has_died(pair: Cluster, tmp_path: Path) -> None:
    """The program of the how-to page, on two hosts."""
    (program,) = [code for where, code in fenced("python") if where.startswith(PAGE) and "CrdtSaver" in code]
    (tmp_path / "report.py").write_text(program)
    asked = run(pair[0], tmp_path / "report.py")
    assert "Shall we report that the cache is cold after a restart?" in asked
    pair[1].client().wait(pair[0].client().now(), timeout=60)
    pair[0].kill()
    told = run(pair[1], tmp_path / "report.py", "yes")
    assert "'text': 'the cache is cold after a restart; asked, a person said yes'" in told
    assert "'messages': ['researcher: one finding', 'analyst: asked', 'writer: done']" in told
    pair.start()
    state = pair[0].client()
    pair[0].client().wait(pair[1].client().now(), timeout=60)
    assert state.conflicts("langgraph/") == []


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
    for daemon, other in ((parted[0], parted[1]), (parted[1], parted[0])):
        daemon.client().wait(other.client().now(), timeout=60)
    shown = [run(daemon, begin, "show") for daemon in parted]
    assert shown[0] == shown[1]
    for daemon in parted:
        assert f"['begun', 'asked on {daemon.name}', 'done on {daemon.name}']" in shown[0]


def run(daemon: Daemon, program: Path, *arguments: str) -> str:
    """What a program prints that runs beside a daemon."""
    done = subprocess.run(
        [str(python_with("langgraph")), str(program), *arguments],
        env=environment(CRDTSYNC_SOCKET=daemon.socket), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
