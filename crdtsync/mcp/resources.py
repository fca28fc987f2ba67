"""Entries, named views and saved sessions as resources, which a user attaches to a conversation; and the completion of
their names.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import Completion, ResourceTemplateReference

from crdtsync import sessions as saved_sessions
from crdtsync.client import AsyncSession
from crdtsync.mcp.answers import within
from crdtsync.mcp.session import Callers, failure, told
from crdtsync.mcp.subscriptions import KEY, SESSION, STATE, VIEW
from crdtsync.sessions.saved.header import HEADERS, header_key

_BUDGET_TOKENS = 8_000
_COMPLETIONS_MAX = 100  # the protocol's bound


async def in_short(session: AsyncSession, name: str, model: str, budget_tokens: int) -> str:
    """A saved session of a coding agent, in short, with who saved it."""
    saved = saved_sessions.AsyncSessions(session)  # imported now: it takes 3 MB, and few ask
    key = header_key((await saved.get(name)).id)
    text = await saved.brief(name, budget_tokens=budget_tokens, model=model)
    entry = await session.entry(key)
    return within([] if entry is None else [replace(entry, value=text, siblings=[])], budget_tokens, model)[0]


def offer(server: MCPServer, sessions: Callers) -> None:
    """Give ``server`` the resources of the callers of ``sessions``."""
    model = sessions.options.model

    async def key_resource(key: str, ctx: Context) -> str:
        """One entry of the shared state, with its author."""
        entry = await sessions.of(ctx).entry(key)
        return within([entry], _BUDGET_TOKENS, model)[0] if entry is not None else f"There is no {key}."

    async def view_resource(name: str, ctx: Context) -> str:
        """A view that somebody has defined for the team."""
        return (await sessions.views(sessions.of(ctx)).named(name)).text

    async def session_resource(id: str, ctx: Context) -> str:  # noqa: A002  # the word of the address
        """A saved session of a coding agent, in short."""
        return await in_short(sessions.of(ctx), id, model, _BUDGET_TOKENS)

    async def state_resource() -> str:
        """What the team knows, within a budget."""
        found = await sessions.views(sessions.some()).view(budget_tokens=_BUDGET_TOKENS)
        return found.text or "Nothing is there yet."

    async def complete(ref: object, argument: Any, _: object) -> Completion | None:
        if not isinstance(ref, ResourceTemplateReference):
            return None
        if ref.uri in (KEY, SESSION):
            start = HEADERS if ref.uri == SESSION else ""
            keys = await sessions.some().keys(start + argument.value, limit=_COMPLETIONS_MAX + 1)
            found = [key.removeprefix(start) for key in keys]
        else:
            names = await sessions.views(sessions.some()).names()
            found = [name for name in names if name.startswith(argument.value)]
        return Completion(values=found[:_COMPLETIONS_MAX], has_more=len(found) > _COMPLETIONS_MAX)

    for uri, name, resource in (
        (KEY, "entry", key_resource), (VIEW, "view", view_resource), (SESSION, "session", session_resource),
        (STATE, "state", state_resource),
    ):  # fmt: skip
        server.resource(uri, name=name, mime_type="text/markdown")(told(failure)(resource))
    server.completion()(told(failure)(complete))  # type: ignore[no-untyped-call]  # the SDK gives it no types
