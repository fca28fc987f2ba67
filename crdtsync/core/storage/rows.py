"""A class for each kind of row that the core hands to a disk or reads back; names of what a node keeps for itself.

For example, a change that adds a value is a ``ChangeRow`` for the log and an ``EntryRow`` for the live state.
"""

from __future__ import annotations

from collections.abc import Iterator

from crdtsync.causality import Dot, VersionVector, Writer, flatten
from crdtsync.core.crdt.entry import Entry
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.change import Order
from crdtsync.wire.codec import pack
from crdtsync.wire.tokens import encode_dot

LAST_POSITION = 2**62
"""Behind all positions of the log."""


class SpaceRow(NamedTuple):
    """The facts of a space at start.

    ``own_writer`` is None if no writer may be resumed; ``own_position`` and ``position`` are the log positions of
    its last change and of the last change of all; ``hlc`` is the highest hybrid time ever applied; ``floor`` is the
    vector below which the log no longer reaches, ``trimmed_position`` the position of the last change trimmed from
    it; ``history_floor`` is the vector below which history no longer tells an older cut, and ``history_since_ms`` the
    time since when it tells all.
    """

    id: int
    name: str
    epoch: int
    own_writer: Writer | None
    own_position: int
    position: int
    hlc: int
    floor: VersionVector
    trimmed_position: int
    history_floor: VersionVector
    history_since_ms: int = 0


class LogRow(NamedTuple):
    """One change in a replica's log: ``position`` counts up in the order of application, across all spaces.

    The ``hash`` is that of the change as it came: a disk may have spoilt the ``body`` since.
    """

    position: int
    writer: Writer
    seq: int
    hash: bytes
    body: bytes


class DocumentUpdate(NamedTuple):
    """One edit of a text or document, and the change that carried it."""

    position: int
    dot: Dot
    agent: str
    update: bytes


class ChangeRow(NamedTuple):
    """A row to append to the log."""

    position: int
    space: int
    writer: int
    seq: int
    hash: bytes
    body: bytes
    time_ms: int


class HeadRow(NamedTuple):
    """The highest change of a writer, where it did not come as a change: from a snapshot."""

    space: int
    writer: int
    seq: int
    hash: bytes
    position: int


class EntryRow(NamedTuple):
    """A row of live state. ``seen`` is what its operation took the place of, see :mod:`crdtsync.core.history.recorder`;
    None: not known.
    """

    row: int
    space: int
    writer: int
    seq: int
    n: int
    key: str
    sub: str | None
    kind: int
    hlc: int
    agent: str
    value: bytes | None
    value_hash: bytes
    attrs: bytes | None
    seen: bytes | None = None


class RemovedRow(NamedTuple):
    """A row of live state that is marked as dead, and the log position of the change that removed it.

    ``n`` is the number of the operation that did, and ``fate`` how it ended; None: not known here.
    """

    row: int
    position: int
    time_ms: int
    n: int | None = None
    fate: int | None = None


class RemovedRows(NamedTuple):
    """The same of many rows that one operation removed for one reason."""

    rows: tuple[int, ...]
    position: int
    time_ms: int
    n: int | None = None
    fate: int | None = None


class RemovalRow(NamedTuple):
    """That operation ``n`` of a change removed what ``removes`` (encoded) names from ``key``.

    ``hlc`` (8 bytes), ``agent`` and ``operation`` say who did what and when; None in rows of old databases.
    """

    space: int
    key: str
    writer: int
    seq: int
    n: int
    removes: bytes
    position: int
    time_ms: int
    hlc: bytes | None = None
    agent: str | None = None
    operation: str | None = None


class DocumentUpdateRow(NamedTuple):
    """An edit of the document named by the dot ``(writer, seq, n)``."""

    space: int
    writer: int
    seq: int
    n: int
    position: int
    by_writer: int
    by_seq: int
    by_n: int
    agent: str
    update: bytes


