"""AutoGen on real daemons: its own tests of saved states, and a team that goes on where its host has died."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.harness import Cluster, Daemon
from tests.harness.cluster import healed
from tests.harness.frameworks import own_tests, program_of_the_page, run_with

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]

NAME = "autogen"
KEY = "autogen/team-17"
SUITES = [
    f"tests/test_{name}.py"
    for name in (
        "group_chat", "group_chat_graph", "group_chat_nested", "magentic_one_group_chat", "society_of_mind_agent",
        "task_runner_tool",
    )
]  # fmt: skip


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """The program of the how-to page, with a model that answers from a script."""
    return program_of_the_page("RoundRobinGroupChat", tmp_path / "team.py", "scripted_model")


def test_autogens_own_tests(daemon: Daemon) -> None:
    """Those that save the state of a team, which goes through a key."""
    alone = ["-p", "scripted_model", "-c", os.devnull, "--rootdir", "."]
    told = own_tests(NAME, daemon, "states_in_a_key", *alone, *SUITES, package="autogen-agentchat")
    assert re.search(r"\b39 passed, 173 deselected\b", told), told


def test_a_team_goes_on_where_its_host_has_died(pair: Cluster, chat: Path) -> None:
    assert run_with(NAME, pair[0], chat, "We ship on Friday.") == "asked with 2 messages\nso be it\n"
    pair[1].client().wait(pair[0].client().now(), timeout=60)
    pair[0].kill()
    assert run_with(NAME, pair[1], chat, "When do we ship?") == "asked with 4 messages\nso be it\n"


def test_two_hosts_that_are_cut_off_keep_both_states(parted: Cluster, chat: Path) -> None:
    for daemon in parted:
        run_with(NAME, daemon, chat, f"Hello from {daemon.name}.")
    states = healed(parted)
    for state in states:
        entry = state.entry(KEY)
        assert entry is not None
        kept = [entry.value, *(sibling.value for sibling in entry.siblings)]
        assert [sum(f"from {daemon.name}" in str(value) for value in kept) for daemon in parted] == [1, 1]
    assert run_with(NAME, parted[0], chat, "Both again.") == "asked with 4 messages\nso be it\n"
    (conflict,) = healed(parted)[1].conflicts()
    assert ["Both again." in str(each.value) for each in (conflict, *conflict.siblings)] == [True, False]
