"""The suite's attacks on what a memory serves, against ``Memory`` on a real daemon.

The suite signs what the user's own agent writes. Here that agent is ``assistant``; what it did not sign is written by
another agent, ``stranger``, who may write everywhere: nothing but ``authors`` keeps it apart.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from agmi.adapters.semantic_base import MemoryItem, Retrieved, SemanticMemoryAdapter
from agmi.attacks.memory_specific import ALL_MEMORY_ATTACKS
from agmi.signing import KEYRING

from crdtsync import Client
from crdtsync.context import Memory

_prefixes = itertools.count()


class OfCrdtsync(SemanticMemoryAdapter):  # type: ignore[misc]  # Any where the suite is not installed
    """``Memory`` as the suite asks for it; ``believed`` names the authors whose memories it serves."""

    name = "crdtsync"

    def __init__(self, folder: Path, believed: list[str] | None) -> None:
        self._clients = {name: Client(os.environ["SOCKET"], agent=name) for name in ("assistant", "stranger")}
        self._folder = folder
        self._believed = believed
        self.reset()

    def reset(self) -> None:
        prefix = f"memory-{next(_prefixes)}"
        self._written = {
            name: Memory(client, prefix=prefix, folder=self._folder) for name, client in self._clients.items()
        }
        self._read = Memory(self._clients["assistant"], prefix=prefix, folder=self._folder, authors=self._believed)

    def add_memory(self, item: MemoryItem) -> None:
        is_own = KEYRING.verify(item.user_id, item.source, item.text, item.signature)
        memory = self._written["assistant" if is_own else "stranger"]
        memory.add(item.text, user_id=item.user_id, metadata={**item.metadata, "source": item.source})

    def retrieve(self, query: str, user_id: str, k: int = 5) -> list[Retrieved]:
        return self._shown(self._read.search(query, user_id=user_id, limit=k), user_id)

    def retrieve_where(self, query: str, user_id: str, where: dict[str, Any], k: int = 5) -> list[Retrieved]:
        return self._shown(self._read.search(query, user_id=user_id, limit=k, filters=where), user_id)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    @staticmethod
    def _shown(found: dict[str, Any], user_id: str) -> list[Retrieved]:
        return [Retrieved(one["memory"], user_id, one["score"]) for one in found["results"]]


def outcomes(believed: list[str] | None) -> dict[str, dict[str, int]]:
    """For each attack and channel, how many of its five scenarios the attacker won."""
    won: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        adapter = OfCrdtsync(Path(folder), believed)
        for attack in ALL_MEMORY_ATTACKS:
            result = attack().run(adapter)
            assert result.error is None, f"{attack.name}: {result.error}"
            won[attack.name] = {channel: sum(found) for channel, found in result.channels.items()} or {
                "any": 0 if result.safe else 5
            }
            print(f"{attack.name:28} {result.status:10} {won[attack.name]}")
        adapter.close()
    return won


@pytest.fixture(scope="module")
def believing() -> dict[str, dict[str, int]]:
    return outcomes(["assistant"])


def test_nothing_of_one_user_is_found_for_another(believing: dict[str, dict[str, int]]) -> None:
    assert set(believing["cross_session_bleed"].values()) == {0}


def test_what_an_author_wrote_who_is_not_believed_is_never_served(believing: dict[str, dict[str, int]]) -> None:
    """Planted facts, corrections, tags, instructions, texts stuffed with the words of questions."""
    for attack, channels in believing.items():
        assert {name: won for name, won in channels.items() if name != "agent-laundered" and won} == {}, attack


def test_what_came_through_a_believed_author_is_served_as_the_docs_say(believing: dict[str, dict[str, int]]) -> None:
    """No store can tell a lie of its own agent from a fact. Should it one day, the docs are to say so."""
    served = {attack for attack, channels in believing.items() if channels.get("agent-laundered")}
    assert served == {
        "memory_injection", "retrieval_hijack", "indirect_prompt_injection", "update_poisoning", "metadata_poisoning",
    }  # fmt: skip
