"""The newest writes of many keys, whatever keys they were to: a read that looks at all there is, in slices.

Nothing is sorted by time across keys. So a scan looks at the live entries of all keys, then at the dead ones on disk,
and keeps the newest. Between two slices others are served. A value that is written meanwhile may be missing; one that
dies meanwhile is shown dead.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush, heappushpop
from itertools import islice

from crdtsync.causality import Dot, VersionVector, Writer, hlc_ms
from crdtsync.core.access.rules import Grant
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.history.removal_reason import RemovalReason
from crdtsync.core.kinds.arguments import Arguments
from crdtsync.core.kinds.seen import describe_seen, seen_of
from crdtsync.core.reads.key_history import Item, describe_past, is_same_edit, join_edits, page
from crdtsync.core.reads.operations import Reader
from crdtsync.core.reads.pages import page_limit
from crdtsync.core.replica.replica import Replica
from crdtsync.core.storage.interface import Storage
from crdtsync.core.storage.rows import DeadPlace, PastRow, ScannedRow
from crdtsync.errors import InvalidRequest
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.change import Order
from crdtsync.wire.limits import check_prefix
from crdtsync.wire.tokens import encode_token

SCAN_SLICE_ROWS = 1000
"""Rows of the history of all keys under a prefix that are looked at in one turn."""
ROWS_AT_ONCE_MAX = 200
"""Rows of an answer that are read in one turn."""
SCAN_BYTES_MAX = 4 * 1024 * 1024
"""Values in one answer; the older ones beyond that are left out, and the answer says so."""


class Candidate(NamedTuple):
    """One of the newest so far: an entry that was alive when it was looked at, or the ``id`` of a dead row.

    If it stands for edits of a text by one author, it is the newest of so many ``edits``; the first was at
    ``began_hlc``, having ``seen`` that.
    """

    order: Order
    entry: Entry | None
    id: int = 0
    edits: int = 1
    began_hlc: int = 0
    seen: bytes | None = None


def dot_of(order: Order) -> Dot:
    """The dot of the entry at a place."""
    _, writer, seq, n = order
    return Dot(Writer(writer), seq, n)


class _Edits(NamedTuple):
    """Edits of one text by one author, the last of them ``newest``; it is where others may join."""

    newest: ScannedRow
    first: ScannedRow
    edits: int

    def goes_on_with(self, row: ScannedRow, node_of: Callable[[Writer], str]) -> bool:
        """Whether a row is the next edit."""
        last = self.newest
        return (
            last.fate == RemovalReason.REPLACED
            and (last.key, last.agent, last.value) == (row.key, row.agent, row.value)
            and node_of(dot_of(last.order).writer) == node_of(dot_of(row.order).writer)
        )


class HistoryScan:
    """One such read: of keys that begin with ``prefix`` the newest ``limit`` values, or of those that were lost."""

    def __init__(
        self,
        replica: Replica,
        storage: Storage,
        prefix: str,
        limit: int,
        *,
        is_lost: bool,
        rights: Grant | None,
    ) -> None:
        self.rights = rights
        self.prefix = prefix
        self.limit = limit
        self.is_lost = is_lost
        self._storage = storage
        self.begin(replica)

    def begin(self, replica: Replica) -> None:
        """Begin, or begin again with a replica that was read anew."""
        self.replica = replica
        self._vector: VersionVector = dict(replica.vector)
        self._found: list[tuple[Order, int, Candidate]] = []
        self._key: str | None = None if self.is_lost else ""
        self._place: DeadPlace | None = DeadPlace(self.prefix, b"", 0)
        self._edits: _Edits | None = None
        self._unread: list[Candidate] | None = None
        self._rows: list[tuple[Candidate, PastRow]] = []
        self._bytes_left = SCAN_BYTES_MAX

    def advance(self) -> bool:
        """Look at one slice more; True: that was all."""
        if self._key is not None:
            self._look_at_living(self._key)
        elif self._storage.has_backlog:
            return False  # not all that is dead can be found yet
        elif self._place is not None:
            self._look_at_dead(self._place)
        return self._key is None and self._place is None and self._read_some()

    # -- looking -----------------------------------------------------------------------------------------------

    def _look_at_living(self, start: str) -> None:
        entries, looked_at = self.replica.entries, 0
        for key in entries.keys(self.prefix, start, hidden=True):
            looked_at += 1
            for entry in reversed(entries.held(key)) if self._is_wanted(key) else ():
                looked_at += 1
                if not self._offer(Candidate(entry.order, entry)):
                    break  # those before it are older still
            if looked_at >= SCAN_SLICE_ROWS:
                self._key = key
                return
        self._key = None

    def _look_at_dead(self, place: DeadPlace) -> None:
        rows = self._storage.scan_dead(self.replica.id, place, is_lost=self.is_lost, rows_max=SCAN_SLICE_ROWS)
        for row in rows:
            if not row.key.startswith(self.prefix):
                break
            if not self._is_wanted(row.key):
                continue
            if row.is_edit and not self.is_lost:
                self._join(row)
            else:
                self._flush()
                self._offer(Candidate(row.order, None, row.id))
        else:
            if len(rows) == SCAN_SLICE_ROWS:
                last = rows[-1]
                self._place = DeadPlace(last.key, last.order[0].to_bytes(8, "big"), last.id)
                return
        self._flush()
        self._place = None

    def _is_wanted(self, key: str) -> bool:
        """Reserved keys are shown to those who ask for them, and no key to who may not read it."""
        return (not key.startswith("_") or self.prefix.startswith("_")) and self._may_read(key)

    def _may_read(self, key: str) -> bool:
        return self.rights is None or self.rights.may_read(key)

    def _join(self, row: ScannedRow) -> None:
        edits = self._edits
        if edits is not None and edits.goes_on_with(row, self.replica.node_of):
            self._edits = edits._replace(newest=row, edits=edits.edits + 1)
        else:
            self._flush()
            self._edits = _Edits(row, row, 1)

    def _flush(self) -> None:
        if self._edits is not None:
            newest, first, count = self._edits
            self._offer(Candidate(newest.order, None, newest.id, count, first.order[0], first.seen))
            self._edits = None

    def _offer(self, candidate: Candidate) -> bool:
        """False: others are newer. Twice as many are kept as are wanted, since the last edit of a text, which lives,
        may join those before it.
        """
        item = (candidate.order, candidate.id, candidate)
        if len(self._found) < 2 * self.limit:
            heappush(self._found, item)
            return True
        return heappushpop(self._found, item)[2] is not candidate

    # -- the answer --------------------------------------------------------------------------------------------

    def answer(self, now_ms: int) -> Item:
        """The found lines, newest first."""
        reader = Reader(self.replica, self._storage, now_ms, self.replica.node_of)
        items: list[Item] = []
        newest_of_key: dict[str, Item] = {}
        seen_dots: set[Dot] = set()
        size_bytes = 0
        more = False
        for candidate, row in self._rows:
            if row.entry.dot in seen_dots or not self._may_read(row.entry.key):
                continue
            seen_dots.add(row.entry.dot)
            last = newest_of_key.get(row.entry.key)
            joins = last is not None and is_same_edit(last, row, self.replica.node_of)
            with_it_bytes = size_bytes + row.entry.size_bytes
            item = self._described(reader, row, candidate, is_cut=with_it_bytes > SCAN_BYTES_MAX)
            if joins and last is not None:
                join_edits(last, item)
                continue
            if len(items) == self.limit:
                more = True
                break
            newest_of_key[row.entry.key] = item
            items.append(item)
            size_bytes = with_it_bytes
        answer = page(self.replica, items, None, self.replica.past.floors(prefix=self.prefix))
        token = encode_token([(self.replica.name, self.replica.epoch, self._vector)])
        return {**answer, "token": token, "more": more}

    def _described(self, reader: Reader, row: PastRow, candidate: Candidate, *, is_cut: bool) -> Item:
        item = describe_past(reader, row, is_cut=is_cut and row.entry.size_bytes > 0)
        if candidate.edits > 1:
            item |= {"edits": candidate.edits, "began": hlc_ms(candidate.began_hlc)}
            item |= describe_seen(self.replica, candidate.seen)
        return item

    def _read_some(self) -> bool:
        """Read some rows of what was found, newest first, as they are by now; True: there are no more."""
        if self._unread is None:
            self._unread = [candidate for _, _, candidate in sorted(self._found)]
        some = self._unread[: -ROWS_AT_ONCE_MAX - 1 : -1]
        del self._unread[-ROWS_AT_ONCE_MAX:]
        ids = [candidate.id for candidate in some if candidate.entry is None]
        dead = {row.entry.dot: row for row in self._storage.dead_by_id(ids, self._bytes_left)}
        self._bytes_left -= sum(row.entry.size_bytes for row in dead.values())
        for candidate in some:
            entry = candidate.entry
            row = dead.get(dot_of(candidate.order)) if entry is None else self._row_now(entry)
            if row is not None:
                self._rows.append((candidate, row))
        return not self._unread

    def _row_now(self, entry: Entry) -> PastRow | None:
        """One that was alive when it was looked at."""
        if self.replica.entries.holds(entry):
            return PastRow(entry, seen_of(self.replica, entry))
        for row in self.replica.past.unsaved_of(entry.key):
            if row.entry is entry:
                return row._replace(seen=seen_of(self.replica, entry))
        hlc, writer, seq, n = entry.order
        rows = self._storage.dead(self.replica.id, entry.key, (hlc, writer, seq, n + 1), is_lost=False, rows_max=1)
        return next((row for row in islice(rows, 1) if row.entry.dot == entry.dot), None)


def scan_of(reader: Reader, args: Arguments) -> HistoryScan:
    """The request ``history`` with a ``prefix``.

    :raises InvalidRequest: it makes no sense.
    """
    prefix = args.get("prefix")
    if type(prefix) is not str or "key" in args or "before" in args:
        raise InvalidRequest("history takes either a key, and before if it is not the first page, or a prefix")
    return HistoryScan(
        reader.replica,
        reader.storage,
        check_prefix(prefix),
        page_limit(args),
        is_lost=bool(args.get("lost")),
        rights=reader.limit,
    )
