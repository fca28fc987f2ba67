"""An agent's read requests, answered from memory; the past of a text from disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from heapq import nsmallest
from typing import Any

from crdtsync.causality import Dot, Writer, covers, hlc_ms, merge
from crdtsync.core.access.rules import Grant
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.crdt.read_policies import Policy
from crdtsync.core.kinds.base import Paged, Sibling
from crdtsync.core.kinds.counter import names_of
from crdtsync.core.kinds.registry import KINDS
from crdtsync.core.kinds.text import READ_BYTES_MAX
from crdtsync.core.kinds.values import describe_key, packed_value, policy_of, siblings, version_of
from crdtsync.core.reads.blobs import blob_parts, blob_read
from crdtsync.core.reads.declared import checkpoints, purges, schemas
from crdtsync.core.reads.key_history import decode_order, history_of_key
from crdtsync.core.reads.listing import get_many, scan
from crdtsync.core.reads.pages import PAGE_BYTES_MAX, page_limit
from crdtsync.core.replica.reader_view import check_settled, flat, handed_over, value_handed_over
from crdtsync.core.replica.replica import Replica
from crdtsync.core.storage.interface import Storage
from crdtsync.core.storage.rows import DocumentUpdate
from crdtsync.core.text.family import current
from crdtsync.core.text.marker import UNKNOWN_WRITER
from crdtsync.errors import InvalidRequest, KindMismatch, TooLarge
from crdtsync.wire.kinds import Kind, kind_name
from crdtsync.wire.limits import CHANGE_OPS_MAX, NAMED_DOTS_MAX, key_fault, shown
from crdtsync.wire.tokens import (
    VERSION_DOTS_MAX,
    Version,
    decode_dot,
    decode_token,
    encode_dot,
    encode_token,
    encode_version,
)


class Reader:
    """Where a read looks: one space of one node at one time. ``limit``: what bounds which keys it may show."""

    def __init__(
        self,
        replica: Replica,
        storage: Storage,
        now_ms: int,
        node_of: Callable[[Writer], str],
        limit: Grant | None = None,
    ) -> None:
        self.replica = replica
        self.storage = storage
        self.now_ms = now_ms
        self.node_of = node_of
        self.limit = limit

    def may_read(self, key: str) -> bool:
        """Whether a key may be shown."""
        return self.limit is None or self.limit.may_read(key)

    def groups(self, key: str) -> list[list[Entry]]:
        """The live values of ``key``, the winner first."""
        return siblings(self.replica.entries, self.replica.entries.live(key, self.now_ms))

    def winner_first(self, key: str, kind: int) -> list[Sibling]:
        """The live values of ``key``, if the winner is of this kind; empty if the key is absent.

        :raises KindMismatch: it is of another kind.
        """
        groups = self.groups(key)
        if groups and groups[0][-1].kind != kind:
            found = kind_name(groups[0][-1].kind)
            raise KindMismatch(f"{key!r} is a {found}, not a {kind_name(kind)}: read it with get", key=key, kind=found)
        return groups

    def winner(self, key: str, kind: int) -> list[Entry]:
        """The entries of the winner, under the same condition; empty if the key is absent."""
        groups = self.winner_first(key, kind)
        return groups[0] if groups else []

    def check_settled(self, key: str, groups: list[Sibling]) -> Policy:
        """The read policy of a key's values.

        :raises Unresolved: it is ``manual``, and they are several.
        """
        if len(groups) == 1:
            return policy_of(self.replica.entries, groups)
        return check_settled(self.replica, key, groups, self.replica.entries.live(key, self.now_ms), self.node_of)

    def token(self) -> str:
        """Names all that an answer from memory shows: it leaves after the commit of what came before it."""
        replica = self.replica
        if replica.token is None or replica.token[0] != replica.position:
            replica.token = replica.position, encode_token([(replica.name, replica.epoch, replica.vector)])
        return replica.token[1]


Arguments = Mapping[str, Any]


def _get(reader: Reader, args: Arguments) -> object:
    key = _key(args)
    groups = reader.groups(key)
    if not groups:
        return None
    policy = reader.check_settled(key, groups)
    shown, others = handed_over(policy, groups)
    kind = groups[0][-1].kind
    names = {"names": names_of(groups[0])} if args.get("names") and kind == Kind.COUNTER else {}
    return names | {
        "value": value_handed_over(reader.replica, policy, shown, packed_value),
        "kind": kind_name(kind),
        "version": encode_version(version_of(flat(shown), flat(others))),
        "siblings": len(groups) - 1,
    }


def _entry(reader: Reader, args: Arguments) -> object:
    key = _key(args)
    return describe_key(reader.replica, key, reader.replica.entries.live(key, reader.now_ms), reader.node_of)


def _paged(kind: int, paged: Paged, reader: Reader, args: Arguments) -> object:
    """A page of a value of a kind that is read in parts."""
    key = _key(args)
    groups = reader.winner_first(key, kind)
    if paged.is_by_name:
        return _page_by_name(reader, args, key, groups)
    return _page_by_index(reader, args, groups, paged.parts(groups[0]) if groups else [])


def _page_by_name(reader: Reader, args: Arguments, key: str, groups: list[Sibling]) -> object:
    """A page of a map, by names of fields."""
    if len(groups) > 1:
        reader.check_settled(key, groups)
    start, limit = args.get("start", ""), page_limit(args)
    if type(start) is not str:
        raise InvalidRequest("start must be the name of a field: those after it are read")
    winner = groups[0] if groups else []
    fields = nsmallest(limit + 1, (entry.sub for entry in winner if entry.sub is not None and entry.sub > start))
    named = {entry.sub: entry for entry in winner if entry.sub is not None and start < entry.sub <= fields[-1]}
    items: list[object] = []
    size_bytes = 0
    for field in fields:
        if len(items) == limit or size_bytes >= PAGE_BYTES_MAX:
            break
        items.append([field, *_part(reader, named[field])])
        size_bytes += len(field) + named[field].size_bytes
    return {
        "items": items,
        "length": len(winner),
        "more": len(items) < len(fields),
        "version": encode_version(version_of(winner, [entry for group in groups[1:] for entry in group])),
        "token": reader.token(),
    }


def _page_by_index(reader: Reader, args: Arguments, groups: list[Sibling], shown: Sibling) -> object:
    """A page of a log or set of which ``shown`` are the elements."""
    first, limit = _first(shown, args), page_limit(args)
    has_attributes = bool(args.get("attributes"))
    items: list[object] = []
    size_bytes = 0
    for entry in shown[first : first + limit]:
        if size_bytes >= PAGE_BYTES_MAX:
            break
        part, attrs = _part(reader, entry), entry.attrs or {}
        if has_attributes:
            part += [attrs.get("confidence"), attrs.get("meta"), attrs.get("ttl")]
        items.append(part)
        size_bytes += entry.size_bytes + len(attrs.get("meta") or b"")
    version = encode_version(_page_version(reader, groups))
    return {"items": items, "start": first, "length": len(shown), "version": version, "token": reader.token()}


def _part(reader: Reader, entry: Entry) -> list[object]:
    value = entry.value
    reader.replica.values.check([entry])
    return [value, encode_dot(entry.dot), entry.agent, reader.node_of(entry.writer), hlc_ms(entry.hlc)]


def _first(live: list[Entry], args: Arguments) -> int:
    """The index to read a log from: ``start``, unless the element before it has moved."""
    start, previous = args.get("start", 0), args.get("previous")
    if type(start) is not int:
        raise InvalidRequest("start must be an index, counted from the end if negative")
    first = max(0, len(live) + start) if start < 0 else min(start, len(live))
    if previous is None:
        return first
    dot = decode_dot(previous)
    if first and live[first - 1].dot == dot:
        return first
    return next((index + 1 for index, entry in enumerate(live) if entry.dot == dot), 0)


def _page_version(reader: Reader, groups: list[Sibling]) -> Version:
    """A version that covers all of a log or set, without looking at each part of a long one."""
    winner, *losers = groups or [[]]
    others = [entry for group in losers for entry in group]
    if len(winner) <= NAMED_DOTS_MAX or len(others) > VERSION_DOTS_MAX:
        return version_of(winner, others)
    return Version((), tuple(entry.dot for entry in others), reader.replica.vector, winner[-1].hlc)


def _text_read(reader: Reader, args: Arguments) -> object:
    sibling = args.get("sibling")
    if sibling is not None:
        return _sibling_text(reader, _key(args), sibling)
    live = reader.winner(_key(args), Kind.TEXT)
    if not live:
        return None
    others = [entry for group in reader.groups(_key(args))[1:] for entry in group]
    document = current(live)
    state = args.get("state") if args.get("document") == encode_dot(document) else None
    if state is not None and type(state) is not bytes:
        raise InvalidRequest("state must be the bytes of a Yjs state vector")
    update = _in_reply(_key(args), reader.replica.documents.held(document, _key(args)).updates_after(state))
    version = encode_version(version_of(live, others))
    return {"document": encode_dot(document), "update": update, "version": version, "token": reader.token()}


def _sibling_text(reader: Reader, key: str, named: object) -> object:
    """One of several texts, by the dot that a read shows of it."""
    dot = decode_dot(named)
    for group in reader.groups(key):
        if group[-1].kind == Kind.TEXT and any(entry.dot == dot for entry in group):
            document = current(group)
            update = _in_reply(key, reader.replica.documents.held(document, key).updates_after(None))
            version = encode_version(version_of(group, []))
            return {"document": encode_dot(document), "update": update, "version": version, "token": reader.token()}
    raise InvalidRequest(f"{shown(key)} has no text {shown(named)}: crdtsync conflicts shows the dots of all")


def _in_reply(key: str, update: bytes) -> bytes:
    """A document as an answer holds it.

    :raises TooLarge: it does not fit.
    """
    if len(update) > READ_BYTES_MAX:
        raise TooLarge(
            f"the text {shown(key)} takes {len(update):,} bytes with what was deleted from it; at most "
            f"{READ_BYTES_MAX:,} fit into one reply: compact it, if its text is shorter, or delete it"
        )
    return update


def _text_updates(reader: Reader, args: Arguments) -> object:
    replica = reader.replica
    live = reader.winner(_key(args), Kind.TEXT)
    if not live:
        return None
    document = current(live)
    wanted, token = args.get("document"), args.get("after")
    _, held = decode_token(token).get(replica.name, (0, {})) if token is not None else (0, {})
    is_new = token is not None and document.seq > held.get(document.writer, 0)
    if is_new or (wanted is not None and decode_dot(wanted) != document):
        return _whole_text(reader, live[-1], document)
    limit = page_limit(args)
    at = replica.trimmed_position
    if covers(held, replica.floor):
        at = reader.storage.position_missing(replica.id, held, replica.vector)
    elif document.seq <= replica.floor.get(document.writer, 0):
        return _whole_text(reader, live[-1], document)
    items: list[object] = []
    size_bytes = 0
    told = dict(held)
    more = False
    for row in _edits(reader.storage, replica.id, document, at, limit):
        if row.dot.seq <= held.get(row.dot.writer, 0) or row.dot.writer == UNKNOWN_WRITER:
            continue
        is_first_of_change = row.dot.seq > told.get(row.dot.writer, 0)
        if is_first_of_change and (len(items) >= limit or size_bytes >= PAGE_BYTES_MAX):
            more = True
            break
        merge(told, {row.dot.writer: row.dot.seq})
        # All up to and including this edit, as on an event of a watch: readers go on from any item's token.
        point = encode_token([(replica.name, replica.epoch, told)])
        items.append([row.update, point, row.agent, reader.node_of(row.dot.writer)])
        size_bytes += len(row.update)
    if not more:
        merge(told, replica.durable_vector())  # the rows come from disk: claim no more than is there
    here = encode_token([(replica.name, replica.epoch, told)])
    return {"document": encode_dot(document), "items": items, "token": here, "more": more, "reset": False}


def _whole_text(reader: Reader, newest: Entry, document: Dot) -> object:
    """The answer to one whose ``after`` lies before the past that is kept, or whose document is no longer that of the
    text: all of it as one edit, to start over from.
    """
    update = _in_reply(newest.key, reader.replica.documents.held(document, newest.key).updates_after(None))
    token = reader.token()
    items = [[update, token, newest.agent, reader.node_of(newest.dot.writer)]]
    return {"document": encode_dot(document), "items": items, "token": token, "more": False, "reset": True}


def _edits(storage: Storage, space: int, document: Dot, after: int, rows_wanted: int) -> Iterator[DocumentUpdate]:
    """All edits of a document after a log position, read from disk in pages of whole changes."""
    rows_max = rows_wanted + CHANGE_OPS_MAX
    while True:
        rows = storage.document_updates(space, document, after, rows_max)
        if len(rows) < rows_max:
            yield from rows
            return
        last = rows[-1].position  # of a change that may be cut off here
        whole = [row for row in rows if row.position != last]
        yield from whole
        after = whole[-1].position


def _history(reader: Reader, args: Arguments) -> object:
    before, is_lost = args.get("before"), bool(args.get("lost"))
    place = None if before is None else decode_order(before)
    return history_of_key(reader, _key(args), place, page_limit(args), is_lost=is_lost)


def _key(args: Arguments) -> str:
    key = args.get("key")
    fault = key_fault(key)
    if fault is not None:
        raise InvalidRequest(f"the key {shown(key)} {fault}")
    assert isinstance(key, str)
    return key


PAGED_READS = frozenset(rules.paged.request for rules in KINDS.values() if rules.paged)
"""Those that read a part of one key."""

READS: dict[str, Callable[[Reader, Arguments], object]] = {
    "get": _get,
    "entry": _entry,
    "scan": scan,
    "get_many": get_many,
    **{rules.paged.request: partial(_paged, kind, rules.paged) for kind, rules in KINDS.items() if rules.paged},
    "history": _history,
    "schemas": schemas,
    "checkpoints": checkpoints,
    "purges": purges,
    "text_read": _text_read,
    "text_updates": _text_updates,
    "blob_read": blob_read,
    "blob_parts": blob_parts,
}
