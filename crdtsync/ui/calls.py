"""What the page may ask for: one function a name, each of which asks the daemon by the public client.

A function gets the session of the space that the page shows, and the arguments as the page sends them. Those that
write are marked, and refused when the page was started to read only; what the daemon allows is up to the rights of the
agent under whose name the page acts.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from crdtsync import AsyncClient
from crdtsync.client import AsyncSession, Entry, Restored
from crdtsync.context import AsyncSearch, AsyncViews
from crdtsync.errors import InvalidRequest
from crdtsync.sessions import AsyncSessions
from crdtsync.ui.plain import plain

PAGE_KEYS = 200
"""Keys and folders that one answer names; the next one goes on."""

PARTS_MAX = 200
"""Of a log, a set, a map, a difference or an outcome: the newest, or the first."""

VALUE_CHARS_MAX = 200_000
"""Of a value as JSON; a longer one is shown by its beginning."""


class Call(NamedTuple):
    """A function of this module; ``writes`` says that it changes something."""

    function: Callable[..., Awaitable[Any]]
    writes: bool


CALLS: dict[str, Call] = {}


def call(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Offer a function that reads."""
    CALLS[function.__name__] = Call(function, writes=False)
    return function


def writing(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Offer a function that writes."""
    CALLS[function.__name__] = Call(function, writes=True)
    return function


class Space:
    """One space for all pages: each request says by ``if_version`` what its reader saw, so they share a session."""

    def __init__(self, client: AsyncClient, name: str | None) -> None:
        self.client = client
        self.state: AsyncSession = client.session(space=name)
        self.name = name

    def at(self, point: str | int | None) -> AsyncSession:
        """Now, or as of a token, a checkpoint's cut or a time in milliseconds."""
        if point is None:
            return self.state
        return self.client.session(space=self.name, at=moment(point) if isinstance(point, int) else point)


def moment(milliseconds: int) -> datetime:
    """A time as a browser has it."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        raise InvalidRequest(f"{milliseconds} is no time") from None


# -- the fleet ---------------------------------------------------------------------------------------------------------


@call
async def fleet(space: Space) -> Any:
    """This node's status, and what it knows of the others."""
    return await space.client.status(far=True)


@call
async def spaces(space: Space) -> Any:
    """The spaces that there are."""
    return [one.name for one in await space.client.spaces() if one.here]


# -- the state ---------------------------------------------------------------------------------------------------------


@call
async def tree(space: Space, prefix: str = "", start: str | None = None, at: str | int | None = None) -> Any:
    """What lies directly below ``prefix``: keys with what is known of them, and folders."""
    found = await space.at(at).entries(prefix, start=start, limit=PAGE_KEYS, delimiter="/", values=False)
    keys = [_head(entry) for entry in found]
    last = max([*(entry.key for entry in found), *found.prefixes], default=None)
    more = last if len(found) + len(found.prefixes) >= PAGE_KEYS else None
    return {"keys": keys, "folders": found.prefixes, "more": more}


@call
async def entry(space: Space, key: str, at: str | int | None = None) -> Any:
    """One key: its values, or the newest parts of a log, a set or a map."""
    state = space.at(at)
    found = await state.entry(key)
    if found is None:
        return None
    shown = _entry(found)
    match found.kind:
        case "log":
            items = await state.log_items(key, last=PARTS_MAX)
            shown["parts"] = [{**plain(one), "value": _cut(one.value)} for one in items]
            shown["value"] = None
        case "set":
            shown["value"] = [_cut(one) for one in await state.members(key, limit=PARTS_MAX)]
        case "map":
            shown["value"] = {one.name: _cut(one.value) for one in await state.fields(key, limit=PARTS_MAX)}
        case "text" if found.value is None:
            shown["value"] = await state.get(key)
    return shown


@call
async def history(space: Space, key: str, last: int = 50) -> Any:
    """What was written to a key, the newest first."""
    found = await space.state.history(key, last=min(last, 500))
    rows = [{**plain(one), "value": _cut(one.value)} for one in found]
    return {"writes": rows, "is_complete": found.is_complete, "since": plain(found.since), "has_more": found.has_more}


@call
async def explain(space: Space, key: str) -> Any:
    """Where each value of a key came from, and who has it."""
    return await space.state.explain(key)


@call
async def conflicts(space: Space) -> Any:
    """Keys with several values, each with all of them."""
    return [_entry(one) for one in await space.state.conflicts(limit=100)]


@call
async def search(space: Space, query: str) -> Any:
    """Entries that speak of some words."""
    return await AsyncSearch(space.state).search(query, limit=30)


@writing
async def write(space: Space, key: str, value: Any, version: str | None) -> Any:
    """Write a register as one who has seen ``version``; None: there was nothing."""
    known: dict[str, Any] = {"if_absent": True} if version is None else {"if_version": version}
    return await space.state.set(key, value, **known)


@writing
async def delete(space: Space, key: str, version: str) -> Any:
    """Delete a key as one who has seen ``version``."""
    return await space.state.delete(key, if_version=version)


@writing
async def resolve(space: Space, key: str, version: str, **choice: Any) -> Any:
    """Settle a conflict as one who has seen ``version``: ``take`` the dot of a value, or write a new ``value``."""
    return await space.state.resolve(key, if_version=version, **choice)


# -- time --------------------------------------------------------------------------------------------------------------


@call
async def checkpoints(space: Space) -> Any:
    """The names that stand for a past state."""
    return await space.state.checkpoints()


@call
async def diff(space: Space, before: str | int, after: str | int | None = None, prefix: str = "") -> Any:
    """The keys that differ between two points, or between one and now."""
    points = [moment(one) if isinstance(one, int) else one for one in (before, after) if one is not None]
    found = await space.state.diff(*points, prefix=prefix)
    rows = [{"key": one.key, "before": _value(one.before), "after": _value(one.after)} for one in found[:PARTS_MAX]]
    return {"keys": rows, "count": len(found)}


@writing
async def checkpoint(space: Space, name: str, note: str = "") -> Any:
    """Give what there is now a name."""
    return await space.state.checkpoint(name, note=note)


@writing
async def restore(space: Space, point: str | int, prefix: str = "", dry_run: bool = True) -> Any:
    """Make a past state the present one; with ``dry_run`` only say what that would do."""
    when = moment(point) if isinstance(point, int) else point
    return _done(await space.state.restore(when, prefix=prefix, dry_run=dry_run))


@writing
async def undo(space: Space, agent: str, since: str | int, dry_run: bool = True) -> Any:
    """Take back what one agent wrote since then, and nobody has built on."""
    when = moment(since) if isinstance(since, int) else since
    return _done(await space.state.undo(agent, when, dry_run=dry_run))


@writing
async def fork(space: Space, name: str, at: str | None = None) -> Any:
    """Make a space of its own from this one, to try things out in."""
    return await space.state.fork(name, at=at)


@writing
async def merge_space(space: Space, name: str, dry_run: bool = True) -> Any:
    """Bring back what has changed in a fork."""
    return await space.state.merge_space(name, dry_run=dry_run)


# -- work --------------------------------------------------------------------------------------------------------------


@call
async def work(space: Space, tasks_in: str = "tasks/") -> Any:
    """Who is here, what is claimed, what waits for a person, and what is to be done: of the keys that begin so."""
    state = space.state
    who, claims, tasks, asks = await asyncio.gather(state.who(), state.claims(), state.tasks(tasks_in), state.asks())
    return {"who": who, "claims": claims, "tasks": [_task(one) for one in tasks[:500]], "asks": asks}


@writing
async def answer(space: Space, name: str, value: Any, note: str = "") -> Any:
    """Answer a question."""
    await space.state.answer(name, value, note=note)


@writing
async def release(space: Space, key: str, fence: int) -> Any:
    """Free a claimed key."""
    return await space.state.release(key, fence=fence)


@writing
async def retry(space: Space, key: str) -> Any:
    """Put a task that failed back into the queue."""
    return await space.state.retry_task(key)


# -- sessions and context ----------------------------------------------------------------------------------------------


@call
async def sessions(space: Space) -> Any:
    """The saved sessions of coding agents."""
    return [{**plain(one), "files": None, "bytes": one.bytes} for one in await AsyncSessions(space.state).ls()]


@call
async def transcript(space: Space, session: str) -> Any:
    """What was said and done in a session, by turns."""
    found = AsyncSessions(space.state)
    conversation, excluded = await found.conversation(session), await found.excluded(session)
    turns = [[{"type": type(item).__name__, **_item(item)} for item in turn] for turn in conversation.turns()]
    lost = [{"what": what, "why": why, "count": count} for (what, why), count in sorted(conversation.lost.items())]
    return {"turns": turns, "excluded": excluded, "lost": lost}


@writing
async def exclude(space: Space, session: str, turn: int, excluded: bool) -> Any:
    """Leave a turn out of what is handed over, or take it in again."""
    found = AsyncSessions(space.state)
    return await (found.exclude if excluded else found.include)(session, str(turn))


@call
async def view(space: Space, prefix: str = "", budget: int = 4000, query: str = "") -> Any:
    """What a view hands to an agent, with what it left out."""
    found = await AsyncViews(space.state).view([prefix], budget_tokens=budget, query=query or None)
    return plain(found)


# -- shapes ------------------------------------------------------------------------------------------------------------


def _head(entry: Entry) -> dict[str, Any]:
    return {
        "key": entry.key, "kind": entry.kind, "agent": entry.agent, "node": entry.node, "time": plain(entry.time),
        "siblings": len(entry.siblings), "ttl": entry.ttl,
    }  # fmt: skip


def _entry(entry: Entry) -> dict[str, Any]:
    shown: dict[str, Any] = plain(entry)
    shown["value"] = _cut(entry.value)
    shown["siblings"] = [_entry(one) for one in entry.siblings]
    return shown


def _value(entry: Entry | None) -> Any:
    return None if entry is None else {"kind": entry.kind, "value": _cut(entry.value), "agent": entry.agent}


def _cut(value: Any) -> Any:
    """``value`` as JSON, or its beginning where that would be long to show."""
    shown = plain(value)
    text = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)
    if len(text) <= VALUE_CHARS_MAX:
        return shown
    return {"$cut": len(text), "text": text[:VALUE_CHARS_MAX]}


def _item(item: Any) -> dict[str, Any]:
    shown = plain(item)
    shown["images"] = len(shown.get("images") or [])
    if "text" in shown:
        shown["text"] = shown["text"][:VALUE_CHARS_MAX]
    return dict(shown)


def _task(task: Any) -> dict[str, Any]:
    return {**plain(task), "input": _cut(task.input), "result": _cut(task.result)}


def _done(done: Restored) -> dict[str, Any]:
    left = [f"{key}: {why}" for key, why in done.left.items()]
    shown = {"restored": done.restored, "removed": done.removed, "left": left}
    cut = {name: keys[:PARTS_MAX] for name, keys in shown.items()}
    return {**cut, "counts": {name: len(keys) for name, keys in shown.items()}}
