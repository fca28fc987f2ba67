"""Values and changes whose place on disk holds something else: another place may still have them, or a peer.

Example: a disk has flipped a bit in the 40 kB that ann wrote. A reader of them is given what this node's log holds of
her change, and the next commit puts that in its place. If the log no longer reaches back to it, the node raises an
alarm and asks its peers (:mod:`crdtsync.core.sync.value_repair`).

Another example: the bit has flipped in the log. Each change there stands beside its hash, and whoever reads one to go
by it, or to give it away, asks here for it. If the spoilt part is a value that the state or history still holds, the
change is mended with that. If not, peers are asked for the change. Until one gives it, nobody is given it here: a peer
that lacks it gets a snapshot, and a watch that would tell it starts over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.causality import Dot
from crdtsync.core.alarm_catalogue import CHANGE_DAMAGED, NO_SPACE, VALUE_DAMAGED
from crdtsync.core.storage.rows import MendedValue, Redaction
from crdtsync.errors import InvalidEncoding
from crdtsync.wire.blobs import subject_of
from crdtsync.wire.change import Change, Codec, redacted, value_hash
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.peer.values import WHOLE_CHANGE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crdtsync.core.crdt.entry import Entry
    from crdtsync.core.space import SpaceState
    from crdtsync.core.storage.rows import LogRow


SPOILT_CHANGES_MAX = 10_000
"""Spoilt changes of a space's log that are remembered; what is forgotten is found anew."""


class SpoiltValues:
    """The spoilt values of one space."""

    __slots__ = ("_codec", "_space")

    def __init__(self, space: SpaceState, codec: Codec) -> None:
        self._space = space
        self._codec = codec

    def value_of(self, key: str, dot: Dot, recalled: Sequence[int] = ()) -> bytes | None:
        """The value of an entry, alive, dead or ``recalled`` under one of these numbers, for a peer whose disk has
        spoilt it, or the change of that number; None: it is not here.
        """
        if dot.n == WHOLE_CHANGE:
            row = self._space.storage.change(self._space.id, dot.writer, dot.seq)
            return None if row is None else self.body_of(row)
        held = self._held(key, dot, recalled)
        return self._in_log(dot) if held is None else held[0]

    def _held(self, key: str, dot: Dot, recalled: Sequence[int] = ()) -> tuple[bytes | None] | None:
        """The value of an entry as the state or history has it; None: they have no such entry."""
        space = self._space
        entry = space.entries.find(key, dot)
        if entry is not None:
            return (entry.value,)
        row = next(
            (row for one in (space.id, *recalled) if (row := space.storage.dead_row(one, key, dot)) is not None), None
        )
        return None if row is None else (space.storage.value(row),)

    def logged(self, entry: Entry, can_mend: bool) -> bytes | None:
        """A value of which the place on disk holds something else: as the log has it. That mends the place."""
        value = self._in_log(entry.dot)
        if value is None or value_hash(value) != entry.value_hash:
            return None
        if can_mend and self._can_write():
            self.mend(entry, value)
        self._space.alarms.journal("value_mended", space=self._space.name, key=entry.key)
        return value

    def mend(self, entry: Entry, value: bytes) -> None:
        """Write a value to its place."""
        self._space.ledger.batch.mended_values.append(MendedValue(entry.row, value))
        self._is_whole(entry.dot._replace(n=WHOLE_CHANGE))  # if it is not, the next reader finds that

    def _can_write(self) -> bool:
        """Whether the disk has room: a commit that it refuses would take more along than what was to be mended."""
        return not self._space.alarms.scopes(NO_SPACE)

    def tell(self, entry: Entry) -> None:
        """This node has the value no more."""
        space = self._space
        space.alarms.journal("value_damaged", space=space.name, key=entry.key, agent=entry.agent)
        message = (
            f"space {space.name}: neither the disk nor this node's log has the value of {subject_of(entry.key)!r} as "
            f"{entry.agent} wrote it on {space.node_of(entry.writer)}"
        )
        space.alarms.raise_once(VALUE_DAMAGED, space.name, message, (entry.key,))

    def _in_log(self, dot: Dot) -> bytes | None:
        body = self._space.storage.change_body(self._space.id, dot.writer, dot.seq)
        try:
            return None if body is None else self._codec.decode(body).ops[dot.n].value
        except (InvalidEncoding, LookupError):
            return None

    # -- changes of the log ----------------------------------------------------------------------------------------

    def change_of(self, row: LogRow) -> Change | None:
        """A change of the log; None: the disk has spoilt it."""
        body = self.body_of(row)
        return None if body is None else self._codec.decode(body)

    def body_of(self, row: LogRow) -> bytes | None:
        """Its body, the bytes that its author made; None: the disk has spoilt it, and that is told."""
        if self._codec.hash_of(row.body) == row.hash:
            return row.body
        space, dot = self._space, Dot(row.writer, row.seq, WHOLE_CHANGE)
        body = self._with_held_values(row)
        if body is not None:
            self._mend_change(row, body)
            return body
        if dot not in space.spoilt_changes:
            if len(space.spoilt_changes) >= SPOILT_CHANGES_MAX:
                del space.spoilt_changes[next(iter(space.spoilt_changes))]
            space.spoilt_changes[dot] = row._replace(body=b"")
            space.alarms.journal("change_damaged", space=space.name, writer=row.writer, seq=row.seq)
        message = (
            f"space {space.name}: the disk has spoilt change {row.seq} of writer {row.writer} of "
            f"{space.node_of(row.writer)} in this node's log; it is sent to no other node"
        )
        space.alarms.raise_once(CHANGE_DAMAGED, space.name, message)
        return None

    def came(self, dot: Dot, body: bytes, is_purged: Callable[[str, Dot], bool]) -> bool:
        """A peer has given a change: whether it is one that is spoilt here. It is in its place with the next commit."""
        row = self._space.spoilt_changes.get(dot)
        if row is None or self._codec.hash_of(body) != row.hash or not self._can_write():
            return False
        try:
            change = self._codec.decode(body)
        except InvalidEncoding:
            return False
        self._mend_change(row, redacted(change, lambda key: is_purged(key, dot)) or body)
        return True

    def _mend_change(self, row: LogRow, body: bytes) -> None:
        space = self._space
        if self._can_write():
            space.ledger.batch.redactions.append(Redaction(space.id, row.position, body))
            self._is_whole(Dot(row.writer, row.seq, WHOLE_CHANGE))
        space.alarms.journal("change_mended", space=space.name, writer=row.writer, seq=row.seq)

    def _is_whole(self, dot: Dot) -> None:
        space = self._space
        if space.spoilt_changes.pop(dot, None) is not None and not space.spoilt_changes:
            space.alarms.clear(CHANGE_DAMAGED, space.name)

    def _with_held_values(self, row: LogRow) -> bytes | None:
        """A spoilt body with the values that its entries have; None: that is not what its author made either."""
        try:
            ops = self._codec.decode(row.body).ops
        except InvalidEncoding:
            return None
        header, *values = unpack(row.body)
        written = [(n, op) for n, op in enumerate(ops) if op.value_hash is not None]
        for at, (n, op) in enumerate(written):
            held = self._held(op.key, Dot(row.writer, row.seq, n)) if type(values[at]) is bytes else None
            if held is not None and held[0] is not None:
                values[at] = held[0]
        body = pack([header, *values])
        return body if self._codec.hash_of(body) == row.hash else None
