"""Every operation on keys as a plan: which requests it takes and what their replies mean.

One :class:`Operations` belongs to one session. It is the only place that knows the arguments of requests; both
clients run its plans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.client.operations import writes
from crdtsync.client.operations.listings import PAGE_ITEMS_MAX, Listings
from crdtsync.client.protocol.backoff import random_up_to
from crdtsync.client.protocol.steps import NEXT_PAGE, Compute, Exchange, Pause, Steps
from crdtsync.client.session.request_context import Arguments, WriteConcern
from crdtsync.client.values.durations import milliseconds
from crdtsync.client.values.listing import Listing, check_count
from crdtsync.errors import InvalidRequest, KindMismatch, VersionMismatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.protocol.seen_point import Horizon
    from crdtsync.client.values.results import Entry, Field, LogItem, Member
    from crdtsync.client.values.write_result import Written

_SLEEPLESS_ATTEMPTS = 2
_PAUSE_FIRST_S, _PAUSE_MAX_S = 0.002, 0.1
_POLITE_UPDATES, _POLITE_PAUSE_S, _POLITE_KEYS_MAX = 50, 0.004, 1000
"""A session that lost a race for a key lets rivals through before each of its next updates of it: winners that never
paused could keep one of them out for ever.
"""


class Operations(Listings):
    """The plans of one session on top of what it knows."""

    def __init__(self, overrides: Arguments | None = None, horizon: Horizon | None = None) -> None:
        super().__init__(overrides, horizon)
        self._rivals: dict[str, int] = {}

    def log(
        self,
        key: str,
        start: int | LogItem,
        last: int | None,
        limit: int | None,
        after: str | None,
        timeout_s: float,
        *,
        attributes: bool,
    ) -> Steps[Listing[LogItem]]:
        """Elements of a log, oldest first; ``attributes``: with what their authors said of them."""
        from crdtsync.client.values.results import log_item_from_wire

        check_count("limit", limit)
        check_count("last", last)
        if last is not None:
            start, limit = -last, last if limit is None else min(limit, last)
        items: Listing[LogItem] = Listing()
        while limit is None or len(items) < limit:
            wanted = PAGE_ITEMS_MAX if limit is None else min(PAGE_ITEMS_MAX, limit - len(items))
            arguments: Arguments = {"key": key, "limit": wanted, **_beginning(start)}
            if attributes:
                arguments["attributes"] = True
            page = yield self.read_call("log", arguments, after, timeout_s)
            self.memory.read(key, page["version"] if page["length"] else None)
            items.token = items.token or page["token"]
            if not page["items"]:
                break
            first = page["start"]
            items += [log_item_from_wire(first + offset, item) for offset, item in enumerate(page["items"])]
            start = items[-1]
            if start.index + 1 >= page["length"]:
                break
            yield NEXT_PAGE
        return items

    def members(self, key: str, limit: int | None, after: str | None, timeout_s: float) -> Steps[Listing[Member]]:
        """Elements of a set, in the order in which they were added.

        An element that is added again while the pages are read moves to the end: it is given once, at its last place.
        """
        from crdtsync.client.values.results import member_from_wire

        check_count("limit", limit)
        found: dict[bytes, Member] = {}
        token: str | None = None
        place: Arguments = {}
        while limit is None or len(found) < limit:
            wanted = PAGE_ITEMS_MAX if limit is None else min(PAGE_ITEMS_MAX, limit - len(found))
            page = yield self.read_call("members", {"key": key, "limit": wanted, **place}, after, timeout_s)
            self.memory.read(key, page["version"] if page["length"] else None)
            token = token or page["token"]
            for item in page["items"]:
                found.pop(item[0], None)
                found[item[0]] = member_from_wire(item)
            end = page["start"] + len(page["items"])
            if not page["items"] or end >= page["length"]:
                break
            place = {"start": end, "previous": page["items"][-1][1]}
            yield NEXT_PAGE
        return Listing(found.values(), token)

    def fields(
        self, key: str, start: str | None, limit: int | None, after: str | None, timeout_s: float
    ) -> Steps[Listing[Field]]:
        """Fields of a map, by name."""
        from crdtsync.client.values.results import field_from_wire

        check_count("limit", limit)
        found: Listing[Field] = Listing()
        while limit is None or len(found) < limit:
            wanted = PAGE_ITEMS_MAX if limit is None else min(PAGE_ITEMS_MAX, limit - len(found))
            arguments: Arguments = {"key": key, "limit": wanted}
            if start is not None:
                arguments["start"] = start
            page = yield self.read_call("fields", arguments, after, timeout_s)
            self.memory.read(key, page["version"] if page["length"] else None)
            found.token = found.token or page["token"]
            found += map(field_from_wire, page["items"])
            if not page["more"] or not page["items"]:
                break
            start = found[-1].name
            yield NEXT_PAGE
        return found

    def wait(self, token: str, w: WriteConcern, timeout_s: float) -> Exchange[int]:
        """Until this node holds a token, or ``w`` nodes do."""
        arguments: Arguments = {"token": token, "timeout": milliseconds(timeout_s)}
        if w is not None:
            arguments["w"] = w
        return self.call("wait", arguments, lambda reply: int(reply["nodes"]), waits=True)

    # -- writes -----------------------------------------------------------------------------------------------

    def update(
        self,
        key: str,
        function: Callable[[Any], Any],
        timeout_s: float,
        *,
        attempts: int,
        siblings: bool,
        default: Any,
        w: WriteConcern,
        options: dict[str, Any],
    ) -> Steps[Written]:
        """Read, compute, write if nothing came between; else again."""
        if attempts < 1:
            raise InvalidRequest(f"attempts must be at least 1, not {attempts}")
        if self._rivals.get(key, 0):
            self._rivals[key] -= 1
            yield Pause(random_up_to(_POLITE_PAUSE_S))
        fresh = True
        entry: Entry | None = None
        for attempt in range(attempts):
            if fresh:
                entry = yield from self.entry(key, None, timeout_s)
            _check_register(key, entry)
            if entry is not None and entry.siblings and not siblings and entry.policy == "manual":
                yield from self.get(key, None, None, timeout_s)  # refused, unless it was settled just now
                entry = yield from self.entry(key, None, timeout_s)
            whole = siblings or (entry is not None and entry.policy == "all")
            value = yield Compute(function, _argument(entry, whole, default if not siblings else []))
            condition: dict[str, Any] = yield from self._condition(key, entry, whole, timeout_s)
            try:
                write = writes.set_value(self, key, value, **condition, **options)
                written = yield from self.send(write, w, timeout_s)
            except VersionMismatch as mismatch:
                if attempt + 1 == attempts:
                    raise
                self._met_rivals(key)
                entry = mismatch.current  # `write` made it an Entry or None
                # With few rivals what the refusal handed over is the newest; with many, step back and look again.
                fresh = attempt >= _SLEEPLESS_ATTEMPTS
                if fresh:
                    yield Pause(random_up_to(min(_PAUSE_MAX_S, _PAUSE_FIRST_S * 2**attempt)))
            else:
                written.value = value
                return written
        raise AssertionError("the last attempt returns or raises")

    def _met_rivals(self, key: str) -> None:
        if len(self._rivals) >= _POLITE_KEYS_MAX:
            self._rivals.clear()
        self._rivals[key] = _POLITE_UPDATES

    def _condition(self, key: str, entry: Entry | None, siblings: bool, timeout_s: float) -> Steps[dict[str, Any]]:
        """The arguments that make a write conditional on ``entry``, superseding the winner or, if asked, its
        siblings too.
        """
        if entry is None:
            return {"if_absent": True}
        if siblings or not entry.siblings:
            return {"if_version": entry.version}
        # Only `get` names the winner alone. Should the key change in between, the condition fails.
        reply = yield self.read_call("get", {"key": key}, None, timeout_s)
        return {"if_version": entry.version, "seen": reply["version"] if reply else entry.version}


def _beginning(start: int | LogItem) -> Arguments:
    """From an index, or from behind an element: the index may have changed since, its dot has not."""
    if isinstance(start, int):
        return {"start": start}
    return {"start": start.index + 1, "previous": start.dot}


def _check_register(key: str, entry: Entry | None) -> None:
    """Before the caller's function works in vain: only registers are written as a whole."""
    if entry is not None and entry.kind != "register":
        raise KindMismatch(
            f"{key!r} is a {entry.kind}, not a register: update writes whole values; use the operations of its kind",
            key=key,
            kind=entry.kind,
        )


def _argument(entry: Entry | None, whole: bool, default: Any) -> Any:
    if entry is None:
        return default
    return [entry.value, *(sibling.value for sibling in entry.siblings)] if whole else entry.value
