"""Entries and named views as resources, which a user attaches to a conversation; and the completion of their names."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import Completion, ResourceTemplateReference

from crdtsync.context import AsyncViews
from crdtsync.mcp.answers import within
from crdtsync.mcp.session import Sessions, told
from crdtsync.mcp.subscriptions import KEY, STATE, VIEW

_BUDGET_TOKENS = 8_000
_COMPLETIONS_MAX = 100  # the protocol's bound


def offer(server: MCPServer, sessions: Sessions) -> None:
    """Give ``server`` the resources of the callers of ``sessions``."""
    model = sessions.options.model

    async def key_resource(key: str, ctx: Context) -> str:
        """One entry of the shared state, with its author."""
        async with told():
            entry = await sessions.of(ctx).entry(key)
        return within([entry], _BUDGET_TOKENS, model)[0] if entry is not None else f"There is no {key}."

    async def view_resource(name: str, ctx: Context) -> str:
        """A view that somebody has defined for the team."""
        async with told():
            return (await AsyncViews(sessions.of(ctx), model=model).named(name)).text

    async def state_resource() -> str:
        """What the team knows, within a budget."""
        async with told():
            found = await AsyncViews(sessions.some(), model=model).view(budget_tokens=_BUDGET_TOKENS)
        return found.text or "Nothing is there yet."

    async def complete(ref: object, argument: Any, _: object) -> Completion | None:
        if not isinstance(ref, ResourceTemplateReference):
            return None
        async with told():
            if ref.uri == KEY:
                found = list(await sessions.some().keys(argument.value, limit=_COMPLETIONS_MAX + 1))
            else:
                names = await AsyncViews(sessions.some(), model=model).names()
                found = [name for name in names if name.startswith(argument.value)]
        return Completion(values=found[:_COMPLETIONS_MAX], has_more=len(found) > _COMPLETIONS_MAX)

    server.resource(KEY, name="entry", mime_type="text/markdown")(key_resource)
    server.resource(VIEW, name="view", mime_type="text/markdown")(view_resource)
    server.resource(STATE, name="state", mime_type="text/markdown")(state_resource)
    server.completion()(complete)  # type: ignore[no-untyped-call]  # the SDK gives it no types
