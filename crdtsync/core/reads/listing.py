"""Many keys in one answer: those that begin with a prefix, as a directory shows them, and those that are named.

Example: ``scan {"prefix": "plan/", "delimiter": "/"}`` where there are ``plan/goal``, ``plan/steps/1`` and
``plan/steps/2``. The answer has the item ``plan/goal`` and the common prefix ``plan/steps/``, once; what else begins
with that is passed over without a look. With ``reverse`` it is the same from the end.

A page ends at so many rows, bytes, texts that were read from disk, or keys that were tried. ``next`` says where the
next one begins: a filter may have passed over many keys since the last item.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from crdtsync.core.crdt.entries import LAST_CHAR
from crdtsync.core.kinds.arguments import Parts, packed_argument
from crdtsync.core.kinds.base import Sibling
from crdtsync.core.kinds.sets import NAMING_TIMES, identity_of
from crdtsync.core.kinds.values import (
    ReadValue,
    describe_key,
    inline_value,
    policy_of,
    siblings,
    version_of,
)
from crdtsync.core.reads import pages
from crdtsync.core.replica.reader_view import flat, handed_over, listed_value
from crdtsync.core.space import SpaceState
from crdtsync.core.watch.prefix_index import is_told
from crdtsync.errors import InvalidRequest
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind, kind_name
from crdtsync.wire.limits import check_prefix, key_fault, shown
from crdtsync.wire.stored_values import attributes_of
from crdtsync.wire.tokens import encode_version, known_version_text

if TYPE_CHECKING:
    from crdtsync.core.crdt.entry import Entry
    from crdtsync.core.reads.operations import Reader

Arguments = Mapping[str, Any]

_REGISTER = int(Kind.REGISTER)
ENTRY_WORK = 40
"""To tell all of a value is as much work as to look at so many entries: see :mod:`crdtsync.core.reads.pages`."""
ENTRY_ROWS_MAX = pages.PAGE_WORK_MAX // ENTRY_WORK
"""So a page that tells all of each key has no more rows."""


class ScanRange(NamedTuple):
    """Which keys a scan is of, and from which side they are gone through."""

    prefix: str
    is_reversed: bool
    is_conflicting: bool
    """Only keys with siblings."""


class ListingPage:
    """The rows of one answer, as far as there is room."""

    def __init__(self, reader: Reader, limit: int) -> None:
        self.rows: list[object] = []
        self.prefixes: list[str] = []
        self._limit = limit
        self._size_bytes = self._work = 0
        self._documents = reader.replica.documents
        self._opened_max = self._documents.opened_total + pages.PAGE_OPENED_TEXTS_MAX

    @property
    def is_full(self) -> bool:
        """Whether no more row is to be made for it."""
        count = len(self.rows) + len(self.prefixes)
        is_worked = self._work >= pages.PAGE_WORK_MAX
        return count == self._limit or is_worked or self._documents.opened_total >= self._opened_max

    def add(self, row: object, work: int) -> bool:
        """Take a row, which was so much work; False: there is no room, it comes with the next page."""
        self._work += work
        self._size_bytes += len(pack(row))
        if self.rows and self._size_bytes > pages.PAGE_BYTES_MAX:
            return False
        self.rows.append(row)
        return True


def scan(reader: Reader, args: Arguments) -> object:
    """The request ``scan``: a page of keys.

    ``scan`` answers ``{"items": [[key, kind, value or null, version, siblings], …], "more", "token"}`` for keys that
    begin with ``prefix``. One page is one moment. Reserved keys, which begin with ``_``, come only if the prefix begins
    so.

    - ``start``: only keys after it; with ``reverse`` only keys before it. The next page's ``start`` is ``next`` if the
      answer has that, else the last key.
    - ``limit``: at most 1,000.
    - ``values``: with values; the page then also ends after 32 texts that were not in memory. Logs, sets and maps over
      64 KiB or 1,000 entries, texts over 64 KiB, and all that ``get`` would refuse come as null: read them one by one.
    - ``entries``: each item is an entry; the page then also ends after about 500 values.
    - ``conflicts``: only keys with siblings.
    - ``reverse``: from the last key to the first.
    - ``delimiter``: keys that have it after the prefix are not shown; their beginnings up to it are in ``prefixes``,
      each once, and count for ``limit``.
    - ``where_meta``: the bin of a map: only keys whose ``meta`` has these fields. A page may be empty.
    """
    place, start = _place(args), _string(args, "start")
    delimiter = _string(args, "delimiter")
    wanted = WantedMeta(args["where_meta"]) if args.get("where_meta") is not None else None
    if delimiter and place.is_conflicting:
        raise InvalidRequest("conflicts are listed key by key: leave out delimiter")
    describe_row = _entry_row if args.get("entries") else _row
    read = inline_value if args.get("values") else _no_value
    page = ListingPage(reader, pages.page_limit(args))
    at, more = start, False
    tried = 0
    while not more:
        key = common = ""
        for key, live in _keys(reader, place, at):
            tried += 1
            more = page.is_full or tried > pages.PAGE_KEYS_TRIED_MAX or (wanted is not None and wanted.is_tired)
            if more:
                break
            if wanted is not None and not wanted.are_of(siblings(reader.replica.entries, live)):
                at = key
                continue
            common = delimiter and _common_prefix(key, place.prefix, delimiter)
            if common:
                break
            more = not page.add(*describe_row(reader, key, live, read))
            if more:
                break
            at = key
        if not common:
            break
        if common in page.prefixes[-1:]:
            at = key  # one of the few that begin with it and sort behind the leap
        else:
            page.prefixes.append(common)
            at = common if place.is_reversed else behind(common)
    answer = {"items": page.rows, "more": more, "token": reader.token()}
    if delimiter:
        answer["prefixes"] = page.prefixes
    if more and (delimiter or wanted is not None):
        answer["next"] = at
    return answer


def behind(common: str) -> str:
    """The place in the order of keys behind nearly all that begin so."""
    return common + LAST_CHAR


def get_many(reader: Reader, args: Arguments) -> object:
    """The request ``get_many``: rows as of a scan, of the keys that there are; ``done``: so many were looked at."""
    keys = args.get("keys")
    if type(keys) is not list or not 1 <= len(keys) <= pages.PAGE_ROWS_MAX:
        raise InvalidRequest(f"keys must be a list of 1 to {pages.PAGE_ROWS_MAX} keys")
    for key in keys:
        fault = key_fault(key)
        if fault is not None:
            raise InvalidRequest(f"the key {shown(key)} {fault}")
    page = ListingPage(reader, len(keys))
    done = 0
    for key in keys:
        live = reader.replica.entries.live(key, reader.now_ms)
        if page.is_full or (live and not page.add(*_row(reader, key, live, inline_value))):
            break
        done += 1
    return {"items": page.rows, "done": done, "token": reader.token()}


# -- which keys ------------------------------------------------------------------------------------------------


def _place(args: Arguments) -> ScanRange:
    prefix = check_prefix(args.get("prefix", ""))
    return ScanRange(prefix, bool(args.get("reverse")), bool(args.get("conflicts")))


def _keys(reader: Reader, place: ScanRange, start: str) -> Iterator[tuple[str, list[Entry]]]:
    """Those that may be shown, from the first one after ``start`` on; before it, if they are gone through backwards.
    Each with its live entries.
    """
    return _conflicting(reader, place, start) if place.is_conflicting else _living(reader, place, start)


def _living(reader: Reader, place: ScanRange, start: str) -> Iterator[tuple[str, list[Entry]]]:
    entries, prefix = reader.replica.entries, place.prefix
    parts = [prefix] if reader.limit is None else reader.limit.readable_prefixes(prefix)
    for part in parts[::-1] if place.is_reversed else parts:
        for key in entries.keys(part, start, is_reversed=place.is_reversed):
            if is_told(key, prefix) and reader.may_read(key) and (live := entries.live(key, reader.now_ms)):
                yield key, live


def _conflicting(reader: Reader, place: ScanRange, start: str) -> Iterator[tuple[str, list[Entry]]]:
    keys = reader.replica.conflicting.at(reader.now_ms)
    if start:
        keys = keys[: bisect_left(keys, start)] if place.is_reversed else keys[bisect_right(keys, start) :]
    in_order = reversed(keys) if place.is_reversed else keys
    for key in in_order:
        if is_told(key, place.prefix) and reader.may_read(key):
            yield key, reader.replica.entries.live(key, reader.now_ms)


def _common_prefix(key: str, prefix: str, delimiter: str) -> str:
    """The part of a key up to the first delimiter after the prefix; empty: there is none."""
    end = key.find(delimiter, len(prefix))
    return "" if end < 0 else key[: end + len(delimiter)]


class WantedMeta:
    """The fields that ``meta`` has to have of what a page shows, each with the identity of its value."""

    def __init__(self, packed: object) -> None:
        fields = unpack(packed_argument(packed, Parts(), "where_meta", times=NAMING_TIMES))
        if type(fields) is not dict or not fields:
            raise InvalidRequest("where_meta must be a map with one field at least")
        self._wanted = {name: identity_of(pack(value)) for name, value in fields.items()}
        self._bytes_left = pages.PAGE_META_BYTES_MAX

    @property
    def is_tired(self) -> bool:
        """Whether as much has been unpacked as there is time for in a turn."""
        return self._bytes_left < 0

    def are_of(self, groups: list[Sibling]) -> bool:
        """Whether the winner of a key's values has all of these fields in its ``meta``."""
        packed = attributes_of(groups[0][-1].attrs).meta
        if packed is None:
            return False
        self._bytes_left -= len(packed)
        meta = unpack(packed)
        return type(meta) is dict and all(
            name in meta and identity_of(pack(meta[name])) == identity for name, identity in self._wanted.items()
        )


