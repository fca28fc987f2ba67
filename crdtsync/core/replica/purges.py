"""The purges of a space: what is to be gone for good, in reserved keys of the space itself.

An agent wrote a password into ``notes/7``. A delete removes it from the live state, but history tells it, and the log
hands it to every host that catches up. A *purge* is the delete, and a register under ``_purge/notes/7`` with the
version vector of its author's node: every value of that key below the vector is to go, on every host, from whatever it
stores. The register replicates as any other key does. So a host that was away learns of it as it learns of everything,
from the log or in a snapshot, and does its part then (:mod:`crdtsync.core.background.purging`).

A value that is written at the same time elsewhere is not below the vector, and stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from crdtsync.causality import Dot, VersionVector, flatten, merge
from crdtsync.core.crdt.entries import Entries
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.crdt.read_context import removals
from crdtsync.core.kinds.arguments import Arguments, Result
from crdtsync.errors import InvalidEncoding, InvalidRequest
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.blobs import subject_of, upload_of
from crdtsync.wire.change import Op, value_hash
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import CHANGE_OPS_MAX, KEY_BYTES_MAX, key_fault, shown
from crdtsync.wire.patterns import Pattern, check_new_pattern, check_pattern

if TYPE_CHECKING:
    from crdtsync.core.kinds.draft import Draft

PURGE_PREFIX = "_purge/"
PURGES_MAX = 4096
"""Purges that a space remembers, for hosts that are away: with one more its author's node forgets the oldest."""
REMOVED_MAX = 100
"""Keys that are removed with the purge itself; the rest follows by slices."""
LOOKED_AT_MAX = 2048
"""Keys looked at for that."""


class Purge(NamedTuple):
    """An order to drop what the keys of ``pattern`` held below ``vector``. ``mark`` tells it from later ones of the
    pattern; ``entry`` is the newest record of it.
    """

    pattern: Pattern
    vector: VersionVector
    mark: bytes
    entry: Entry

    def covers(self, dot: Dot) -> bool:
        """Whether what has this dot is to go, if its key is of the pattern."""
        return dot.seq <= self.vector.get(dot.writer, 0)


class Purges:
    """The purges of one space, kept in step with its entries: a caller that changes entries reports that with
    :meth:`note`.
    """

    __slots__ = ("_entries", "_known", "_noted", "times")

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._noted: dict[str, None] = {}
        self._known: dict[str, Purge] = {}
        self.times = 0
        """How often some were noted."""

    def __len__(self) -> int:
        return len(self._known)

    @property
    def is_noted(self) -> bool:
        """Whether :meth:`take_noted` has something."""
        return bool(self._noted)

    def note(self, key: str) -> None:
        """Entries of a reserved key have come or gone."""
        if key.startswith(PURGE_PREFIX):
            self._noted[key] = None
            self.times += 1

    def note_entries(self, entries: Iterable[Entry]) -> None:
        """The same for many at once, most of which are of other keys."""
        for entry in entries:
            self.note(entry.key)

    def take_noted(self) -> list[Purge]:
        """The purges that are new since the last call, by pattern."""
        found = []
        for key in sorted(self._noted):
            purge = _purge_of(key, self._entries.held(key))
            self._known.pop(key, None)
            if purge is not None:
                self._known[key] = purge
                found.append(purge)
        self._noted.clear()
        return found

    def all(self) -> list[Purge]:
        """All of them, by pattern."""
        return [self._known[key] for key in sorted(self._known)]

    def covers(self, key: str, dot: Dot) -> bool:
        """Whether what ``key`` held under this dot is purged."""
        if not self._known:
            return False
        return any(purge.covers(dot) and purge.pattern.matches(subject_of(key)) for purge in self._known.values())

    def are_gone(self, key: str, dot: Dot) -> bool:
        """Whether the log keeps no value of ``key`` with this dot: it does of parts that an entry may still show."""
        return self.covers(key, dot) and not (upload_of(key) and self._entries.held(key))


def _purge_of(key: str, held: Iterable[Entry]) -> Purge | None:
    """The purge that the entries of a record make up: if there are several, all of them together. None: they say
    nothing. None: it says nothing.
    """
    vector: VersionVector = {}
    records = []
    for entry in held:
        try:
            flat = unpack(entry.value or b"")["vector"]
            merge(vector, dict(zip(flat[::2], flat[1::2], strict=True)))
        except (InvalidEncoding, TypeError, LookupError, ValueError):
            continue  # a careless author's
        records.append(entry)
    try:
        pattern = check_pattern(key.removeprefix(PURGE_PREFIX))
    except InvalidRequest:
        return None
    return Purge(pattern, vector, pack([list(one.dot) for one in records]), records[-1]) if records else None


def purge(draft: Draft, args: Arguments) -> Result:
    """The request ``purge``: remove what the keys of a pattern hold, and have every host forget it."""
    pattern = check_new_pattern(args.get("pattern"))
    record = PURGE_PREFIX + pattern.text
    if key_fault(record) is not None:
        raise InvalidRequest(
            f"the pattern {shown(pattern.text)} is too long: with {PURGE_PREFIX!r} before it, it may have "
            f"{KEY_BYTES_MAX:,} bytes"
        )
    if draft.ops:
        raise InvalidRequest("purge comes first in a batch: it is about what was there before")
    replica = draft.space
    keys = matching(replica.entries, pattern, "", LOOKED_AT_MAX)[0]
    for key in keys[:REMOVED_MAX]:
        held = draft.held(key)
        for removes in removals(held, None):
            draft.add(Op(key, None, held[-1].kind, None, None, removes, None))
    records = [key for key in replica.entries.keys(PURGE_PREFIX) if key != record]
    if len(records) >= PURGES_MAX:
        oldest = min(records, key=lambda key: replica.entries.held(key)[-1].order)
        gone = replica.entries.held(oldest)
        draft.add(Op(oldest, None, Kind.REGISTER, None, None, tuple(entry.dot for entry in gone), None))
    value = pack({"vector": flatten(replica.vector)})
    before = tuple(entry.dot for entry in draft.held(record))
    draft.add(Op(record, None, Kind.REGISTER, value, value_hash(value), before, None))
    assert len(draft.ops) <= CHANGE_OPS_MAX
    return {"removed": len(keys[:REMOVED_MAX]), "more": len(keys) > REMOVED_MAX}


def matching(entries: Entries, pattern: Pattern, start: str, looked_at_max: int) -> tuple[list[str], str | None]:
    """The keys of a pattern among the next so many after ``start``, and where to go on; None: that was all."""
    if pattern.is_exact:
        return ([pattern.text] if entries.held(pattern.text) else []), None
    keys = [*islice(entries.keys(pattern.prefix, start, hidden=True), looked_at_max)]
    found = [key for key in keys if pattern.matches(key)]
    return found, keys[-1] if len(keys) == looked_at_max else None


def outcome_of(packed: bytes | None, one: Purge) -> tuple[int, int, int] | None:
    """How many values of the past, changes of the log and texts went here; None: that is not done yet."""
    if packed is None:
        return None
    mark, values, changes, texts = unpack(packed)
    return (values, changes, texts) if mark == one.mark else None
