"""Values whose place on disk holds something else: the log may still have them, or a peer.

Example: a disk has flipped a bit in the 40 kB that ann wrote. A reader of them is given what this node's log holds of
her change, and the next commit puts that in its place. If the log no longer reaches back to it, the node raises an
alarm and asks its peers (:mod:`crdtsync.core.sync.value_repair`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.core.alarm_catalogue import VALUE_DAMAGED
from crdtsync.core.storage.rows import MendedValue
from crdtsync.errors import InvalidEncoding
from crdtsync.wire.blobs import subject_of
from crdtsync.wire.change import Codec, value_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crdtsync.causality import Dot
    from crdtsync.core.crdt.entry import Entry
    from crdtsync.core.space import SpaceState


class SpoiltValues:
    """The spoilt values of one space."""

    __slots__ = ("_codec", "_space")

    def __init__(self, space: SpaceState, codec: Codec) -> None:
        self._space = space
        self._codec = codec

    def value_of(self, key: str, dot: Dot, recalled: Sequence[int] = ()) -> bytes | None:
        """The value of an entry, alive, dead or ``recalled`` under one of these numbers, for a peer whose disk has
        spoilt it; None: it is not here.
        """
        space = self._space
        entry = space.entries.find(key, dot)
        if entry is not None:
            return entry.value
        row = next(
            (row for one in (space.id, *recalled) if (row := space.storage.dead_row(one, key, dot)) is not None), None
        )
        return self._in_log(dot) if row is None else space.storage.value(row)

    def logged(self, entry: Entry, can_mend: bool) -> bytes | None:
        """A value of which the place on disk holds something else: as the log has it. That mends the place."""
        value = self._in_log(entry.dot)
        if value is None or value_hash(value) != entry.value_hash:
            return None
        if can_mend:
            self.mend(entry, value)
        self._space.alarms.journal("value_mended", space=self._space.name, key=entry.key)
        return value

    def mend(self, entry: Entry, value: bytes) -> None:
        """Write a value to its place."""
        self._space.ledger.batch.mended_values.append(MendedValue(entry.row, value))

    def tell(self, entry: Entry) -> None:
        """This node has the value no more."""
        space = self._space
        space.alarms.journal("value_damaged", space=space.name, key=entry.key, agent=entry.agent)
        message = (
            f"space {space.name}: the disk has spoilt the value of {subject_of(entry.key)!r} that {entry.agent} wrote "
            f"on {space.node_of(entry.writer)}, and this node's log does not have it"
        )
        space.alarms.raise_once(VALUE_DAMAGED, space.name, message, (entry.key,))

    def _in_log(self, dot: Dot) -> bytes | None:
        body = self._space.storage.change_body(self._space.id, dot.writer, dot.seq)
        try:
            return None if body is None else self._codec.decode(body).ops[dot.n].value
        except (InvalidEncoding, LookupError):
            return None
