"""Prompts: what a user asks of an agent with one word, with what the shared state says of it."""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver import Context, MCPServer
from pydantic import Field

from crdtsync.errors import InvalidRequest
from crdtsync.mcp.answers import within
from crdtsync.mcp.resources import in_short
from crdtsync.mcp.session import Callers, failure, told
from crdtsync.visible import in_line

HANDOVER = "handover/"
_BUDGET_TOKENS = 6_000
_NAME_CHARS_MAX = 128
Prefix = Annotated[str, Field(description="Beginnings of keys that it is about; nothing: all.")]


def offer(server: MCPServer, sessions: Callers) -> None:
    """Give ``server`` the prompts of the callers of ``sessions``."""
    model = sessions.options.model

    async def shown(ctx: Context, prefix: str) -> str:
        found = await sessions.views(sessions.of(ctx)).view(prefix, budget_tokens=_BUDGET_TOKENS)
        return found.text or "Nothing is there yet."

    async def catch_up(ctx: Context, prefix: Prefix = "") -> str:
        """See what the team knows before you start."""
        return (
            "This is what the team's shared state holds. Tell me in a few lines what matters for our work, what has "
            f"changed lately, and what is at odds. Do nothing yet.\n\n{await shown(ctx, prefix)}"
        )

    async def hand_over(
        ctx: Context, to: Annotated[str, Field(description="Who goes on; nothing: whoever.")] = ""
    ) -> str:
        """Write down where we are, for the agent that goes on."""
        if not to.isprintable() or len(to) > _NAME_CHARS_MAX:
            message = f"{in_line(to[:_NAME_CHARS_MAX])} cannot name an agent: a name is one line that is seen"
            raise InvalidRequest(message)
        agent = sessions.of(ctx).agent
        whom = f" {to}" if to else ""
        return (
            f"Write a note for the agent{whom} that goes on with this work, with the tool write, to the key "
            f"{HANDOVER}{to or agent}. It has not seen our conversation. Say: the goal; what is done, with files and "
            "commits; what was decided and why; what was tried and did not work; what is open; the next step. Facts "
            "only, under 600 words. Then tell me the key."
        )

    async def take_over(
        ctx: Context,
        session: Annotated[str, Field(description="With this saved session in short; nothing: none.")] = "",
    ) -> str:
        """Go on with what another agent has handed over."""
        saved = await in_short(sessions.of(ctx), session, model, _BUDGET_TOKENS) if session else ""
        return (
            "Another agent has handed its work over. Read its notes below, look at the files that they name, check "
            "that they are as the notes say, and tell me the next step before you take it.\n\n"
            f"{await shown(ctx, HANDOVER)}\n\n{saved}".rstrip()
        )

    async def settle_conflicts(ctx: Context, prefix: Prefix = "") -> str:
        """Settle what agents have written at the same time."""
        entries = await sessions.of(ctx).conflicts(prefix, limit=50)
        if not entries:
            return "Say that nothing is at odds in the shared state."
        return (
            "These entries of the shared state were written by several agents at the same time. For each, choose or "
            "combine the values, tell me why in one line, and settle it with the tool resolve once I agree.\n\n"
            f"{within(entries, _BUDGET_TOKENS, model)[0]}"
        )

    for prompt in (catch_up, hand_over, take_over, settle_conflicts):
        server.prompt(description=" ".join((prompt.__doc__ or "").split()))(told(failure)(prompt))
