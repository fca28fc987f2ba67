"""Microsoft Agent Framework on real daemons: as its own files, and workflows that go on where a host has died."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import Cluster, Daemon
from tests.harness.frameworks import FRAMEWORKS, passes, program_of_the_page, run_with

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]

NAME = "agent-framework"


def test_histories_and_checkpoints(daemon: Daemon) -> None:
    passes(NAME, "storage.py", SOCKET=daemon.socket)


def test_a_workflow_that_waits_goes_on_where_its_host_has_died(pair: Cluster, tmp_path: Path) -> None:
    """The program of the how-to page, on two hosts."""
    program = program_of_the_page("CrdtCheckpointStorage", tmp_path / "report.py")
    question = "Shall we report that the cache is cold after a restart?"
    assert run_with(NAME, pair[0], program) == f"['{question}']\n"
    pair[1].client().wait(pair[0].client().now(), timeout=60)
    pair[0].kill()
    assert run_with(NAME, pair[1], program, "yes") == f"['{question} A person said yes.']\n"
    assert run_with(NAME, pair[1], program, "yes") == "report-17 asks nobody\n"


def test_two_hosts_that_are_cut_off_keep_all_that_was_said(parted: Cluster) -> None:
    program = FRAMEWORKS / NAME / "talk.py"
    for daemon in parted:
        assert run_with(NAME, daemon, program, f"from {daemon.name}") == f"['from {daemon.name}']\n"
    parted.heal()
    states = [daemon.client() for daemon in parted]
    for token in [state.now() for state in states]:
        for state in states:
            state.wait(token, timeout=60)
    logs = [state.log("agent-framework/messages/chat-17") for state in states]
    assert logs[0] == logs[1]
    assert run_with(NAME, parted[0], program, "both").count("from host-") == 2
