"""Google ADK on real daemons: what it asks of its services, and conversations that go on on another host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import Cluster, Daemon
from tests.harness.cluster import healed
from tests.harness.frameworks import FRAMEWORKS, passes, program_of_the_page, run_with

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]

NAME = "google-adk"
REPORT = FRAMEWORKS / NAME / "keep_report.py"


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """The program of the how-to page, with a model that answers from a script."""
    return program_of_the_page("CrdtSessionService", tmp_path / "chat.py", "scripted_gemini")


def test_the_session_service(daemon: Daemon) -> None:
    passes(NAME, "sessions.py", SOCKET=daemon.socket)


def test_memory_and_artifacts(daemon: Daemon, tmp_path: Path) -> None:
    passes(NAME, "memory_and_artifacts.py", SOCKET=daemon.socket, XDG_CACHE_HOME=tmp_path)


def test_a_conversation_goes_on_where_its_host_has_died(pair: Cluster, chat: Path) -> None:
    assert run_with(NAME, pair[0], REPORT, "save", "first") == "1800000 first first\n"
    assert run_with(NAME, pair[0], chat, "We ship on Friday.") == "asked with 1 contents\nso be it\n"
    pair[1].client().wait(pair[0].client().now(), timeout=60)
    pair[0].kill()
    assert run_with(NAME, pair[1], chat, "When do we ship?") == "asked with 3 contents\nso be it\n"
    assert said(pair[1]) == ["We ship on Friday.", "so be it", "When do we ship?", "so be it"]
    assert run_with(NAME, pair[1], REPORT, "show") == "1800000 first first\n"


def test_two_hosts_that_are_cut_off_keep_all_that_was_said(parted: Cluster, chat: Path) -> None:
    for daemon in parted:
        run_with(NAME, daemon, chat, f"Hello from {daemon.name}.")
        run_with(NAME, daemon, REPORT, "save", daemon.name)
    states = healed(parted)
    assert said(parted[0]) == said(parted[1])
    assert sorted(said(parted[0])) == ["Hello from host-a.", "Hello from host-b.", "so be it", "so be it"]
    assert run_with(NAME, parted[0], chat, "Both again.") == "asked with 5 contents\nso be it\n"
    assert run_with(NAME, parted[0], REPORT, "show").split()[2:] == ["host-a", "host-b"]
    (report,) = states[0].conflicts("google-adk/artifact/")
    assert [len(report.siblings), report.key] == [1, "google-adk/artifact/chat/ada/17/report.txt/0000000000"]


def said(daemon: Daemon) -> list[str]:
    """The texts of the conversation that a host holds."""
    return [event["content"]["parts"][0]["text"] for event in daemon.client().log("google-adk/events/chat/ada/17")]
