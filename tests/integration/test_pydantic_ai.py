"""Pydantic AI on real daemons: its store of conversations, and conversations that go on on another host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import Cluster, Daemon
from tests.harness.cluster import healed
from tests.harness.frameworks import FRAMEWORKS, passes, program_of_the_page, run_with

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]

NAME = "pydantic-ai"
BRANCHES = FRAMEWORKS / NAME / "branches_of.py"


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """The program of the how-to page, with a model that answers from a script."""
    return program_of_the_page("CrdtConversationStore", tmp_path / "chat.py", "scripted_agent")


def test_the_store(daemon: Daemon) -> None:
    passes(NAME, "conversations.py", SOCKET=daemon.socket)


def test_a_conversation_goes_on_where_its_host_has_died(pair: Cluster, chat: Path) -> None:
    assert run_with(NAME, pair[0], chat, "We ship on Friday.") == "asked with 1 messages\nso be it\n"
    pair[1].client().wait(pair[0].client().now(), timeout=60)
    pair[0].kill()
    assert run_with(NAME, pair[1], chat, "When do we ship?") == "asked with 3 messages\nso be it\n"


def test_two_hosts_that_are_cut_off_keep_all_that_was_said(parted: Cluster, chat: Path) -> None:
    for daemon in parted:
        run_with(NAME, daemon, chat, f"Hello from {daemon.name}.")
    healed(parted)
    shown = [run_with(NAME, daemon, BRANCHES) for daemon in parted]
    assert shown[0] == shown[1]
    assert sorted(shown[0].splitlines()) == ["Hello from host-a. so be it", "Hello from host-b. so be it"]
    assert run_with(NAME, parted[0], chat, "Both again.") == "asked with 3 messages\nso be it\n"
    states = healed(parted)
    assert [state.conflicts() for state in states] == [[], []]
    newer, older = shown[0].splitlines()
    assert run_with(NAME, parted[1], BRANCHES) == f"{newer} Both again. so be it\n{older}\n"
