"""The shared context beside headroom-ai's, and the memory before agent-memory-integrity's attacks on contents."""

from __future__ import annotations

import pytest

from crdtsync.context import compress
from crdtsync.context.extras import MissingPackage
from tests.harness import Daemon
from tests.harness.frameworks import passes

pytestmark = pytest.mark.integration


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_shared_contexts_answer_alike_call_by_call(daemon: Daemon) -> None:
    passes("headroom", "call_by_call.py", SOCKET=daemon.socket)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_attacks_on_what_a_memory_serves(daemon: Daemon) -> None:
    passes("agent-memory-integrity", "attacks_on_contents.py", SOCKET=daemon.socket)


def test_without_headroom_it_says_what_to_install() -> None:
    with pytest.raises(MissingPackage, match="pip install headroom-ai"):
        compress("word " * 100, by="headroom")
    with pytest.raises(ValueError, match="rules, headroom"):
        compress("word", by="magic")
