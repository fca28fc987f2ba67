"""History: each write with its author, what it had seen, and what became of it: the request and its result. Also why a
node has of a key what it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crdtsync.client.operations.listings import PAGE_ITEMS_MAX
from crdtsync.client.protocol.steps import NEXT_PAGE
from crdtsync.client.values.encoding import plain
from crdtsync.client.values.listing import Listing
from crdtsync.client.values.results import Fields, moment
from crdtsync.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from crdtsync.client.operations.keys import Operations
    from crdtsync.client.protocol.steps import Steps
    from crdtsync.client.session.request_context import Arguments

_TIMES = frozenset({"time", "received", "expires", "since", "last_seen"})
_PACKED = frozenset({"value", "meta"})


@dataclass(frozen=True, slots=True)
class Removal:
    """The operation that took a value away: ``dot`` names it, and the value that it wrote, if it wrote one."""

    op: str
    dot: str
    agent: str
    node: str
    time: datetime | None


@dataclass(frozen=True, slots=True)
class PastValue:
    """One value that was written to a key, alive or not.

    ``fate`` is what became of it: ``live``, ``replaced``, ``lost`` (written over by somebody who had not read it, or
    not chosen among siblings), ``deleted``, ``expired`` or ``trimmed``; None: this node does not know. ``removed_by``
    is what this node removed it for.

    ``seen`` are the dots of the values that it replaced; None: not known here. If its author had not read a value that
    it replaced, that is in ``blind`` instead. If they were many, ``seen_all`` is a token that covers them. ``token``
    names the write with all that its node had applied before it: :meth:`~crdtsync.client.Session.wait` takes it
    anywhere.

    For a map it is the value of one ``field``, for a set or log one element, for a counter the count of that author's
    node so far. Edits of a text by one author, one after the other, are one: ``edits`` of them from ``began`` to
    ``time``, without value. ``is_cut``: the value was left out, since the answer was full.
    """

    key: str
    kind: str
    op: str
    value: Any
    dot: str
    agent: str
    node: str
    time: datetime | None
    confidence: float | None
    meta: dict[str, Any] | None
    ttl: float | None
    token: str
    seen: list[str] | None
    blind: list[str]
    seen_all: str | None
    fate: str | None
    removed_by: Removal | None
    field: str | None
    edits: int
    began: datetime | None
    is_cut: bool


class History(Listing[PastValue]):
    """Values, the newest write first. ``is_complete``: nothing older was ever dropped on this node; else it tells all
    since the time ``since``. ``has_more``: there are older ones than were asked for.
    """

    __slots__ = ("has_more", "is_complete", "since")

    def __init__(
        self,
        items: Iterable[PastValue] = (),
        token: str | None = None,
        *,
        is_complete: bool = True,
        since: datetime | None = None,
        has_more: bool = False,
    ) -> None:
        super().__init__(items, token)
        self.is_complete = is_complete
        self.since = since
        self.has_more = has_more


def history(
    operations: Operations,
    key: str | None,
    prefix: str | None,
    last: int | None,
    *,
    lost: bool,
    after: str | None,
    timeout_s: float,
) -> Steps[History]:
    """The history of one key, page by page, or of all keys with a prefix, in one answer."""
    if (key is None) == (prefix is None):
        raise InvalidRequest("history is of a key or of a prefix: give one of them")
    if last is not None and last < 1:
        raise InvalidRequest(f"last must be at least 1, not {last}")
    if prefix is not None:
        reply = yield operations.read_call("history", _of_prefix(prefix, last, lost), after, timeout_s)
        return _answer(reply, reply["items"], has_more=reply["more"])
    items: list[dict[str, Any]] = []
    first: Any = None
    place: Arguments = {}
    while True:
        wanted = PAGE_ITEMS_MAX if last is None else max(1, min(PAGE_ITEMS_MAX, last - len(items)))
        arguments: Arguments = {"key": key, "limit": wanted, "lost": lost, **place}
        page = yield operations.read_call("history", arguments, after, timeout_s)
        first = first or page
        for item in page["items"]:
            if items and _goes_on(item, items[-1]):
                items[-1] |= {"edits": items[-1]["edits"] + item["edits"], "began": item["began"], "seen": item["seen"]}
            elif last is not None and len(items) == last:
                return _answer(first, items, has_more=True)
            else:
                items.append(item)
        if page["before"] is None:
            return _answer(first, items, has_more=False)
        if last is not None and len(items) == last and items[-1]["op"] != "text":
            return _answer(first, items, has_more=True)  # of a text the rest may belong to the last item
        place = {"before": page["before"]}
        yield NEXT_PAGE


def _of_prefix(prefix: str, last: int | None, lost: bool) -> Arguments:
    if last is not None and last > PAGE_ITEMS_MAX:
        raise InvalidRequest(f"of a prefix at most the last {PAGE_ITEMS_MAX:,}: ask key by key for more")
    return {"prefix": prefix, "limit": PAGE_ITEMS_MAX if last is None else last, "lost": lost}


def _goes_on(older: Fields, newer: Fields) -> bool:
    """Whether both are edits of one text by one author: they are one, cut by the end of a page."""
    names = ("op", "document", "agent", "node")
    return older["op"] == "text" and older["fate"] == "replaced" and all(older[n] == newer.get(n) for n in names)


def _answer(page: Fields, items: Iterable[Fields], *, has_more: bool) -> History:
    return History(
        map(past_value_from_wire, items),
        page["token"],
        is_complete=page["complete"],
        since=moment(page["since"]),
        has_more=has_more,
    )


def past_value_from_wire(fields: Fields) -> PastValue:
    """A value of the past that the daemon describes with ``fields``."""
    ttl_ms, removal = fields.get("ttl"), fields.get("removed_by")
    return PastValue(
        key=fields["key"],
        kind=fields["kind"],
        op=fields["op"],
        value=plain(fields.get("value")),
        dot=fields["dot"],
        agent=fields["agent"],
        node=fields["node"],
        time=moment(fields["time"]),
        confidence=fields.get("confidence"),
        meta=plain(fields.get("meta")),
        ttl=None if ttl_ms is None else ttl_ms / 1000,
        token=fields["token"],
        seen=fields.get("seen"),
        blind=fields.get("blind") or [],
        seen_all=fields.get("seen_all"),
        fate=fields.get("fate"),
        removed_by=None if removal is None else Removal(**{**removal, "time": moment(removal["time"])}),
        field=fields.get("field"),
        edits=fields.get("edits", 1),
        began=moment(fields.get("began")),
        is_cut=fields.get("cut", False),
    )


def explanation(reply: Any) -> dict[str, Any]:
    """The answer of one key."""
    return {name: _part(field) for name, field in reply.items()}


def _part(part: Any) -> Any:  # Any: whatever the answer is made of
    """The same with times and values as Python has them, however deep."""
    if isinstance(part, dict):
        return {name: _field(name, field) for name, field in part.items()}
    return [_part(item) for item in part] if isinstance(part, list) else part


def _field(name: str, field: Any) -> Any:  # Any: as above
    if name in _TIMES and (field is None or isinstance(field, int)):
        return moment(field)
    return plain(field) if name in _PACKED and isinstance(field, bytes) else _part(field)
