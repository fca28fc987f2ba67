"""Tools that read: keys, lists, views, history, conflicts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult
from pydantic import Field
from typing_extensions import TypedDict

from crdtsync.context import AsyncSearch
from crdtsync.context.view.render import in_a_line
from crdtsync.mcp.answers import Hits, KeyList, Shortened, answer, moment, short, within
from crdtsync.mcp.session import Callers
from crdtsync.mcp.tools.table import Tool

CONFLICTS_MAX = 50
"""Keys in an answer of `conflicts`."""
BUDGET_TOKENS_MAX = 100_000
"""Tokens of an answer of `read`, `view` and `conflicts`, whose `budget_tokens` is 2,000 or 4,000 by default."""
Budget = Annotated[int, Field(ge=50, le=BUDGET_TOKENS_MAX)]
Prefixes = Annotated[tuple[str, ...], Field(description='Beginnings of keys, such as ["plan/"]; none: all.')]
At = Annotated[str, Field(description="A checkpoint's name, a token, or a time such as 2026-11-20T10:00Z.")]


class ViewShown(TypedDict):
    """A view as data; ``left_out``: how many keys were."""

    text: str
    tokens: int
    shown: list[str]
    left_out: int
    token: str | None


class PastShown(TypedDict):
    """What a key held, the newest first."""

    values: list[dict[str, Any]]


def point_of(text: str) -> str | datetime:
    """A point of the past as a model writes it."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text if text.startswith(("checkpoint:", "c1.")) else f"checkpoint:{text}"


def tools(sessions: Callers) -> list[Tool]:
    """The tools of this module, for the callers of ``sessions``."""
    model = sessions.options.model

    async def view(
        ctx: Context,
        prefixes: Prefixes = (),
        query: Annotated[str | None, Field(description="What you look for.")] = None,
        budget_tokens: Budget = 2_000,
        since: Annotated[str | None, Field(description="Token of an earlier view: only what is new.")] = None,
    ) -> Annotated[CallToolResult, ViewShown]:
        """Show what the team knows, within a budget. Call it first: newest and most relevant entries, and a count of
        what was left out.
        """
        found = await sessions.views(sessions.of(ctx)).view(
            prefixes or ("",), query=query, budget_tokens=budget_tokens, since=since
        )
        data: ViewShown = {
            "text": found.text, "tokens": found.tokens, "shown": list(found.shown), "left_out": len(found.left_out),
            "token": found.token,
        }  # fmt: skip
        return answer(found.text or ("Nothing is new." if since else "Nothing is there yet."), data)

    async def read(
        ctx: Context,
        keys: Annotated[list[str], Field(min_length=1, max_length=50)],
        budget_tokens: Budget = 4_000,
        at: Annotated[str | None, Field(description="As it was then: a checkpoint, token or time.")] = None,
    ) -> Annotated[CallToolResult, Shortened]:
        """Read entries by key. What you have read, your next write replaces; what you have not, it will tell you."""
        session = sessions.of(ctx) if at is None else sessions.of(ctx).session(at=point_of(at))
        entries = [entry for key in keys if (entry := await session.entry(key)) is not None]
        missing = [key for key in keys if key not in {entry.key for entry in entries}]
        text, data = within(entries, budget_tokens, model)
        if missing:
            text += f"\nThere is no {', '.join(missing)}."
        return answer(text.strip(), data)

    async def list_keys(
        ctx: Context,
        prefix: str = "",
        limit: Annotated[int, Field(ge=1, le=1_000)] = 100,
        after_key: Annotated[str | None, Field(description="Go on behind this key.")] = None,
    ) -> Annotated[CallToolResult, KeyList]:
        """List keys that begin with a prefix."""
        found = await sessions.of(ctx).keys(prefix, start=after_key, limit=limit + 1)
        keys, more = list(found[:limit]), len(found) > limit
        return answer("\n".join([*keys, *(["… and more"] if more else [])]) or "no keys", {"keys": keys, "more": more})

    async def search(
        ctx: Context,
        query: str,
        prefix: str = "",
        limit: Annotated[int, Field(ge=1, le=50)] = 10,
    ) -> Annotated[CallToolResult, Hits]:
        """Find entries by their words, in any key; the best first. Then read what you need whole."""
        found = await AsyncSearch(sessions.of(ctx)).search(query, prefix=prefix, limit=limit)
        hits = [{"key": one.key, "agent": one.agent, "snippet": one.snippet} for one in found]
        lines = [in_a_line(f"{one['key']} ({one['agent']}): {one['snippet']}") for one in hits]
        return answer("\n".join(lines) or f"nothing speaks of {query!r}", {"hits": hits})

    async def history(
        ctx: Context, key: str, last: Annotated[int, Field(ge=1, le=100)] = 10
    ) -> Annotated[CallToolResult, PastShown]:
        """Show what a key held before, who wrote it, and what became of it."""
        session = sessions.of(ctx)
        past = await session.history(key, last=last)
        values = [
            {"value": short(value.value), "agent": value.agent, "time": moment(value.time)} for value in past
        ]  # fmt: skip
        lines = [f"{one['time']} {one['agent']}: {in_a_line(str(one['value']))}" for one in values]
        return answer("\n".join(lines) or f"{key} has no history", {"values": values})

    async def conflicts(
        ctx: Context, prefix: str = "", budget_tokens: Budget = 2_000
    ) -> Annotated[CallToolResult, Shortened]:
        """Show entries whose authors wrote at the same time, with all their values; settle them with resolve."""
        entries = await sessions.of(ctx).conflicts(prefix, limit=CONFLICTS_MAX + 1)
        text, data = within(entries[:CONFLICTS_MAX], budget_tokens, model)
        return answer((text or "no conflicts") + ("\n… and more" if entries[CONFLICTS_MAX:] else ""), data)

    return [Tool(one) for one in (view, search, read, list_keys, history, conflicts)]
