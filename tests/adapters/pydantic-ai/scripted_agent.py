"""Imported before a program: every model says "so be it", and how many messages it was asked with is printed."""

from __future__ import annotations

from pydantic_ai import models
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """What the model says."""
    print("asked with", len(messages), "messages")
    return ModelResponse(parts=[TextPart("so be it")])


models.infer_model = lambda *args, **options: FunctionModel(answer)
