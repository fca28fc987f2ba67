"""Imported before a program: every model says "so be it", and how many messages it was asked with is printed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from autogen_core.models import LLMMessage
from autogen_ext.models.replay import ReplayChatCompletionClient


class Model(ReplayChatCompletionClient):  # type: ignore[misc]
    """One that calls nobody."""

    def __init__(self, model: str) -> None:
        super().__init__(["so be it"])

    async def create(self, messages: Sequence[LLMMessage], **options: Any) -> Any:
        print("asked with", len(messages), "messages")
        return await super().create(messages, **options)


openai: Any = ModuleType("autogen_ext.models.openai")  # which needs OpenAI's package
openai.OpenAIChatCompletionClient = Model
sys.modules[openai.__name__] = openai
