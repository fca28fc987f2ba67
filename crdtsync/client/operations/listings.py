"""Reads of keys whatever they hold, one or many at a time, and the deletion of all that a prefix finds.

Each is a plan: which requests it takes and what their replies mean. ``delete_prefix`` lists a page of keys and deletes
them in one batch, each at the version that was listed: what somebody writes in between stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.client.operations import writes
from crdtsync.client.protocol.steps import NEXT_PAGE, Exchange, Steps
from crdtsync.client.session.request_context import Arguments, Context, Write, WriteConcern
from crdtsync.client.values.encoding import encode, plain
from crdtsync.client.values.listing import Listing, check_count
from crdtsync.errors import InvalidRequest, TooLarge
from crdtsync.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crdtsync.client.values.results import Entry

PAGE_ITEMS_MAX = 1000
DELETED_AT_ONCE_MAX = 500
"""Keys that one batch deletes: a key may take two operations, and 1,000 fit."""


class Selection(NamedTuple):
    """Which keys a listing shows, and in which order."""

    prefix: str = ""
    start: str | None = None
    limit: int | None = None
    reverse: bool = False
    delimiter: str | None = None
    where_meta: dict[str, Any] | None = None

    def arguments(self) -> Arguments:
        """The arguments that all pages have."""
        arguments: Arguments = {"prefix": self.prefix}
        if self.reverse:
            arguments["reverse"] = True
        if self.delimiter is not None:
            if not self.delimiter:
                raise InvalidRequest("delimiter must not be empty: leave it out to list all keys below the prefix")
            arguments["delimiter"] = self.delimiter
        if self.where_meta is not None:
            arguments["where_meta"] = encode(self.where_meta)
        return arguments


class Listings(Context):
    """The part of a session's plans that reads keys as wholes."""

    def get(self, key: str, default: Any, after: str | None, timeout_s: float) -> Exchange[Any]:
        """The winner's value."""

        def learn(reply: Any) -> Any:
            if reply is None:
                self.memory.read(key, None)
                return default
            self.memory.read(key, reply["version"])
            return plain(reply["value"])

        return self.read_call("get", {"key": key}, after, timeout_s, learn)

    def entry(self, key: str, after: str | None, timeout_s: float) -> Exchange[Entry | None]:
        """The winner with all that is known of it, and its siblings."""
        return self.read_call("entry", {"key": key}, after, timeout_s, lambda reply: self.learn_entry(key, reply))

    def keys(self, selection: Selection, after: str | None, timeout_s: float) -> Steps[Listing[str]]:
        """The keys under a prefix."""
        rows = yield from self._scan(selection, after, timeout_s)
        return Listing((row[0] for row in rows), rows.token, rows.prefixes)

    def items(self, selection: Selection, after: str | None, timeout_s: float) -> Steps[Listing[tuple[str, Any]]]:
        """Keys and values under a prefix."""
        rows = yield from self._scan(selection, after, timeout_s, values=True)
        items = yield from self._read_rows(rows, timeout_s)
        return Listing(items, rows.token, rows.prefixes)

    def get_many(self, keys: Iterable[str], after: str | None, timeout_s: float) -> Steps[dict[str, Any]]:
        """The values of these keys, of those that there are."""
        if isinstance(keys, str):
            raise InvalidRequest("get_many takes several keys, not one: give a list")
        found: dict[str, Any] = {}
        left = [*dict.fromkeys(keys)]
        while left:
            asked = left[:PAGE_ITEMS_MAX]
            page = yield self.read_call("get_many", {"keys": asked}, after, timeout_s)
            done, left = left[: page["done"]], left[page["done"] :]
            there = {row[0] for row in page["items"]}
            for key in done:
                if key not in there:
                    self.memory.read(key, None)
            found.update((yield from self._read_rows(page["items"], timeout_s)))
            yield NEXT_PAGE
        return found

    def _read_rows(self, rows: Iterable[Any], timeout_s: float) -> Steps[list[tuple[str, Any]]]:
        """Keys with their values; what is too long for a row is read after it, one by one."""
        items: list[tuple[str, Any]] = []
        for key, _, value, version, _ in rows:
            if value is not None:
                self.memory.read(key, version)
                items.append((key, plain(value)))
                continue
            yield NEXT_PAGE
            found = yield from self.get(key, _GONE, None, timeout_s)
            if found is not _GONE:
                items.append((key, found))
        return items

    def entries(
        self, selection: Selection, after: str | None, timeout_s: float, *, values: bool
    ) -> Steps[Listing[Entry]]:
        """The entries under a prefix, as a scan has them."""
        rows = yield from self._scan(selection, after, timeout_s, values=values, entries=True)
        return Listing((self._listed(fields) for fields in rows), rows.token, rows.prefixes)

    def conflicts(self, selection: Selection, after: str | None, timeout_s: float) -> Steps[Listing[Entry]]:
        """The entries under a prefix that have siblings; what the scan leaves out of one is read after it."""
        rows = yield from self._scan(selection, after, timeout_s, values=True, entries=True, conflicts=True)
        found: Listing[Entry] = Listing(token=rows.token)
        for fields in rows:
            found.append(self._listed(fields))
            if any(one["value"] is None for one in (fields, *fields["siblings"])):
                yield NEXT_PAGE
                found[-1] = yield from self._entry_now(found[-1], timeout_s)
        return found

    def _entry_now(self, listed: Entry, timeout_s: float) -> Steps[Entry]:
        """The whole entry; as it was listed if it is too large for one reply, or has been settled meanwhile."""
        try:
            entry = yield from self.entry(listed.key, None, timeout_s)
        except TooLarge:
            return listed
        return entry if entry is not None and entry.siblings else listed

    def _listed(self, fields: Any) -> Entry:
        """An entry of a scan; it counts as read if all its values were handed over."""
        from crdtsync.client.values.results import entry_from_wire

        entry = entry_from_wire(fields["key"], fields)
        if all(one["value"] is not None for one in (fields, *fields["siblings"])):
            self.memory.read(entry.key, entry.version)
        return entry

    def _scan(
        self,
        selection: Selection,
        after: str | None,
        timeout_s: float,
        *,
        values: bool = False,
        entries: bool = False,
        conflicts: bool = False,
    ) -> Steps[Listing[Any]]:
        rows: Listing[Any] = Listing()
        limit, start = selection.limit, selection.start
        check_count("limit", limit)
        while limit is None or len(rows) + len(rows.prefixes) < limit:
            left = PAGE_ITEMS_MAX if limit is None else min(PAGE_ITEMS_MAX, limit - len(rows) - len(rows.prefixes))
            arguments: Arguments = {**selection.arguments(), "limit": left, "values": values}
            if entries:
                arguments["entries"] = True
            if conflicts:
                arguments["conflicts"] = True
            if start is not None:
                arguments["start"] = start
            page = yield self.read_call("scan", arguments, after, timeout_s)
            rows.token = rows.token or page["token"]
            rows += page["items"]
            rows.prefixes += page.get("prefixes", ())
            start = page.get("next")
            if not page["more"] or (start is None and not page["items"]):
                break
            if start is None:
                start = rows[-1]["key" if entries else 0]
            yield NEXT_PAGE
        return rows

    def now(self, timeout_s: float) -> Steps[str]:
        """The token of all that the daemon holds."""
        page = yield self.read_call("scan", {"limit": 1}, None, timeout_s)
        token: str = page["token"]
        return token

    # -- a write of many keys ------------------------------------------------------------------------------------

    def delete_prefix(self, prefix: str, w: WriteConcern, timeout_s: float) -> Steps[int]:
        """Delete what a prefix finds, page by page; how many keys."""
        if not prefix:
            raise InvalidRequest("delete_prefix needs a prefix: to empty a space, drop it, and make it anew")
        count = 0
        start: str | None = None
        more = True
        while more:
            arguments: Arguments = {"prefix": prefix, "limit": DELETED_AT_ONCE_MAX, "values": False}
            if start is not None:
                arguments["start"] = start
            page = yield self.read_call("scan", arguments, None, timeout_s)
            more = page["more"] and bool(page["items"])
            if page["items"]:
                start = page["items"][-1][0]
                yield NEXT_PAGE
                count += yield from self._delete_rows(page["items"], w, timeout_s)
                yield NEXT_PAGE
        return count

    def bring_back(self, w: WriteConcern, timeout_s: float) -> Steps[tuple[int, int]]:
        """Write anew what snapshots took away, part by part: how many values, and how many were left."""
        written = left = 0
        more = True
        while more:
            part = Write(self, "bring_back", {}, lambda reply, _token, _is_batched: reply, waits=True)
            reply = yield from self.send(part, w, timeout_s)
            written, left, more = written + reply["written"], left + reply["left"], reply["more"]
            yield NEXT_PAGE
        return written, left

    def _delete_rows(self, rows: list[Any], w: WriteConcern, timeout_s: float) -> Steps[int]:
        deletions = [writes.delete(self, key, version) for key, _, _, version, _ in rows]

        def learn(reply: Any, token: str, _: bool) -> int:
            return sum(
                deletion.learn(result, token, True)
                for deletion, result in zip(deletions, reply["results"], strict=True)
            )

        ops = [(deletion.operation, deletion.arguments) for deletion in deletions]
        return (yield from self.send(Write(self, "batch", {"ops": ops}, learn, waits=True), w, timeout_s))


_GONE = object()
