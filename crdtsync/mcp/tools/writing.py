"""Tools that write: values, logs, texts, deletions, resolutions, checkpoints."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult
from pydantic import Field
from typing_extensions import TypedDict

from crdtsync.client import AsyncSession
from crdtsync.mcp.answers import Done, WrittenShown, answer, written
from crdtsync.mcp.session import Callers
from crdtsync.mcp.tools.reading import At, Prefixes, point_of
from crdtsync.mcp.tools.table import Tool

Key = Annotated[str, Field(description="A path, such as plan/goal.")]
_KEYS_SHOWN = 20
Value = Annotated[Any, Field(description="Any JSON value.")]


class RestoredShown(TypedDict):
    """How many keys a restore has touched, or would."""

    restored: int
    removed: int
    changed: int
    left: int
    token: str | None


def tools(sessions: Callers) -> list[Tool]:
    """The tools of this module, for the callers of ``sessions``."""

    async def write(
        ctx: Context,
        key: Key,
        value: Value,
        only_if_absent: bool = False,
        note: Annotated[str | None, Field(description="Why; kept with the value.")] = None,
    ) -> Annotated[CallToolResult, WrittenShown]:
        """Write an entry: a plan, a finding, a decision. It is durable here at once and on other hosts soon. What
        another agent writes at the same moment is kept beside it.
        """
        meta = {"note": note} if note else None
        done = await sessions.of(ctx).set(key, value, if_absent=only_if_absent, meta=meta)
        return written(key, done)

    async def append(ctx: Context, key: Key, value: Value) -> Annotated[CallToolResult, Done]:
        """Add an element to a log: findings, messages, progress. Nothing that others append is lost."""
        session = sessions.of(ctx)
        length = await session.append(key, value)
        return answer(f"{key} has {length} elements", {"done": f"{length} elements", "token": session.token})

    async def edit_text(
        ctx: Context,
        key: Key,
        new: str,
        old: Annotated[
            str | None, Field(description="What to replace, exactly once in the text; none: add at the end.")
        ] = None,
    ) -> Annotated[CallToolResult, Done]:
        """Edit a shared text that others edit too. Edits at the same time are merged word by word."""
        session = sessions.of(ctx)
        await _edited(session, key, old, new)
        return answer(f"edited {key}", {"done": f"edited {key}", "token": session.token})

    async def delete(ctx: Context, key: Key) -> Annotated[CallToolResult, Done]:
        """Delete an entry; its history stays."""
        session = sessions.of(ctx)
        existed = await session.delete(key)
        said = f"deleted {key}" if existed else f"there is no {key}"
        return answer(said, {"done": said, "token": session.token})

    async def resolve(
        ctx: Context, key: Key, value: Value, note: str | None = None
    ) -> Annotated[CallToolResult, WrittenShown]:
        """Settle a conflict that you have read (conflicts or read show all its values): one value in place of all."""
        session = sessions.of(ctx)
        entry = await session.entry(key)
        if entry is None:
            raise ToolError(f"there is no {key}")
        done = await session.set(key, value, if_version=entry.version, meta={"note": note} if note else None)
        return written(key, done)

    async def checkpoint(
        ctx: Context, name: str, prefixes: Prefixes = (), note: str = ""
    ) -> Annotated[CallToolResult, Done]:
        """Name what is there now, before you change much: restore goes back to it."""
        done = await sessions.of(ctx).checkpoint(name, prefix=prefixes or None, note=note)
        return answer(f"made {name}", {"done": f"made {name}", "token": str(done)})

    async def restore(
        ctx: Context,
        point: At,
        prefixes: Prefixes = (),
        only_by: Annotated[str | None, Field(description="Undo only what this agent has done since.")] = None,
        dry_run: Annotated[bool, Field(description="Only tell what would change.")] = False,
    ) -> Annotated[CallToolResult, RestoredShown]:
        """Bring back what was there at a point of the past. What others write meanwhile stays beside it."""
        session, when, prefix = sessions.of(ctx), point_of(point), prefixes or None
        if only_by is None:
            done = await session.restore(when, prefix=prefix, dry_run=dry_run)
        else:
            done = await session.undo(only_by, when, prefix=prefix, dry_run=dry_run)
        would = "would " if dry_run else ""
        said = [
            f"{would}{what} {len(keys)} keys: {', '.join(list(keys)[:_KEYS_SHOWN])}"
            for what, keys in (("restore", done.restored), ("remove", done.removed), ("change", done.changed),
                               ("leave alone", done.left)) if keys
        ]  # fmt: skip
        data = {"restored": len(done.restored), "removed": len(done.removed),
                "changed": len(done.changed), "left": len(done.left)}  # fmt: skip
        return answer("\n".join(said) or "nothing differs", {**data, "token": done.token})

    return [
        Tool(write, writes=True, repeatable=True),
        Tool(append, writes=True),
        Tool(edit_text, writes=True),
        Tool(delete, writes=True, destroys=True, repeatable=True),
        Tool(resolve, writes=True, repeatable=True),
        Tool(checkpoint, writes=True),
        Tool(restore, writes=True, destroys=True, repeatable=True),
    ]


async def _edited(session: AsyncSession, key: str, old: str | None, new: str) -> None:
    """Put ``new`` in the place of ``old``, or at the end. Edits that others make meanwhile stay: positions mean the
    text as it was read.
    """
    text = session.text(key)
    held = await text.read()
    if old is None:
        await text.insert(len(held), new)
        return
    if held.count(old) != 1:
        raise ToolError(f"{old[:80]!r} is {held.count(old)} times in {key}: give a stretch that is there once")
    at = held.index(old)
    await text.set(held[:at] + new + held[at + len(old) :])