class DocumentStateRow(NamedTuple):
    """The whole document as of ``position``, to spare replaying all edits."""

    space: int
    writer: int
    seq: int
    n: int
    position: int
    state: bytes


class DocumentTrim(NamedTuple):
    """Drop a document's edits up to position ``updates_to``, and its stored states before ``states_before``, but not
    those up to ``states_after``.
    """

    space: int
    writer: int
    seq: int
    n: int
    updates_to: int
    states_before: int
    states_after: int = 0


class DocumentDrop(NamedTuple):
    """Drop all that is stored of a document."""

    space: int
    writer: int
    seq: int
    n: int


class Rewind(NamedTuple):
    """Take back changes: of each writer in ``firsts`` those from a number on, which stand at these ``positions`` of the
    log. Their entries go, and those that they removed live again.
    """

    space: int
    firsts: tuple[tuple[int, int], ...]
    positions: tuple[int, ...]


class LogTrim(NamedTuple):
    """Drop all changes up to ``position`` from the log of a space; short hashes of them are kept for a while."""

    space: int
    position: int
    time_ms: int


class HistoryTrim(NamedTuple):
    """Drop from history the dead entries up to ``dead_to``, a log position and a row (None: none of them), and the
    removals up to number ``removals_to``.
    """

    space: int
    dead_to: tuple[int, int] | None
    removals_to: int


class HistoryDrop(NamedTuple):
    """Drop from history these dead entries, by the numbers of their rows, and removals, each by the log position of its
    change and the number of its operation. ``is_purge``: without a trace.
    """

    space: int
    rows: tuple[int, ...]
    removals: tuple[tuple[int, int], ...]
    is_purge: bool = False


class Redaction(NamedTuple):
    """The change at a position of the log has this body from now on: without values that are purged, or mended."""

    space: int
    position: int
    body: bytes


class SnapshotPartRow(NamedTuple):
    """A part of a snapshot on its way from a peer."""

    space: int
    part: int
    snapshot: bytes
    data: bytes


class Adoption(NamedTuple):
    """Entries that came with the parts of a snapshot become live: those with rows from ``first`` to ``last``.

    Until then they are rows of no space: of the number ``-space``.
    """

    space: int
    first: int
    last: int


class OldChange(NamedTuple):
    """The weight of the oldest rows of the log."""

    position: int
    writer: Writer
    seq: int
    size_bytes: int
    time_ms: int


class OldDead(NamedTuple):
    """The weight of the oldest dead entries; ``position`` is that of the change that removed them."""

    id: int
    position: int
    size_bytes: int
    time_ms: int
    key: str = ""


class DeadOfKey(NamedTuple):
    """A dead entry in the order of death, and what removed it: operation ``n`` of a change; -1, 0 and 0, if that is not
    known.
    """

    position: int
    id: int
    key: str
    size_bytes: int
    time_ms: int
    n: int
    writer: Writer
    seq: int


class OldRemoval(NamedTuple):
    """The weight of the oldest removals, and the change that made them."""

    id: int
    position: int
    writer: Writer
    seq: int
    size_bytes: int
    time_ms: int


class Removal(NamedTuple):
    """The operation that removed an entry."""

    dot: Dot
    hlc: int
    agent: str
    operation: str


class PastRow(NamedTuple):
    """An entry as history tells of it, alive or not.

    ``seen`` is what its operation took the place of, encoded; None: not known. ``position`` is that of the change that
    removed it, 0 if none has; ``fate`` and ``removal`` are None too where they are not known.
    """

    entry: Entry
    seen: bytes | None
    position: int = 0
    fate: int | None = None
    removal: Removal | None = None


class PastRows(NamedTuple):
    """The same of many entries that one operation removed for one reason."""

    entries: list[Entry]
    position: int
    fate: int
    removal: Removal

    def each(self) -> Iterator[PastRow]:
        """One by one."""
        return (PastRow(entry, None, *self[1:]) for entry in self.entries)