def _string(args: Arguments, name: str) -> str:
    text = args.get(name, "")
    if type(text) is not str:
        raise InvalidRequest(f"{name} must be a string")
    return text


# -- what is told of each --------------------------------------------------------------------------------------


def _row(reader: Reader, key: str, live: list[Entry], read: ReadValue) -> tuple[object, int]:
    """With how much work that was."""
    entries = reader.replica.entries
    if len(live) == 1 and live[0].kind == _REGISTER and not entries.policy_of(key).is_whole:
        (entry,) = live  # a plain register, as most keys are: the same as below, in a quarter of the time
        value = None if read is _no_value else entry.value
        if value is not None or read is _no_value:
            return [key, "register", value, known_version_text(entry.hlc, *entry.dot), 0], 1
    groups = siblings(entries, live)
    policy = policy_of(entries, groups)
    shown_groups, others = handed_over(policy, groups)
    version = encode_version(version_of(flat(shown_groups), flat(others)))
    value = None if read is _no_value else listed_value(reader.replica, policy, groups)
    return [key, kind_name(groups[0][-1].kind), value, version, len(groups) - 1], len(live)


def _entry_row(reader: Reader, key: str, live: list[Entry], read: ReadValue) -> tuple[object, int]:
    row = describe_key(reader.replica, key, live, reader.node_of, read)
    values = 0 if row is None else 1 + len(row["siblings"])
    return row, len(live) + ENTRY_WORK * values


def _no_value(_space: SpaceState, _group: Sibling) -> None:
    return None
