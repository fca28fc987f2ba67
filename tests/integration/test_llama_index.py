"""LlamaIndex on real daemons: its stores, and conversations that go on on another host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import Cluster, Daemon
from tests.harness.cluster import healed
from tests.harness.frameworks import FRAMEWORKS, passes, program_of_the_page, run_with

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]

NAME = "llama-index"


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """The program of the how-to page, with a model that answers from a script."""
    return program_of_the_page("CrdtMemoryStore", tmp_path / "chat.py", "scripted_llm")


def test_the_stores(daemon: Daemon) -> None:
    passes(NAME, "stores_of_llama.py", SOCKET=daemon.socket)


def test_a_conversation_goes_on_where_its_host_has_died(pair: Cluster, chat: Path) -> None:
    assert run_with(NAME, pair[0], chat, "We ship on Friday.") == "asked with 1 messages\nso be it\n"
    pair[1].client().wait(pair[0].client().now(), timeout=60)
    pair[0].kill()
    assert run_with(NAME, pair[1], chat, "When do we ship?") == "asked with 3 messages\nso be it\n"


def test_two_hosts_that_are_cut_off_keep_all_that_was_said_and_put(parted: Cluster, chat: Path) -> None:
    value = FRAMEWORKS / NAME / "one_value.py"
    for daemon in parted:
        run_with(NAME, daemon, chat, f"Hello from {daemon.name}.")
        assert run_with(NAME, daemon, value, daemon.name) == f"{{'by': '{daemon.name}'}}\n"
    states = healed(parted)
    logs = [state.log("llama-index/chat/chat-17") for state in states]
    assert logs[0] == logs[1]
    said = [block["text"] for message in logs[0] for block in message["blocks"]]
    assert sorted(said) == ["Hello from host-a.", "Hello from host-b.", "so be it", "so be it"]
    assert run_with(NAME, parted[0], chat, "Both again.") == "asked with 5 messages\nso be it\n"
    assert [entry.key for entry in states[0].conflicts()] == ["llama-index/data/data/k"]
    assert run_with(NAME, parted[0], value, "both") == "{'by': 'both'}\n"
    states = healed(parted)
    assert [state.get("llama-index/data/data/k") for state in states] == [{"by": "both"}] * 2
    assert [state.conflicts() for state in states] == [[], []]
