"""What the core asks of the disk. It reads through :class:`Storage` and never writes: it hands a :class:`Batch` to
its caller.

As in etcd's raft library, the reads are answered at once, from what has been committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol

from crdtsync.causality import Dot, VersionVector, Writer, flatten
from crdtsync.core.crdt.entries import Entry, OnDisk
from crdtsync.wire.change import Order
from crdtsync.wire.codec import pack


class SpaceRow(NamedTuple):
    """What is known of a space at start.

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
    """One change in a replica's log: ``position`` counts up in the order of application, across all spaces."""

    position: int
    writer: Writer
    seq: int
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
    """Drop a document's edits up to position ``updates_to``, and its stored states before ``states_before``."""

    space: int
    writer: int
    seq: int
    n: int
    updates_to: int
    states_before: int


class DocumentDrop(NamedTuple):
    """Drop all that is stored of a document."""

    space: int
    writer: int
    seq: int
    n: int


class Rewind(NamedTuple):
    """Take back changes: of each writer in ``firsts`` those from a number on, which stand at these ``positions`` of the
    log. What they wrote goes, and what they removed lives again.
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
    """The change at a position of the log has this body from now on, which lacks values that are purged."""

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
    """What the oldest rows of the log weigh."""

    position: int
    writer: Writer
    seq: int
    size_bytes: int
    time_ms: int


class OldDead(NamedTuple):
    """What the oldest dead entries weigh; ``position`` is that of the change that removed them."""

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
    """What the oldest removals weigh, and the change that made them."""

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


class DeadPlace(NamedTuple):
    """A place among the dead entries of a space, by key and time of writing; ``hlc`` as rows have it."""

    key: str
    hlc: bytes
    id: int


class ScannedRow(NamedTuple):
    """What of a dead entry says whether it is wanted. ``is_edit``: of a text; only then are those after it given."""

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
    """What is kept of a space that was dropped: number, name and epoch, when, how much; ``unseen`` counts the changes
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
    """What a client's write ``number`` was answered; ``slot`` is the number modulo the window."""

    client: bytes
    slot: int
    number: int
    time_ms: int
    reply: bytes


FORGOTTEN_MS = -1
"""Of a node that is known no longer."""


class PeerRow(NamedTuple):
    """A node that has been met; ``last_seen_ms`` below 0: it is to be forgotten."""

    node: str
    name: str
    last_seen_ms: int


class MendedValue(NamedTuple):
    """A long value of a row, which has to be written to its place once more."""

    row: int
    value: bytes


class Batch:
    """Everything that one commit must make durable, as rows by table."""

    __slots__ = (
        "adoptions", "archive_purges", "archives", "changes", "clocks", "document_drops", "document_states",
        "document_trims", "document_updates", "entries", "floors", "heads", "history_drops", "history_floors",
        "history_trims", "log_trims", "mended_values", "metas", "origins", "outcomes", "own_changes", "peers",
        "redactions", "removals", "removed_rows", "reply_redactions", "retired_writers", "rewinds", "scrubs",
        "snapshot_drops", "snapshot_parts", "spaces", "staged_drops", "writers",
    )  # fmt: skip

    def __init__(self) -> None:
        self.archives: list[ArchiveRow] = []  # spaces that are spaces no longer
        self.archive_purges: list[ArchivePurge] = []
        self.spaces: list[tuple[int, str, int]] = []
        self.writers: list[tuple[int, int]] = []
        self.retired_writers: list[tuple[int, int]] = []
        self.rewinds: list[Rewind] = []
        self.clocks: list[tuple[int, int]] = []
        self.changes: list[ChangeRow] = []
        self.heads: list[HeadRow] = []
        self.entries: list[EntryRow] = []
        self.removed_rows: list[RemovedRow] = []
        self.removals: list[RemovalRow] = []
        self.document_updates: list[DocumentUpdateRow] = []
        self.document_states: list[DocumentStateRow] = []
        self.document_trims: list[DocumentTrim] = []
        self.document_drops: list[DocumentDrop] = []
        self.origins: list[tuple[int, int, str, str]] = []
        self.floors: list[tuple[bytes, int]] = []  # a packed vector, of a space
        self.history_floors: list[tuple[bytes, int, int]] = []  # likewise; and since when history tells all
        self.log_trims: list[LogTrim] = []
        self.history_trims: list[HistoryTrim] = []
        self.history_drops: list[HistoryDrop] = []
        self.redactions: list[Redaction] = []
        self.reply_redactions: list[tuple[int, bytes]] = []  # replies kept for retries: by number, without a value
        self.scrubs: list[int] = []  # spaces of which something was purged: the files are to tell nothing of it
        self.snapshot_parts: list[SnapshotPartRow] = []
        self.snapshot_drops: list[
            int
        ] = []  # spaces whose parts go, and all entries that came with them and stay staged
        self.staged_drops: list[int] = []  # rows of staged entries that are not to become live
        self.adoptions: list[Adoption] = []
        self.outcomes: list[OutcomeRow] = []
        self.peers: list[PeerRow] = []
        self.mended_values: list[MendedValue] = []
        self.metas: list[tuple[str, bytes | None]] = []  # what the node keeps for itself, by name; None: no longer
        self.own_changes = 0

    def first_position(self) -> int:
        """The log position of the first change that it writes, or of what first removed something; 0: neither."""
        positions = [rows[0].position for rows in (self.changes, self.removed_rows) if rows]
        return min(positions, default=0)

    @property
    def is_purge(self) -> bool:
        """Whether what it deletes must not be found in what the files have left of it."""
        is_purge = any(drop.is_purge for drop in self.history_drops)
        return is_purge or bool(self.redactions or self.reply_redactions or self.scrubs)

    def entry_rows(self) -> int:
        """How many rows there are of entries, of marks on them, and of who removed them."""
        return len(self.entries) + len(self.removed_rows) + len(self.removals)

    def __bool__(self) -> bool:
        return bool(self.changes) or any(_reasons(self))


