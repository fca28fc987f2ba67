"""Imported before a program: every model says "so be it", and how many messages it was asked with is printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core import Settings
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.llms import MockLLM


class Model(MockLLM):  # type: ignore[misc]
    """One that calls nobody."""

    def chat(self, messages: Sequence[ChatMessage], **options: Any) -> ChatResponse:
        print("asked with", len(messages), "messages")
        return ChatResponse(message=ChatMessage(role="assistant", content="so be it"))


Settings.llm = Model()
