"""The shared context beside headroom-ai's, and the memory before agent-memory-integrity's attacks on contents."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from crdtsync.context import compress
from crdtsync.context.extras import MissingPackage
from crdtsync.errors import InvalidRequest
from tests.harness import Daemon
from tests.harness.frameworks import FRAMEWORKS, ROOT, environment, passes, python_with

pytestmark = pytest.mark.integration


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_shared_contexts_answer_alike_call_by_call(daemon: Daemon) -> None:
    passes("headroom", "call_by_call.py", SOCKET=daemon.socket)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_attacks_on_what_a_memory_serves(daemon: Daemon) -> None:
    passes("agent-memory-integrity", "attacks_on_contents.py", SOCKET=daemon.socket)


EDITS = {
    "tamper", "truncate", "delete_middle", "reorder", "forge", "cross_replay", "rollback_replay", "metadata_tamper",
    "snapshot_rollback",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_edits_of_a_host_at_rest() -> None:
    """The one that nobody notices is told in docs/explanation/security.md. Short values, which memory holds."""
    python = python_with("agent-memory-integrity")
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    done = subprocess.run(
        [sys.executable, str(FRAMEWORKS / "agent-memory-integrity" / "edits_at_rest.py"), "20"],
        env=environment(PYTHONPATH=f"{ROOT}:{ROOT / 'daemon'}:{packages}"), capture_output=True, text=True,
        timeout=1100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    noticed = json.loads(done.stdout)
    assert noticed.keys() == EDITS
    assert {name for name, is_noticed in noticed.items() if not is_noticed} == {"snapshot_rollback"}, done.stderr


def test_without_headroom_it_says_what_to_install() -> None:
    with pytest.raises(MissingPackage, match="pip install headroom-ai"):
        compress("word " * 100, by="headroom")
    with pytest.raises(InvalidRequest, match="rules, headroom"):
        compress("word", by="magic")
