"""Tools of a team: who has what in hand, and what was learnt."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult
from pydantic import Field
from typing_extensions import TypedDict

from crdtsync.client import AsyncSession
from crdtsync.context import AsyncMemory
from crdtsync.context.memory.record import TEAM
from crdtsync.context.view.render import in_a_line
from crdtsync.coordination import AsyncLease
from crdtsync.errors import ClaimHeld, InvalidRequest
from crdtsync.mcp.answers import answer
from crdtsync.mcp.session import ALONE_S, Callers
from crdtsync.mcp.tools.table import Tool

CLAIMS_MAX = 100
"""Claims of all agents of one server."""


class Claimed(TypedDict):
    """Whether the caller has it, or who else."""

    held: bool
    by: str | None


class Remembered(TypedDict):
    """What is remembered."""

    memories: list[dict[str, Any]]


def tools(sessions: Callers) -> list[Tool]:
    """The tools of this module, for the callers of ``sessions``."""
    leases: dict[tuple[AsyncSession, str], AsyncLease] = {}

    async def claim(ctx: Context, key: str) -> Annotated[CallToolResult, Claimed]:
        """Claim a file or a topic before you work on it, so that no other agent does. You hold it until you release it
        or end, or as long as the answer says.
        """
        session = sessions.of(ctx)
        place = (session, key)
        held = leases.get(place)
        if held is not None and held.is_held:
            return answer(f"You hold {key} already.", {"held": True, "by": session.agent})
        for lost in [one for one, lease in leases.items() if not lease.is_held]:
            del leases[lost]
        if len(leases) >= CLAIMS_MAX:
            raise InvalidRequest(f"{CLAIMS_MAX} claims are held by agents of this server: release some first")
        try:
            stays = sessions.ends_with_server(ctx)
            leases[place] = await session.claim(key, ttl=60 if stays else ALONE_S, keep=stays).acquire()
        except ClaimHeld as error:
            return answer(error.message, {"held": False, "by": error.agent})
        how_long = "" if stays else f" for {ALONE_S // 60} minutes; then claim it again"
        return answer(f"You hold {key}{how_long}.", {"held": True, "by": session.agent})

    async def release(ctx: Context, key: str) -> Annotated[CallToolResult, Claimed]:
        """Give back what you have claimed."""
        lease = leases.pop((sessions.of(ctx), key), None)
        was_held = lease is not None and await lease.release()
        said = f"{key} is free." if was_held else f"You did not hold {key} any more."
        return answer(said, {"held": False, "by": None})

    async def remember(
        ctx: Context, fact: str, about: Annotated[str | None, Field(description="What it is about, as a key.")] = None
    ) -> Annotated[CallToolResult, Remembered]:
        """Remember a fact for the team, in a sentence of its own: a preference, a cause, a decision."""
        done = await AsyncMemory(sessions.of(ctx)).add(fact, run_id=TEAM, about=about)
        if not done["results"]:
            raise ToolError("there is no fact in that: say it in a sentence")
        is_new = any(one["event"] == "ADD" for one in done["results"])
        return answer("Remembered." if is_new else "That was known.", {"memories": done["results"]})

    async def recall(
        ctx: Context, query: str, limit: Annotated[int, Field(ge=1, le=50)] = 5
    ) -> Annotated[CallToolResult, Remembered]:
        """Recall what the team remembers about something."""
        found = await AsyncMemory(sessions.of(ctx)).search(query, run_id=TEAM, limit=limit)
        lines = [f"- {in_a_line(one['memory'])} ({one['agent']}, {one['created_at'][:10]})" for one in found["results"]]
        return answer("\n".join(lines) or f"nothing is remembered of {query!r}", {"memories": found["results"]})

    return [
        Tool(claim, writes=True, repeatable=True),
        Tool(release, writes=True, repeatable=True),
        Tool(remember, writes=True, repeatable=True),
        Tool(recall),
    ]
