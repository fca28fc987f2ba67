"""The calls of the page: one function a name, each of which asks the daemon by the public client.

A function gets the session of the space that the page shows, and the arguments as the page sends them. Those that
write are marked, and refused when the page was started to read only; what the daemon allows is up to the rights of the
agent under whose name the page acts.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from crdtsync import AsyncClient
from crdtsync.client import AsyncSession, Entry, Restored
from crdtsync.context import AsyncSearch, AsyncViews
from crdtsync.context.view.definition import RECORDS
from crdtsync.errors import CrdtSyncError, DaemonUnavailable, InvalidRequest, NotAllowed, Timeout
from crdtsync.named_tuple import NamedTuple
from crdtsync.sessions import AsyncSessions, Conversation, Saved
from crdtsync.sessions.agents.places import AGENTS
from crdtsync.sessions.conversation.record import Thinking
from crdtsync.ui.plain import plain, written

PAGE_KEYS = 200
"""Keys and folders that one answer names; the next one goes on."""

PARTS_MAX = 200
"""Parts of a log, a set, a map, a difference or an outcome: the newest, or the first."""

DIFFERENCES = 50
"""Keys that differ, in one answer."""
DIFF_TIMEOUT_S = 120

ITEMS = 100
"""Items of a transcript in one answer."""
ITEM_CHARS = 4_000
"""Characters of each item of a transcript; the rest is asked for."""
TRANSCRIPTS_KEPT = 4
"""Transcripts of a space, for those who turn pages."""

VALUE_CHARS_MAX = 50_000
"""Characters of a value as JSON; a longer one is shown by its beginning, which a browser lays out at once."""
DIFFERENT_CHARS_MAX = 5_000
"""Characters of each side of a difference, of which a page has many."""


Doctor = Callable[[], list[dict[str, str]]]
"""Looks this host over: findings as ``crdtsync doctor --json`` has them."""


class Offered(NamedTuple):
    """A function of this module; ``writes`` says that it changes something."""

    function: Callable[..., Awaitable[Any]]
    writes: bool


CALLS: dict[str, Offered] = {}


def call(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Offer a function that reads."""
    CALLS[function.__name__] = Offered(function, writes=False)
    return function


