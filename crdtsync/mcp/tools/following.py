"""The tool that waits for other agents."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult
from pydantic import Field
from typing_extensions import TypedDict

from crdtsync.client import AsyncSession, Event
from crdtsync.mcp.answers import answer, moment, short
from crdtsync.mcp.session import Callers
from crdtsync.mcp.tools.table import Tool

WAIT_S_MAX = 600
"""That one call may wait."""
Wait = Annotated[float, Field(ge=0, le=WAIT_S_MAX)]
PROGRESS_S = 5.0
"""Between two reports of progress: clients take a call for lost that says nothing for long."""
EVENTS_MAX = 50
"""Changes that one answer of `wait_for_change` tells."""
_TOGETHER_S = 0.05  # what comes so soon after the first change is told with it


class ChangesShown(TypedDict):
    """What changed, and the point up to which that was told."""

    changes: list[dict[str, object]]
    token: str | None


def tools(sessions: Callers) -> list[Tool]:
    """The tool of this module, for the callers of ``sessions``."""

    async def wait_for_change(
        ctx: Context,
        prefix: str = "",
        after: Annotated[str | None, Field(description="The token of an earlier answer; none: from now on.")] = None,
        timeout_s: Wait = 50,
    ) -> Annotated[CallToolResult, ChangesShown]:
        """Wait until another agent changes a key that begins with a prefix, and tell what it did."""
        session = sessions.of(ctx)
        token = after or (await session.keys(prefix, limit=1)).token
        changes, token = await _waited(ctx, session, prefix, token, timeout_s)
        lines = [f"{one['event']} {one['key']} by {one['agent']}" for one in changes]
        return answer("\n".join(lines) or "nothing changed", {"changes": changes, "token": token})

    return [Tool(wait_for_change)]


async def awaited(ctx: Context, what: set[asyncio.Future[Any]], timeout_s: float, why: str) -> bool:
    """Wait until one of ``what`` is done; whether one is. The client is told meanwhile that the call goes on."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    while True:
        left = start + timeout_s - loop.time()
        done, _ = await asyncio.wait(what, timeout=max(0.0, min(left, PROGRESS_S)), return_when=asyncio.FIRST_COMPLETED)
        if done or left <= 0:
            return bool(done)
        await ctx.report_progress(loop.time() - start, timeout_s, why)


async def _waited(
    ctx: Context, session: AsyncSession, prefix: str, token: str | None, timeout_s: float
) -> tuple[list[dict[str, object]], str | None]:
    """The changes behind ``token``, as soon as there are some, and the token behind them."""
    changes: list[dict[str, object]] = []
    async with session.watch(prefix, after=token) as events:
        following = asyncio.ensure_future(anext(events))
        try:
            wait_s, why = timeout_s, f"waiting for {prefix or 'any key'}"
            while len(changes) < EVENTS_MAX and await awaited(ctx, {following}, wait_s, why):
                event = following.result()
                changes += [_told(one) for one in event.events or [event] if one.key is not None]
                token = event.token or token
                following = asyncio.ensure_future(anext(events))
                wait_s = _TOGETHER_S if changes else wait_s
        finally:
            following.cancel()
            await asyncio.wait({following})
    return changes, token


def _told(event: Event) -> dict[str, object]:
    value = None if event.kind == "text" and event.op == "text" else short(event.value)
    return {"event": event.event, "key": event.key, "value": value, "agent": event.agent, "time": moment(event.time)}