_reasons = attrgetter(*(name for name in Batch.__slots__ if name not in ("clocks", "own_changes")))
NOTHING = Batch()
"""For a turn that writes nothing, as most do that only read. Nobody adds to it."""


def pack_vector(vector: VersionVector) -> bytes:
    """A vector as rows hold it."""
    return pack(flatten(vector))


def taken_away_name(space: int, position: int | None) -> str:
    """Under which name a node keeps that something was taken away at this place of the log; None: how all begin."""
    return f"taken_away/{space}/{'' if position is None else f'{position:020}'}"


def history_floor_name(space: int, pattern: str) -> str:
    """Under which name a node keeps where the history of a pattern's keys begins, if that is later than of others."""
    return f"history_floor/{space}/{pattern}"


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


class Storage(Protocol):
    """Reads of committed state."""

    def spaces(self) -> list[SpaceRow]:
        """Every space on this node."""

    def position_last(self) -> int:
        """The highest log position ever used."""

    def archives(self) -> list[ArchiveRow]:
        """Every space that was dropped and of which something is still stored."""

    def has_archived_log(self, space: int) -> bool:
        """Whether log or history are still stored of one of them."""

    def heads(self, space: int) -> Iterable[tuple[Writer, int, bytes]]:
        """For each writer: its highest change applied here, with that change's hash."""

    def origins(self, space: int) -> Iterable[tuple[Writer, str, str]]:
        """For each writer whose first change was applied here: id and name of its node."""

    def heads_after(self, space: int, position: int) -> Iterable[tuple[Writer, int]]:
        """Writers that have changes after ``position`` in the log, with their highest."""

    def entries(
        self, space: int, stand_in: Callable[[int], OnDisk] | None = None, rows: Sequence[int] | None = None
    ) -> Iterable[Entry]:
        """All live entries, or those in these rows. For a long value stands what ``stand_in`` gives for its length;
        without it, it is read.
        """

    def live_rows(self, space: int) -> list[int]:
        """The rows of all live entries."""

    def value(self, row: int) -> bytes | None:
        """The long value of a row, alive or dead; empty where it should be there and cannot be read. None: there is no
        such row, or its value was purged.
        """

    def values(self, rows: list[int]) -> Iterable[tuple[int, bytes]]:
        """Of these rows those whose long value is in its place, each with it: quicker than one by one."""

    def change_body(self, space: int, writer: int, seq: int) -> bytes | None:
        """One change, if the log still holds it."""

    def row_last(self) -> int:
        """The highest entry row ever used."""

    def log(self, space: int, after: int, bytes_max: int, rows_max: int) -> list[LogRow]:
        """Changes after position ``after``, in order: at least one if there is any, about ``bytes_max`` at most."""

    def change_hash(self, space: int, writer: int, seq: int) -> bytes | None:
        """Hash of one change, if it is still known: whole while the log holds the change, later its first 8 bytes."""

    def position_missing(self, space: int, vector: VersionVector, heads: VersionVector) -> int:
        """The position just before the first change that ``vector`` does not include."""

    def document(self, space: int, document: Dot) -> tuple[bytes | None, list[bytes]]:
        """The stored state of a document, if any, and the edits after it."""

    def document_as_of(self, space: int, document: Dot, position: int) -> tuple[bytes | None, list[bytes]]:
        """The same as it stood after the change at ``position`` of the log, which must be pinned or not yet trimmed."""

    def document_exists(self, space: int, document: Dot) -> bool:
        """Whether anything is stored of a document."""

    def documents(self, space: int) -> list[Dot]:
        """Every document of which something is stored."""

    def document_updates(self, space: int, document: Dot, after: int, rows_max: int) -> list[DocumentUpdate]:
        """Edits of a document after a log position."""

    def snapshot_parts(self, space: int) -> Iterable[SnapshotPartRow]:
        """The parts of a snapshot that have been taken so far, in order."""

    def staged_rows(self, space: int) -> Iterable[tuple[int, Dot]]:
        """The rows of entries that came with those parts and are not live yet."""

    # -- for retention: what is oldest -------------------------------------------------------------------------

    def oldest_changes(self, space: int, rows_max: int) -> list[OldChange]:
        """The oldest changes in the log."""

    def oldest_change(self, space: int) -> OldChange | None:
        """The oldest in the log of a space that is small, however much others hold; None: there is none."""

    def oldest_dead(self, space: int, rows_max: int) -> list[OldDead]:
        """The dead entries that were removed first."""

    def dead_after(self, space: int, position: int, row: int, rows_max: int) -> list[DeadOfKey]:
        """Dead entries in the order of death, from after a place on: the log position and the row of one of them."""

    def oldest_removals(self, space: int, rows_max: int) -> list[OldRemoval]:
        """The oldest removals."""

    def document_spans(self, space: int, after: Dot | None, rows_max: int) -> list[DocumentSpan]:
        """Documents in order of their names, from after one of them on."""

    # -- for history -------------------------------------------------------------------------------------------

    def seen(self, row: int) -> bytes | None:
        """What the operation that wrote a live entry took the place of, as its row has it."""

    def dead(self, space: int, key: str, before: Order | None, *, is_lost: bool, rows_max: int) -> list[PastRow]:
        """The newest dead entries of a key, in order: of those before a place, if one is given; or only the lost.

        Fewer than ``rows_max`` where they are large; none: there are no more.
        """

    def dead_part(self, space: int, key: str, sub: str) -> PastRow | None:
        """The newest dead entry of a key with this ``sub``, with its value, if there is one."""

    def dead_under(self, space: int, prefix: str, position: int | None, rows_max: int) -> list[int]:
        """The rows of dead entries of keys that begin so: of those that died at this position or before."""

    def dead_by_id(self, ids: list[int], bytes_max: int) -> list[PastRow]:
        """Dead entries by the numbers of their rows, as far as they are still there, in this order. Once they have so
        many bytes of values, nil stands for each long one of the rest.
        """

    @property
    def has_backlog(self) -> bool:
        """Whether marks of what was removed are still on their way to their rows: those of a large commit take a
        while. Until then what reads dead entries does not find all of them.
        """

    @property
    def backlog_position(self) -> int | None:
        """The log position of the oldest change of which marks may still be on their way; None: :attr:`has_backlog` is
        false.
        """

    @property
    def has_old_rows(self) -> bool:
        """Whether dead entries of an older format are still on their way to the others."""

    def scan_dead(self, space: int, after: DeadPlace, *, is_lost: bool, rows_max: int) -> list[ScannedRow]:
        """Dead entries of all keys after a place, by key and time of writing; or only the lost."""

    # -- for older cuts ----------------------------------------------------------------------------------------

    def dead_marks(
        self, space: int, after: DeadPlace, position: int, rows_max: int, key: str | None = None
    ) -> tuple[list[DeadMark], DeadPlace | None]:
        """Those that died behind a position, of so many dead entries after a place, by key and time of writing; of all
        keys, or of one. And where the last of these stands, if there may be more.
        """

    def has_removals(self, position: int) -> bool:
        """Whether the change at a position is known to have removed something."""

    def removals(self, after: tuple[int, int], to: int, rows_max: int) -> list[PastRemoval]:
        """Removals of all spaces after a position and the number of an operation, up to a position, in this order."""

    def change(self, space: int, writer: int, seq: int) -> LogRow | None:
        """One change, if the log holds it."""

    def change_position(self, space: int, writer: int, seq: int) -> int:
        """Its position; 0 if the log does not hold it."""

    def changes_before(self, space: int, position: int, rows_max: int) -> list[LogRow]:
        """The changes before a position, the newest first."""

    def position_at(self, space: int, time_ms: int) -> int:
        """The position of the last change that was applied here by a time, of those in the log; 0: of none."""

    def vector_at(self, space: int, position: int, heads: VersionVector, floor: VersionVector) -> VersionVector:
        """What had been applied here up to a position that the log reaches back to."""

    def outcome(self, client: bytes, number: int) -> bytes | None:
        """The stored reply to a client's write."""

    def outcomes_after(self, number: int, rows_max: int) -> list[tuple[int, bytes]]:
        """The stored replies to writes after one of them, each with its number, in order."""

    def peers(self) -> list[PeerRow]:
        """Every node ever met."""

    def meta(self, name: str) -> bytes | None:
        """What the node keeps for itself under a name."""

    def metas(self, prefix: str) -> list[bytes]:
        """All that it keeps under names that begin so, in order of name."""

    def stats(self) -> dict[str, object]:
        """The ``store`` object of the status."""

    def log_stats(self, space: int) -> dict[str, int]:
        """``log_changes``, ``log_bytes``, ``history_bytes`` and ``document_bytes`` of a space."""

    def dead_row(self, space: int, key: str, dot: Dot) -> int | None:
        """The row of a dead entry, if it is still there."""

    def dead_value(self, space: int, key: str, dot: Dot) -> tuple[str | None, bytes | None] | None:
        """The ``sub`` and the value of a dead entry of a key; None: history has it no longer."""

    def is_removal_known(self, space: int, key: str, dot: Dot) -> bool:
        """Whether history knows that this entry was removed."""

    def all_log_stats(self) -> dict[int, dict[str, int]]:
        """The same of every space, by number."""