def writing(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Offer a function that writes."""
    CALLS[function.__name__] = Offered(function, writes=True)
    return function


class ShownSpace:
    """One space for all pages: each request says by ``if_version`` what its reader saw, so they share a session."""

    def __init__(self, client: AsyncClient, name: str | None, doctor: Doctor | None = None) -> None:
        self.client = client
        self.state: AsyncSession = client.session(space=name)
        self.name = name
        self.doctor = doctor
        self.told: dict[tuple[str, str], list[Conversation]] = {}  # transcripts that were read last, by the session

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
async def fleet(space: ShownSpace, far: bool = False) -> Any:
    """This node's status, and what it knows of the others; ``far``: those reached over others are asked anew."""
    return await space.client.status(far=far)


@call
async def doctor(space: ShownSpace) -> Any:
    """The findings on this host. It looks with the rights of who started the page, so the page's agent must be one
    that may read the whole status.
    """
    if space.doctor is None:
        raise InvalidRequest("this page has no doctor: run crdtsync doctor")
    with suppress(DaemonUnavailable, Timeout):  # then it is wanted most
        if (await space.client.status(timeout=5)).get("limited"):
            raise NotAllowed("the findings are for those who may read everything on this host")
    return await asyncio.to_thread(space.doctor)


@call
async def spaces(space: ShownSpace) -> Any:
    """The spaces that there are."""
    return [one.name for one in await space.client.spaces() if one.here]


# -- the state ---------------------------------------------------------------------------------------------------------


@call
async def tree(space: ShownSpace, prefix: str = "", start: str | None = None, at: str | int | None = None) -> Any:
    """List what lies directly below ``prefix``: keys with what is known of them, folders, and those that are kept for
    programs (``records``).
    """
    found = await space.at(at).entries(prefix, start=start, limit=PAGE_KEYS, delimiter="/", values=False)
    keys = [_head(entry) for entry in found]
    folders = [one for one in found.prefixes if one not in RECORDS]
    records = [one for one in found.prefixes if one in RECORDS]
    last = max([*(entry.key for entry in found), *found.prefixes], default=None)
    more = last if len(found) + len(found.prefixes) >= PAGE_KEYS else None
    return {"keys": keys, "folders": folders, "records": records, "more": more}


@call
async def entry(space: ShownSpace, key: str, at: str | int | None = None, last: int = PARTS_MAX) -> Any:
    """One key: its values, or the newest parts of a log, the first ones of a set or a map."""
    state = space.at(at)
    found = await state.entry(key)
    if found is None:
        return None
    shown = _entry(found)
    match found.kind:
        case "log":
            items = await state.log_items(key, last=min(last, 10 * PARTS_MAX))
            shown["parts"] = [{**written(one), "value": _cut(one.value)} for one in items]
            shown["value"] = None
        case "set":
            shown["value"] = [_cut(one) for one in await state.members(key, limit=PARTS_MAX)]
        case "map":
            shown["value"] = {one.name: _cut(one.value) for one in await state.fields(key, limit=PARTS_MAX)}
        case "text":
            text = await state.get(key) if found.value is None else found.value
            shown["value"] = _cut(text)
            with suppress(CrdtSyncError):  # what knows documents is an extra
                shown["document"] = _cut(await state.doc(key).get()) if text == "" else None
    return shown


@call
async def history(space: ShownSpace, key: str, last: int = 50) -> Any:
    """The writes to a key, the newest first."""
    found = await space.state.history(key, last=min(last, 500))
    rows = [{**written(one), "value": _cut(one.value)} for one in found]
    return {"writes": rows, "is_complete": found.is_complete, "since": plain(found.since), "has_more": found.has_more}


@call
async def explain(space: ShownSpace, key: str) -> Any:
    """Where each value of a key came from, and who has it."""
    return await space.state.explain(key)


@call
async def conflicts(space: ShownSpace) -> Any:
    """Keys with several values, each with all of them."""
    return [_entry(one) for one in await space.state.conflicts(limit=100)]


@call
async def search(space: ShownSpace, query: str) -> Any:
    """Entries that speak of some words."""
    return await AsyncSearch(space.state).search(query, limit=30)


@writing
async def write(space: ShownSpace, key: str, value: Any, version: str | None) -> Any:
    """Write a register as one who has seen ``version``; None: there was nothing."""
    known: dict[str, Any] = {"if_absent": True} if version is None else {"if_version": version}
    return await space.state.set(key, value, **known)


@writing
async def delete(space: ShownSpace, key: str, version: str) -> Any:
    """Delete a key as one who has seen ``version``."""
    return await space.state.delete(key, if_version=version)


@writing
async def resolve(space: ShownSpace, key: str, version: str, **choice: Any) -> Any:
    """Settle a conflict as one who has seen ``version``: ``take`` the dot of a value, or write a new ``value``."""
    return await space.state.resolve(key, if_version=version, **choice)


# -- time --------------------------------------------------------------------------------------------------------------


@call
async def checkpoints(space: ShownSpace) -> Any:
    """The names that stand for a past state."""
    return await space.state.checkpoints()


@call
async def diff(space: ShownSpace, before: str | int, after: str | int | None = None, start: str | None = None) -> Any:
    """The keys that differ between two points, or between one and now: the first ones after ``start``."""
    points = [moment(one) if isinstance(one, int) else one for one in (before, after) if one is not None]
    found = await space.state.diff(*points, start=start, limit=DIFFERENCES, timeout=DIFF_TIMEOUT_S)
    rows = [{"key": one.key, "before": _value(one.before), "after": _value(one.after)} for one in found]
    return {"keys": rows, "more": rows[-1]["key"] if len(rows) == DIFFERENCES else None}


@writing
async def checkpoint(space: ShownSpace, name: str, note: str = "") -> Any:
    """Give what there is now a name."""
    return await space.state.checkpoint(name, note=note)


@writing
async def restore(space: ShownSpace, point: str | int, prefix: str = "", dry_run: bool = True) -> Any:
    """Make a past state the present one; with ``dry_run`` only say what that would do."""
    when = moment(point) if isinstance(point, int) else point
    return _done(await space.state.restore(when, prefix=prefix, dry_run=dry_run))


@writing
async def undo(space: ShownSpace, agent: str, since: str | int, dry_run: bool = True) -> Any:
    """Take back what one agent wrote since then, and nobody has built on."""
    when = moment(since) if isinstance(since, int) else since
    return _done(await space.state.undo(agent, when, dry_run=dry_run))


@writing
async def fork(space: ShownSpace, name: str, at: str | None = None) -> Any:
    """Make a space of its own from this one, to try things out in."""
    return await space.state.fork(name, at=at)


@writing
async def merge_space(space: ShownSpace, name: str, dry_run: bool = True) -> Any:
    """Bring back what has changed in a fork."""
    return await space.state.merge_space(name, dry_run=dry_run)


# -- work --------------------------------------------------------------------------------------------------------------


@call
async def work(space: ShownSpace, tasks_in: str = "tasks/") -> Any:
    """List who is here, what is claimed, what waits for a person, and what is to be done: of the keys that begin so."""
    state = space.state
    who, claims, tasks, asks = await asyncio.gather(state.who(), state.claims(), state.tasks(tasks_in), state.asks())
    waiting = [{**written(one), "context": _cut(one.context)} for one in asks]
    return {"who": who, "claims": claims, "tasks": [_task(one) for one in tasks[:500]], "asks": waiting}


@writing
async def answer(space: ShownSpace, name: str, value: Any, note: str = "") -> Any:
    """Answer a question."""
    await space.state.answer(name, value, note=note)


@writing
async def release(space: ShownSpace, key: str, fence: int) -> Any:
    """Free a claimed key."""
    return await space.state.release(key, fence=fence)


@writing
async def retry(space: ShownSpace, key: str) -> Any:
    """Put a task that failed back into the queue."""
    return await space.state.retry_task(key)


# -- sessions and context ----------------------------------------------------------------------------------------------


@call
async def sessions(space: ShownSpace) -> Any:
    """The saved sessions of coding agents."""
    return [_saved(one) for one in await AsyncSessions(space.state).ls()]


@call
async def transcript(space: ShownSpace, session: str, branch: int = 0, start: int | None = None) -> Any:
    """A part of what was said and done in a session: items from ``start``, by default the newest.

    ``branches`` counts the ways in which the session was gone on with; the newest is number 0.
    """
    found = AsyncSessions(space.state)
    saved = await found.get(session)
    ways = await _branches(space, found, saved)
    way = ways[min(max(branch, 0), len(ways) - 1)]
    items = [(number, item) for number, turn in enumerate(way.turns()) for item in turn]
    first = max(0, len(items) - ITEMS) if start is None else max(0, start)
    shown = [{"turn": number, **_item(item)} for number, item in items[first : first + ITEMS]]
    return {
        "session": _saved(saved), "start": first, "count": len(items), "items": shown, "branches": len(ways),
        "excluded": await found.excluded(saved.id), "lost": way.losses(), "agents": sorted(AGENTS),
    }  # fmt: skip


@call
async def item(space: ShownSpace, session: str, number: int, branch: int = 0) -> Any:
    """One item of a session, longer than a page of items has it."""
    found = AsyncSessions(space.state)
    ways = await _branches(space, found, await found.get(session))
    items = ways[min(max(branch, 0), len(ways) - 1)].items
    return _item(items[number], VALUE_CHARS_MAX) if 0 <= number < len(items) else None


async def _branches(space: ShownSpace, found: AsyncSessions, saved: Saved) -> list[Conversation]:
    """The last few that were read are kept: a reader turns pages."""
    version = (saved.id, str([(one.end, one.bytes) for one in saved.files.values()]))
    if version not in space.told:
        ways = await found.branches(saved.id)
        space.told = {version: ways, **{one: told for one, told in space.told.items() if one[0] != saved.id}}
        for one in list(space.told)[TRANSCRIPTS_KEPT:]:
            del space.told[one]
    return space.told[version]


@writing
async def exclude(space: ShownSpace, session: str, turn: int, excluded: bool) -> Any:
    """Leave a turn out of what is handed over, or take it in again."""
    found = AsyncSessions(space.state)
    return await (found.exclude if excluded else found.include)(session, str(turn))


@writing
async def hand_over(
    space: ShownSpace, session: str, to: str | None = None, at: int | None = None, dry_run: bool = True
) -> Any:
    """Make a new session on this machine: of another agent, or (a branch) of the same one, up to the turn ``at``."""
    found = AsyncSessions(space.state)
    made = await (
        found.branch(session, at=at, dry_run=dry_run) if to is None else found.handover(session, to=to, dry_run=dry_run)
    )
    return {name: getattr(made, name) for name in ("to", "id", "path", "state", "command", "turns", "lost")}


@call
async def views(space: ShownSpace) -> Any:
    """The names of the views that are defined."""
    return await AsyncViews(space.state).names()


@call
async def view(space: ShownSpace, name: str = "", prefix: str = "", budget: int = 4000, query: str = "") -> Any:
    """The text that a view hands to an agent, with what each key takes of it, and the keys that it left out."""
    found = AsyncViews(space.state)
    told = await (found.named(name) if name else found.view([prefix], budget_tokens=budget, query=query or None))
    parts = [one._asdict() for one in told.parts]
    left = {"left_out": told.left_out[:PARTS_MAX], "left_out_count": len(told.left_out)}
    return {"text": _cut(told.text), "tokens": told.tokens, "parts": parts, **left}


# -- shapes ------------------------------------------------------------------------------------------------------------


def _head(entry: Entry) -> dict[str, Any]:
    return {
        "key": entry.key, "kind": entry.kind, "agent": entry.agent, "node": entry.node, "time": plain(entry.time),
        "siblings": len(entry.siblings), "ttl": entry.ttl,
    }  # fmt: skip


def _entry(entry: Entry) -> dict[str, Any]:
    shown: dict[str, Any] = written(entry)
    shown["value"] = _cut(entry.value)
    shown["siblings"] = [_entry(one) for one in entry.siblings]
    return shown


def _value(entry: Entry | None) -> Any:
    if entry is None:
        return None
    return {"kind": entry.kind, "value": _cut(entry.value, DIFFERENT_CHARS_MAX), "agent": entry.agent}


def _cut(value: Any, chars: int = VALUE_CHARS_MAX) -> Any:
    """``value`` as JSON, or its beginning where that would be long to show."""
    text = value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)
    if len(text) <= chars:
        return written(value)
    return {"$cut": len(text), "text": text[:chars]}


