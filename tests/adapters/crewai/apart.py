"""A flow and a memory on two daemons: ``use SOCKET…`` while they are cut off, ``show SOCKET…`` what each knows then."""

from __future__ import annotations

import sys
from unittest.mock import MagicMock
from zlib import crc32

from crewai.memory.unified_memory import Memory

from crdtsync.adapters.crewai import CrdtFlowPersistence, CrdtMemoryStorage

SAID = ["the build runs on fridays", "the build needs two hours"]


def embed(texts: list[str]) -> list[list[float]]:
    """A place for each word: what has words in common is near."""
    vectors = [[0.0] * 512 for _ in texts]
    for vector, text in zip(vectors, texts, strict=True):
        for word in text.lower().split():
            vector[crc32(word.encode()) % 512] = 1.0
    return vectors


for number, socket in enumerate(sys.argv[2:]):
    with CrdtMemoryStorage(socket) as storage:
        flows, memory = CrdtFlowPersistence(socket), Memory(storage=storage, llm=MagicMock(), embedder=embed)
        if sys.argv[1] == "use":
            flows.save_state("one", "step", {"by": number})
            memory.remember(SAID[number], scope="/team", categories=["fact"], importance=0.5)
        recalled = [match.record.content for match in memory.recall("when runs the build", depth="shallow", limit=3)]
        print(flows.load_state("one"), recalled)
        flows.close()
