"""Save a version of an artifact and a memory that say a word (``save WORD``), or print what there is (``show``)."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from crdtsync import Client
from crdtsync.adapters.google_adk import CrdtArtifactService, CrdtMemoryService

ADA: dict[str, Any] = {"app_name": "chat", "user_id": "ada"}


async def main(does: str, word: str) -> None:
    with Client() as client:
        artifacts, memory = CrdtArtifactService(client), CrdtMemoryService(client)
        if does == "save":
            text = types.Part(text=f"{word} " * 300_000)
            await artifacts.save_artifact(**ADA, session_id="17", filename="report.txt", artifact=text)
            content = types.Content(role="user", parts=[types.Part(text=f"pizza for {word}")])
            await memory.add_memory(**ADA, memories=[MemoryEntry(content=content)])
        part: Any = await artifacts.load_artifact(**ADA, session_id="17", filename="report.txt")
        found = await memory.search_memory(**ADA, query="pizza")
        words = sorted(each.content.parts[0].text.split()[-1] for each in found.memories)
        print(len(part.text), part.text.split()[-1], *words)


asyncio.run(main(sys.argv[1], sys.argv[-1]))