def _item(item: Any, chars: int = ITEM_CHARS) -> dict[str, Any]:
    shown = {"type": type(item).__name__, **plain(item)}
    shown["images"] = len(shown.get("images") or [])
    shown.pop("own", None)  # what only its agent reads
    if "arguments" in shown:
        shown["text"] = json.dumps(shown.pop("arguments"), indent=2, ensure_ascii=False)
    text = shown.pop("summary", None) or shown.get("text") or ("(sealed)" if isinstance(item, Thinking) else "")
    return {**shown, "text": text[:chars], "chars": len(text)}


def _saved(saved: Saved) -> dict[str, Any]:
    return {
        **plain(saved),
        "files": None,
        "bytes": saved.bytes,
        "lines": sum(one.lines for one in saved.files.values()),
    }


def _task(task: Any) -> dict[str, Any]:
    return {**written(task), "input": _cut(task.input), "result": _cut(task.result)}


def _done(done: Restored) -> dict[str, Any]:
    left = [f"{key}: {why}" for key, why in done.left.items()]
    shown = {"restored": done.restored, "removed": done.removed, "changed": done.changed, "left": left}
    cut = {name: keys[:PARTS_MAX] for name, keys in shown.items()}
    return {**cut, "counts": {name: len(keys) for name, keys in shown.items()}}
