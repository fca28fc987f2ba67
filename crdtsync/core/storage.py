"""What the core asks of the disk. It reads through :class:`Storage` and never writes: it hands a :class:`Batch` to
its caller.

As in etcd's raft library, the reads are answered at once, from what has been committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from crdtsync.causality import Dot, VersionVector, Writer
from crdtsync.core.entries import Entry


class SpaceRow(NamedTuple):
    """What is known of a space at start.

    ``own_writer`` is None if no writer may be resumed; ``own_position`` and ``position`` are the log positions of
    its last change and of the last change of all; ``hlc`` is the highest hybrid time ever applied; ``floor`` is the
    vector below which the log no longer reaches.
    """

    id: int
    name: str
    epoch: int
    own_writer: Writer | None
    own_position: int
    position: int
    hlc: int
    floor: VersionVector


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


class EntryRow(NamedTuple):
    """A row of live state."""

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


class RemovalRow(NamedTuple):
    """That operation ``n`` of a change removed what ``removes`` (encoded) names from ``key``."""

    space: int
    key: str
    writer: int
    seq: int
    n: int
    removes: bytes


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


class OutcomeRow(NamedTuple):
    """What a client's write ``number`` was answered; ``slot`` is the number modulo the window."""

    client: bytes
    slot: int
    number: int
    time_ms: int
    reply: bytes


class PeerRow(NamedTuple):
    """A node that has been met."""

    node: str
    name: str
    last_seen_ms: int


class Batch:
    """Everything that one commit must make durable, as rows by table."""

    # removed_rows: (row, space, bytes of its value)
    __slots__ = (
        "changes", "clocks", "document_states", "document_updates", "entries", "origins", "outcomes", "own_changes",
        "peers", "removals", "removed_rows", "spaces", "writers", )  # fmt: skip

    def __init__(self) -> None:
        self.spaces: list[tuple[int, str, int]] = []
        self.writers: list[tuple[int, int]] = []
        self.clocks: list[tuple[int, int]] = []
        self.changes: list[ChangeRow] = []
        self.entries: list[EntryRow] = []
        self.removed_rows: list[tuple[int, int, int]] = []
        self.removals: list[RemovalRow] = []
        self.document_updates: list[DocumentUpdateRow] = []
        self.document_states: list[DocumentStateRow] = []
        self.origins: list[tuple[int, int, str, str]] = []
        self.outcomes: list[OutcomeRow] = []
        self.peers: list[PeerRow] = []
        self.own_changes = 0

    def __bool__(self) -> bool:
        return bool(self.changes or self.outcomes or self.spaces or self.writers or self.peers or self.document_states)


class Storage(Protocol):
    """Reads of committed state."""

    def spaces(self) -> list[SpaceRow]:
        """Every space on this node."""

    def heads(self, space: int) -> Iterable[tuple[Writer, int, bytes]]:
        """For each writer: its highest change applied here, with that change's hash."""

    def origins(self, space: int) -> Iterable[tuple[Writer, str, str]]:
        """For each writer whose first change was applied here: id and name of its node."""

    def heads_after(self, space: int, position: int) -> Iterable[tuple[Writer, int]]:
        """Writers that have changes after ``position`` in the log, with their highest."""

    def entries(self, space: int) -> Iterable[Entry]:
        """All live entries."""

    def row_last(self) -> int:
        """The highest entry row ever used."""

    def log(self, space: int, after: int, bytes_max: int, rows_max: int) -> list[LogRow]:
        """Changes after position ``after``, in order: at least one if there is any, about ``bytes_max`` at most."""

    def change_hash(self, space: int, writer: int, seq: int) -> bytes | None:
        """Hash of one change, if it is still known."""

    def position_missing(self, space: int, vector: VersionVector, heads: VersionVector) -> int:
        """The position just before the first change that ``vector`` does not include."""

    def document(self, space: int, document: Dot) -> tuple[bytes | None, list[bytes]]:
        """The stored state of a document, if any, and the edits after it."""

    def document_updates(self, space: int, document: Dot, after: int, rows_max: int) -> list[DocumentUpdate]:
        """Edits of a document after a log position."""

    def outcome(self, client: bytes, number: int) -> bytes | None:
        """The stored reply to a client's write."""

    def peers(self) -> list[PeerRow]:
        """Every node ever met."""

    def stats(self) -> dict[str, object]:
        """The ``store`` object of the status."""

    def log_stats(self, space: int) -> dict[str, int]:
        """``log_changes``, ``log_bytes``, ``history_bytes`` and ``document_bytes`` of a space."""