class DeadPlace(NamedTuple):
    """A place among the dead entries of a space, by key and time of writing; ``hlc`` as rows have it."""

    key: str
    hlc: bytes
    id: int


class ScannedRow(NamedTuple):
    """The fields of a dead entry that say whether it is wanted. ``is_edit``: of a text; only then are those after it
    given.
    """

    id: int
    key: str
    order: Order
    is_edit: bool
    agent: str = ""
    fate: int | None = None
    value: bytes | None = None
    seen: bytes | None = None
    size_bytes: int = 0


class DeadMark(NamedTuple):
    """A dead entry as the reader of an older cut looks at it: the number of its row, its key and its dot."""

    id: int
    key: str
    writer: Writer
    seq: int
    n: int


class PastRemoval(NamedTuple):
    """Operation ``n`` of change ``seq`` of ``writer``: it removed from ``key`` what ``removes`` (encoded) names."""

    position: int
    n: int
    space: int
    key: str
    writer: Writer
    seq: int
    removes: bytes


class DocumentSpan(NamedTuple):
    """Where a document's rows stand in the log; None: it has none.

    ``states`` are the positions of its stored states, in order; ``last`` is that of its newest row of all.
    """

    dot: Dot
    first_update: int | None
    states: list[int]
    last: int


class ArchiveRow(NamedTuple):
    """The record of a space that was dropped: number, name and epoch, when, how much; ``unseen`` counts the changes
    that the node that dropped it had not seen.
    """

    space: int
    name: str
    epoch: int
    time_ms: int
    entries: int
    size_bytes: int
    unseen: int


class ArchivePurge(NamedTuple):
    """Drop up to ``rows_max`` rows of an archive: first those of its log and history, then the rest if ``is_whole``."""

    space: int
    rows_max: int
    is_whole: bool


class OutcomeRow(NamedTuple):
    """The reply to a client's write ``number``; ``slot`` is the number modulo the window."""

    client: bytes
    slot: int
    number: int
    time_ms: int
    reply: bytes


FORGOTTEN_MS = -1
"""Stands for a node that is known no longer."""


class PeerRow(NamedTuple):
    """A node that has been met; ``last_seen_ms`` below 0: it is to be forgotten."""

    node: str
    name: str
    last_seen_ms: int


class MendedValue(NamedTuple):
    """A long value of a row, which has to be written to its place once more."""

    row: int
    value: bytes


# -- names ------------------------------------------------------------------------------------------------------


def pack_vector(vector: VersionVector) -> bytes:
    """A vector as rows hold it."""
    return pack(flatten(vector))


def taken_away_name(space: int, position: int | None) -> str:
    """Under which name a node keeps that something was taken away at this place of the log; None: how all begin."""
    return f"taken_away/{space}/{'' if position is None else f'{position:020}'}"


def history_floor_name(space: int, pattern: str) -> str:
    """Under which name a node keeps where the history of a pattern's keys begins, if that is later than of others."""
    return f"history_floor/{space}/{pattern}"


def kept_name(space: int | None, dot: Dot | None) -> str:
    """Under which name a node keeps how it keeps a checkpoint; None: how all begin, of a space or of all."""
    return f"kept/{'' if space is None else f'{space}/'}{'' if dot is None else encode_dot(dot)}"


def moved_name(space: int, number: int | None) -> str:
    """Under which name a node keeps changes that are to be applied before all else; None: how all begin."""
    return f"moved/{space}/{'' if number is None else f'{number:06}'}"


VOTES_NAME = "votes/count"
"""How often this node has written something as a voter: it counts with its own changes."""


def new_names_name(space: int) -> str:
    """Under which name a node keeps which of its writers' numbers have new names."""
    return f"new_names/{space}"


def purge_done_name(space: int, pattern: str) -> str:
    """Under which name a node keeps that it has done its part of a purge."""
    return f"purged/{space}/{pattern}"
