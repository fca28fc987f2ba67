"""Cuts: what a space held at a point of its past.

Ann sets ``k`` to 1 and Bob, who has read that, to 2. The *cut* of Ann's write holds 1: it covers her change, and not
his. In general a cut is a version vector, and an entry is in it if the vector covers the entry's dot and none of the
operations that removed it. There may be several of these: Ann and Bob may both remove an entry, neither knowing of the
other. A replica marks the entry as dead at the first removal that it applies. So the mark alone does not say whether
the entry is in a cut: a removal that came later may be in the cut where the first is not.

The log makes this quick. A replica has applied all changes up to ``after`` that are in the cut, and none behind ``to``.
An entry that was dead at ``after`` is dead in the cut, so it is passed over. A second removal matters only if it stands
between the two: these are few, unless hosts have been apart.

Which vector is meant:

- of a token, all changes that it names with all that their authors had seen: the log tells. The node's own changes came
  after all that stands before them in the log, so no search is needed;
- of a time, what this node had applied by then;
- of a checkpoint, what its record says (:mod:`crdtsync.core.history.checkpoints`).

All of it is exact or refused: history has a floor, and no cut that does not cover the floor can be told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.causality import VersionVector, Writer, covers, hlc_ms, merge
from crdtsync.errors import TooOld
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.patterns import check_pattern

if TYPE_CHECKING:
    from crdtsync.core.history.checkpoints import Checkpoint, Kept
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.storage.rows import LogRow
    from crdtsync.wire.change import Change

LOG_SLICE_ROWS = 500
"""Changes of the log that are looked at in one turn."""
DATED_MAX = 16
"""So many of the newest changes that a token names say when it was."""


class Cut(NamedTuple):
    """A cut of one replica, closed under causality.

    ``time_ms`` is when it was, for values with a time to live. In this node's log all changes up to ``after`` are in
    it, and none behind ``to``.
    """

    vector: VersionVector
    time_ms: int
    after: int
    to: int
    kept: Kept | None = None
    """How this node keeps the checkpoint that it is of."""

    @property
    def recalled(self) -> int:
        """Under which number stands what was recalled of it; 0: nothing was."""
        return 0 if self.kept is None else self.kept.number

    @property
    def is_prefix(self) -> bool:
        """Whether it is what this node had applied at some moment."""
        return self.to <= self.after

    def has(self, writer: Writer, seq: int) -> bool:
        """Whether a change is in it."""
        return seq <= self.vector.get(writer, 0)


def is_told(replica: Replica, cut: Cut, key: str | None = None, prefix: str = "") -> bool:
    """Whether history still tells a cut, of ``key`` or of all keys that begin with ``prefix``."""
    if cut.kept is None and not covers(cut.vector, replica.past.floor):
        return False
    untold = map(check_pattern, () if cut.kept is None else cut.kept.untold)
    if any(pattern.meets(prefix) if key is None else pattern.matches(key) for pattern in untold):
        return False
    return all(covers(cut.vector, floor.vector) for floor in replica.past.floors_of_patterns(key, prefix))


def untold_of(replica: Replica, cut: Cut) -> set[str]:
    """The patterns of keys of which history no longer tells a cut."""
    floors = replica.past.floors_of_patterns()
    untold = {floor.pattern.text for floor in floors if not covers(cut.vector, floor.vector)}
    return untold if cut.kept is None else untold | {*cut.kept.untold}


def check_told(replica: Replica, cut: Cut, key: str | None = None, prefix: str = "") -> None:
    """Refuse a cut that history no longer tells, as :func:`is_told` says.

    :raises TooOld: it lies below a floor.
    """
    if is_told(replica, cut, key, prefix):
        return
    if cut.kept is None and not covers(cut.vector, replica.past.floor):
        raise too_old(replica, "this point")
    whose, how = ("this key", "") if key is not None else ("some of these keys", ", or a prefix beside them")
    raise TooOld(
        f"space {replica.name}: of {whose} less is kept than that, by a purge or a schema: take a later point{how}",
        since=max((since_ms for _, since_ms in replica.past.floors(key, prefix)), default=0),
    )


def too_old(replica: Replica, what: str) -> TooOld:
    """The refusal, which says how far back history reaches here."""
    return TooOld(
        f"space {replica.name}: {what} lies before the history that this node keeps: take a later point, or ask on a "
        "node that keeps more",
        since=replica.past.since_ms,
    )


def cut_of(replica: Replica, vector: VersionVector, time_ms: int) -> Cut:
    """Where a vector that is closed stands in this node's log; all of it must be on disk."""
    storage, space, trimmed = replica.storage, replica.id, replica.trimmed_position
    if covers(vector, replica.floor):
        after = storage.position_missing(space, vector, replica.durable_vector())
    else:
        after = replica.checkpoints.position_of(vector)
    places = [storage.change_position(space, writer, seq) for writer, seq in vector.items()]
    return Cut(vector, time_ms, after, max([after, trimmed, *places]))


