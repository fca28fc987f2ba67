"""Going back: what differs between two points of a space, restoring one of them, undoing what one agent did.

A restore is one request for up to 1,000 keys, and each is one change; the daemon works out what has to be written. All
of them supersede what was there when the first began.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from crdtsync.client.operations.listings import Selection
from crdtsync.client.protocol.steps import NEXT_PAGE, Compute
from crdtsync.client.session.request_context import Write
from crdtsync.client.values.encoding import elements_of
from crdtsync.client.values.listing import Listing
from crdtsync.client.values.points import CHECKPOINT, TOKEN, Point, point_argument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crdtsync.client.operations.keys import Operations
    from crdtsync.client.protocol.steps import Steps
    from crdtsync.client.session.request_context import Arguments, WriteConcern
    from crdtsync.client.values.results import Entry

PAGE_KEYS = 1000
"""Keys of each side that a comparison holds at once."""
ONE_BY_ONE_MAX = 20
"""So many values are read one by one; of more, all of the page."""


@dataclass(slots=True)
class Restored:
    """The result of a restore, or of a dry run: keys to which it wrote (``restored``), that it ``removed``, or of which
    it took a part (``changed``); keys that it ``left`` alone, each with why. ``token``: of the last change.
    """

    restored: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    token: str | None = None
    changed: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Difference:
    """One key that differs: its entry at the one point and at the other, None where it was absent. Of a document the
    value is its map.
    """

    key: str
    before: Entry | None
    after: Entry | None


def restore(
    operations: Operations,
    at: str | int,
    prefixes: Iterable[str],
    *,
    undo: str | None,
    dry_run: bool,
    w: WriteConcern,
    timeout_s: float,
    progress: Callable[[int], object] | None,
) -> Steps[tuple[Restored, list[str], str | None]]:
    """Restore the keys that begin with one of these prefixes; ``undo``: only what this agent has done since.

    With what was done come the keys of blobs that are still to be put anew, and a token of what there was at the start.
    """
    done, blobs = Restored(), list[str]()
    seen: str | None = None
    for prefix in prefixes:
        start: str | None = None
        while True:
            arguments: Arguments = {"at": at, "prefix": prefix}
            arguments |= {} if start is None else {"start": start}
            arguments |= {} if seen is None else {"seen": seen}
            arguments |= {} if undo is None else {"undo": undo}
            arguments |= {"dry_run": True} if dry_run else {}
            write = Write(operations, "restore", arguments, lambda reply, token, _: (reply, token), waits=True)
            reply, token = yield operations.send(write, w, timeout_s)
            for key, what in reply["items"]:
                {"restored": done.restored, "changed": done.changed}.get(what, done.removed).append(key)
            blobs += reply.get("blobs", ())
            done.left.update((key, why) for key, why in reply["left"] if key not in blobs)
            done.token, seen, start = token, reply["seen"], reply["next"]
            yield NEXT_PAGE if progress is None else Compute(progress, len(reply["items"]))
            if start is None:
                break
    return done, blobs, seen


def left_of(entry: Entry) -> float | None:
    """How many seconds an entry of the past has to live from now on; None: there is no end."""
    if entry.ttl is None or entry.time is None:
        return None
    return entry.ttl - (datetime.now(UTC) - entry.time).total_seconds()


def prefixes_of(operations: Operations, at: str | int, timeout_s: float) -> Steps[list[str]]:
    """The prefixes of a point, if it is a checkpoint that has some; else all keys."""
    if isinstance(at, str) and at.startswith(CHECKPOINT):
        reply = yield operations.read_call("checkpoints", {"name": at.removeprefix(CHECKPOINT)}, None, timeout_s)
        return reply["items"][0]["prefixes"] or [""]
    return [""]


def named_point(point: Point) -> str | int:
    """A point, which may be named by the bare name of a checkpoint."""
    if isinstance(point, str) and not point.startswith((CHECKPOINT, TOKEN)):
        return CHECKPOINT + point
    return point_argument(point)


def diff(
    before: Operations, after: Operations, wanted: Selection, map_in: Callable[[bytes], Any], timeout_s: float
) -> Steps[Listing[Difference]]:
    """The keys that differ, in order: a page of both sides at a time, and values only of keys whose versions differ.
    ``map_in`` reads the map of a document.
    """
    found: Listing[Difference] = Listing()
    start: str | None = wanted.start
    while wanted.limit is None or len(found) < wanted.limit:
        page = Selection(wanted.prefix, start, PAGE_KEYS)
        old = yield from before.entries(page, None, timeout_s, values=False)
        new = yield from after.entries(page, None, timeout_s, values=False)
        end = min((one[-1].key for one in (old, new) if len(one) == PAGE_KEYS), default=None)  # both are whole up to it
        versions = [{one.key: one.version for one in side if end is None or one.key <= end} for side in (old, new)]
        changed = [key for key in sorted({**versions[0], **versions[1]})
                   if versions[0].get(key) != versions[1].get(key)]  # fmt: skip
        sides: list[dict[str, Entry]] = [{}, {}]
        if len(changed) > ONE_BY_ONE_MAX:
            for operations, side, listed in ((before, sides[0], old), (after, sides[1], new)):
                entries = yield from operations.entries(page._replace(limit=len(listed)), None, timeout_s, values=True)
                side.update({one.key: one for one in entries})
        for key in changed:
            ours = yield from _whole(before, key, sides[0], versions[0], timeout_s)
            theirs = yield from _whole(after, key, sides[1], versions[1], timeout_s)
            ours = yield from _with_map(before, ours, map_in, timeout_s)
            theirs = yield from _with_map(after, theirs, map_in, timeout_s)
            if _said(ours) != _said(theirs):
                found.append(Difference(key, ours, theirs))
            if len(found) == wanted.limit:
                break
        if end is None:
            break
        start = end
        yield NEXT_PAGE
    return found


def _whole(
    operations: Operations, key: str, listed: dict[str, Entry], there: dict[str, str | None], timeout_s: float
) -> Steps[Entry | None]:
    """The entry with its value, which a listing leaves out of what is large."""
    entry = listed.get(key)
    if key not in there or (entry is not None and (entry.value is not None or entry.kind == "register")):
        return entry
    found: Entry | None = yield from operations.entry(key, None, timeout_s)
    return found


def _with_map(
    operations: Operations, entry: Entry | None, map_in: Callable[[bytes], Any], timeout_s: float
) -> Steps[Entry | None]:
    """A text with the map of its document in the place of a value that says nothing."""
    if entry is None or entry.kind != "text" or entry.value or entry.siblings:
        return entry
    reply: Any = yield operations.read_call("text_read", {"key": entry.key}, None, timeout_s)
    return replace(entry, value=(reply and map_in(reply["update"])) or "")


def _said(entry: Entry | None) -> Any:  # Any: values
    if entry is None:
        return None
    return entry.kind, [(one.field, _compared(one)) for one in (entry, *entry.siblings)]


def _compared(entry: Entry) -> Any:
    """The value without what says nothing: the order of a set, and the name under which a blob was put."""
    if entry.kind == "set" and entry.value is not None:
        return elements_of(entry.value).keys()
    return {**entry.value, "upload": ""} if entry.kind == "blob" else entry.value
