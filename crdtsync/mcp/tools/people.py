"""Tools about others: what a person decides, and who is here."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult
from pydantic import Field
from typing_extensions import TypedDict

from crdtsync.client import AsyncSession
from crdtsync.context.view.render import in_a_line
from crdtsync.coordination import AsyncPresence, Present
from crdtsync.errors import Timeout
from crdtsync.mcp.answers import answer, short
from crdtsync.mcp.session import Callers
from crdtsync.mcp.tools.following import Wait, awaited
from crdtsync.mcp.tools.table import Tool

_GRACE_S = 5.0  # to hear that nobody has answered


class Answered(TypedDict):
    """What a person has answered, if one has."""

    answered: bool
    answer: Any


class Here(TypedDict):
    """Who is here."""

    agents: list[dict[str, Any]]


def tools(sessions: Callers) -> list[Tool]:
    """The tools of this module, for the callers of ``sessions``."""
    cards: dict[AsyncSession, AsyncPresence] = {}

    async def ask_person(
        ctx: Context,
        name: Annotated[str, Field(description="A short name; call again with it to go on waiting.")],
        question: Annotated[str, Field(description="In the same words each time; another one needs another name.")],
        options: Annotated[tuple[str, ...], Field(description="What may be answered; none: anything.")] = (),
        timeout_s: Wait = 50,
    ) -> Annotated[CallToolResult, Answered]:
        """Ask a person, who sees it on any host; what only people may decide."""
        session = sessions.of(ctx)
        asking = asyncio.ensure_future(session.ask(name, question, options=options, timeout=timeout_s))
        try:
            await awaited(ctx, {asking}, timeout_s + _GRACE_S, f"waiting for an answer to {name}")
            value = await asking
        except Timeout:
            return answer("Nobody has answered yet: call again.", {"answered": False, "answer": None})
        finally:
            asking.cancel()
        return answer(f"The answer: {in_a_line(str(short(value)))}", {"answered": True, "answer": short(value)})

    async def who_is_here(
        ctx: Context,
        doing: Annotated[str | None, Field(description="Show yourself to all hosts: what you are at.")] = None,
    ) -> Annotated[CallToolResult, Here]:
        """See which agents are here, and of other hosts which say what they are doing, and what they have claimed."""
        session = sessions.of(ctx)
        if doing is not None and sessions.ends_with_server(ctx):
            if session not in cards:
                cards[session] = await session.present(status=doing)
            await cards[session].update(status=doing)
        found = await session.who()
        agents = [
            {"agent": one.agent, "node": one.node, "doing": one.status, "claims": list(one.claims)} for one in found
        ]
        lines = [in_a_line(_line(one)) for one in found]
        return answer("\n".join(lines) or "nobody is here", {"agents": agents})

    return [Tool(ask_person, writes=True, repeatable=True), Tool(who_is_here)]


def _line(one: Present) -> str:
    claims = f", has claimed {', '.join(one.claims)}" if one.claims else ""
    return f"{one.agent} on {one.node}{f': {one.status}' if one.status else ''}{claims}"