def cut_of_checkpoint(replica: Replica, record: Checkpoint, *, is_trial: bool = False) -> Cut:
    """The cut of a checkpoint; all of it must be on disk. ``is_trial``: as if all of it had been recalled."""
    kept = replica.checkpoints.kept(record)
    if kept is None or not (kept.is_whole or is_trial):
        return cut_of(replica, record.vector, record.time_ms)
    if kept.number:
        return Cut(record.vector, record.time_ms, kept.position, kept.position, kept)
    return cut_of(replica, record.vector, record.time_ms)._replace(kept=kept)


def cut_at_time(replica: Replica, time_ms: int) -> Cut:
    """The changes that this node had applied at a time.

    :raises TooOld: nobody knows any more.
    """
    storage, space = replica.storage, replica.id
    position = storage.position_at(space, time_ms)
    is_trimmed = bool(replica.floor)
    if time_ms < replica.past.since_ms or (is_trimmed and position <= replica.trimmed_position):
        raise too_old(replica, "this time")
    vector = storage.vector_at(space, position, replica.durable_vector(), replica.floor)
    return Cut(vector, time_ms, position, position)


class Closing:
    """Finds the cut that a token names: a slice of the log at a time, from its newest change backwards."""

    def __init__(self, replica: Replica, named: VersionVector) -> None:
        self._replica = replica
        self._named = named
        self._vector = dict(named)
        self._position: int | None = None
        self._time_ms = 0

    def advance(self) -> Cut | None:
        """Look at a slice; the cut, once it is known.

        :raises TooOld: the log no longer tells what the authors had seen.
        """
        replica, vector = self._replica, self._vector
        if self._position is None:
            self._position = self._begin()
        position, storage = self._position, replica.storage
        if self._is_closed(position):
            return self._end()
        rows = storage.changes_before(replica.id, position, LOG_SLICE_ROWS)
        for row in rows:
            if row.seq <= vector.get(row.writer, 0):
                merge(vector, self._seen_by(row))
        if not rows:
            return self._end()
        self._position = rows[-1].position
        return None

    def _begin(self) -> int:
        """Take in what this node had when it made those changes itself; returns behind which position to begin."""
        replica, storage = self._replica, self._replica.storage
        placed = sorted(
            (position, writer, seq)
            for writer, seq in self._named.items()
            if (position := storage.change_position(replica.id, writer, seq))
        )
        for _, writer, seq in placed[-DATED_MAX:]:
            row = storage.change(replica.id, writer, seq)
            if row is not None:
                self._time_ms = max(self._time_ms, hlc_ms(self._change(row).hlc))
        # not those of a writer that this node had once: they may have come back from others
        own = [position for position, writer, _ in placed if writer == replica.writer]
        if own:
            merge(self._vector, storage.vector_at(replica.id, own[-1], replica.durable_vector(), replica.floor))
        return placed[-1][0] + 1 if placed else 0

    def _is_closed(self, position: int) -> bool:
        """Whether all that stands before a position is in the vector: then so is what anybody had seen of it."""
        replica = self._replica
        if not covers(self._vector, replica.floor):
            return False
        heads = replica.durable_vector()
        return replica.storage.position_missing(replica.id, self._vector, heads) >= position - 1

    def _seen_by(self, row: LogRow) -> VersionVector:
        return {dep.writer: dep.seq for dep in self._change(row).deps}

    def _change(self, row: LogRow) -> Change:
        change = self._replica.spoilt.change_of(row)
        if change is None:  # what its author had seen is known no more
            raise too_old(self._replica, "this token")
        return change

    def _end(self) -> Cut:
        replica = self._replica
        if not covers(self._vector, replica.floor):
            raise too_old(replica, "this token")
        return cut_of(replica, self._vector, self._time_ms)
