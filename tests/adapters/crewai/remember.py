"""What a crew remembers: ``say TEXT`` and ``ask TEXT``, on the daemon of CRDTSYNC_SOCKET."""

from __future__ import annotations

import sys
from unittest.mock import MagicMock
from zlib import crc32

from crewai.memory.unified_memory import Memory

from crdtsync.adapters.crewai import CrdtMemoryStorage


def embed(texts: list[str]) -> list[list[float]]:
    """A place for each word: what has words in common is near."""
    vectors = [[0.0] * 512 for _ in texts]
    for vector, text in zip(vectors, texts, strict=True):
        for word in text.lower().split():
            vector[crc32(word.encode()) % 512] = 1.0
    return vectors


with CrdtMemoryStorage() as storage:
    memory = Memory(storage=storage, llm=MagicMock(), embedder=embed)
    if sys.argv[1] == "say":
        memory.remember(sys.argv[2], scope="/team", categories=["fact"], importance=0.5)
    else:
        for match in memory.recall(sys.argv[2], depth="shallow", limit=3):
            print(match.record.content)
