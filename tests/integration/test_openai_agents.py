"""The OpenAI Agents SDK on real daemons: its own tests of sessions, and conversations that go on on another host."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.harness import Cluster, Daemon
from tests.harness.cluster import healed
from tests.harness.frameworks import FRAMEWORKS, own_tests, passes, program_of_the_page, run_with

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]

NAME = "openai-agents"
OF_SQLITE = (
    "worker or reaps or retired or corrupt or lock or rolls_back or rollback or quarantined or post_commit or closed"
)
"""Words in the names of tests that look at the connections, rows and locks of SQLite."""
OF_ITS_PACKAGES = "(default_reads and usage)"
"""One that a newer package of OpenAI's, with one field more, fails with SQLite too."""


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """The program of the how-to page, with a model that answers from a script."""
    return program_of_the_page("CrdtSession", tmp_path / "chat.py", "scripted")


def test_the_session(daemon: Daemon) -> None:
    passes(NAME, "session.py", SOCKET=daemon.socket)


def test_the_sdks_own_tests(daemon: Daemon) -> None:
    """With CrdtSession where they make an SQLiteSession."""
    suites = ["tests/memory/test_session.py", "tests/memory/test_session_limit.py"]
    told = own_tests(NAME, daemon, "in_place_of_sqlite", "-k", f"not ({OF_SQLITE})", *suites)
    assert re.search(r"\b53 passed, 18 deselected\b", told), told


def test_the_sdks_own_tests_of_branches_and_usage(daemon: Daemon) -> None:
    """With AdvancedCrdtSession where they make an AdvancedSQLiteSession."""
    suite = "tests/extensions/memory/test_advanced_sqlite_session.py"
    told = own_tests(NAME, daemon, "in_place_of_sqlite", "-k", f"not ({OF_ITS_PACKAGES})", suite)
    assert re.search(r"\b82 passed, 97 deselected\b", told), told


def test_a_conversation_goes_on_where_its_host_has_died(pair: Cluster, chat: Path) -> None:
    assert run_with(NAME, pair[0], chat, "We ship on Friday.") == "asked with 1 items\nso be it\n"
    pair[1].client().wait(pair[0].client().now(), timeout=60)
    pair[0].kill()
    assert run_with(NAME, pair[1], chat, "When do we ship?") == "asked with 3 items\nso be it\n"
    said = [item["content"] for item in pair[1].client().log("openai-agents/chat-17") if item["role"] == "user"]
    assert said == ["We ship on Friday.", "When do we ship?"]


def test_two_hosts_that_are_cut_off_keep_their_branches_and_usage(parted: Cluster) -> None:
    program = FRAMEWORKS / NAME / "branch_of.py"
    run_with(NAME, parted[0], program, "begin")
    healed(parted)
    parted.cut(0, 1)
    parted.wait_parted(0, 1)
    for daemon in parted:
        run_with(NAME, daemon, program, "branch", daemon.name)
        run_with(NAME, daemon, program, "branch", daemon.name, "same")
    healed(parted)
    (branches, used), same = (json.loads(run_with(NAME, daemon, program, "show")) for daemon in parted)
    assert (branches, used) == (same[0], same[1])
    assert branches.pop("main") == ["one", "two"]
    both = branches.pop("same")
    assert sorted(branches.values()) == [["one", "host-a"], ["one", "host-b"]]
    assert {*both} == {"one", "host-a", "host-b"}, "one name, so one conversation"
    assert used["total_tokens"] == 30


def test_two_hosts_that_are_cut_off_keep_all_that_was_said(parted: Cluster, chat: Path) -> None:
    for daemon in parted:
        run_with(NAME, daemon, chat, f"Hello from {daemon.name}.")
    states = healed(parted)
    logs = [state.log("openai-agents/chat-17") for state in states]
    assert logs[0] == logs[1]
    asked = [item["content"] for item in logs[0] if item["role"] == "user"]
    assert sorted(asked) == ["Hello from host-a.", "Hello from host-b."]
    assert len(logs[0]) == 4
