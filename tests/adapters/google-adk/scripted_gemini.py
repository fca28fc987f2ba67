"""Imported before a program: every model says "so be it", and how many contents it was asked with is printed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.models import BaseLlm, LLMRegistry, LlmResponse
from google.genai import types


class Model(BaseLlm):  # type: ignore[misc]
    """One that calls nobody."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        print("asked with", len(llm_request.contents), "contents")
        yield LlmResponse(content=types.ModelContent("so be it"))


LLMRegistry.resolve = staticmethod(lambda model: Model)
