"""One replica of one space: applies changes in causal order, makes new ones, and says what must be written to disk.

Whatever a change does here, it does on every replica: nothing is refused on arrival that its author could commit.
What is early waits at the causal gate, what is repeated is dropped, what contradicts the chain of hashes is a fork.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from crdtsync.causality import WRITER_MAX, Dot, Frontier, HybridClock, VersionVector, Writer
from crdtsync.core.alarms import Alarms
from crdtsync.core.documents import Documents, check_marker
from crdtsync.core.entries import Entries, Entry
from crdtsync.core.gate import CausalGate, blocker
from crdtsync.core.storage import (
    Batch,
    ChangeRow,
    DocumentStateRow,
    DocumentUpdateRow,
    EntryRow,
    RemovalRow,
    SpaceRow,
    Storage,
)
from crdtsync.errors import CrdtSyncError, ForkDetected, InvalidEncoding
from crdtsync.wire.change import NO_HASH, SHORT_HASH_BYTES, Change, Codec, Dep, Kind, Op, flat_removes
from crdtsync.wire.codec import pack, unpack

if TYPE_CHECKING:
    from random import Random

RECENT_HASHES_MAX = 4096
"""How many hashes of changes below the heads are kept in memory to check the deps of arriving changes."""


class Effect(NamedTuple):
    """What one operation did: the entry that it added, if any, and those that it removed."""

    op: Op
    added: Entry | None
    removed: list[Entry]


class Applied(NamedTuple):
    """A change that has been applied in memory, at ``position`` of the log. It is on disk after the next commit."""

    space: str
    change: Change
    position: int
    own: bool
    effects: list[Effect]


class Ledger:
    """Shared by all spaces of a node.

    The last log position and entry row in use, and the rows that the next commit must write.
    """

    def __init__(self, position: int, row: int) -> None:
        self.position = position
        self.row = row
        self.batch = Batch()

    def take(self) -> Batch:
        """The rows collected since the last call."""
        batch, self.batch = self.batch, Batch()
        return batch


class Replica:
    """The state of one space in memory. What must be written to disk goes to ``ledger``."""

    def __init__(
        self,
        row: SpaceRow,
        codec: Codec,
        storage: Storage,
        ledger: Ledger,
        random: Random,
        node: tuple[str, str],
        alarms: Alarms,
    ) -> None:
        self.id = row.id
        self.name = row.name
        self.epoch = row.epoch
        self.codec = codec
        self.writer = row.own_writer
        self.vector: VersionVector = {}
        self.hashes: dict[Writer, bytes] = {}
        self.entries = Entries()
        self.gate = CausalGate()
        self.clock = HybridClock()
        self.alarms = alarms
        self.documents = Documents(lambda dot: storage.document(row.id, dot))
        self.position = row.position
        self.floor = row.floor
        self.origins: dict[Writer, tuple[str, str]] = {}
        self._node = node
        self._storage = storage
        self._ledger = ledger
        self._random = random
        self._since_own: set[Writer] = set()
        self._recent: dict[tuple[Writer, int], bytes] = {}
        self._load(row)

    def _load(self, row: SpaceRow) -> None:
        for writer, seq, change_hash in self._storage.heads(self.id):
            self.vector[writer] = seq
            self.hashes[writer] = change_hash
        self.origins = {writer: (node, name) for writer, node, name in self._storage.origins(self.id)}
        for entry in self._storage.entries(self.id):
            self.entries.add(entry)
        self.clock.last = row.hlc  # not the entries': a clock from far ahead is applied and not taken over
        if self.writer is None:
            self._since_own = set(self.vector)
        else:
            self._since_own = {w for w, _ in self._storage.heads_after(self.id, row.own_position) if w != self.writer}

    @property
    def frontier(self) -> Frontier:
        """Every head with its short hash."""
        return {writer: (seq, self.hashes[writer][:SHORT_HASH_BYTES]) for writer, seq in self.vector.items()}

    def durable_vector(self) -> VersionVector:
        """The version vector of what is on disk: all but the changes that wait for the next commit."""
        vector = dict(self.vector)
        for row in reversed(self._ledger.batch.changes):
            if row.space == self.id:
                vector[Writer(row.writer)] = row.seq - 1
        return vector

    def node_of(self, writer: Writer) -> str:
        """The name of a writer's node."""
        origin = self.origins.get(writer)
        return origin[1] if origin else f"writer-{writer}"

    # -- own changes -----------------------------------------------------------------------------------

    def next_dot(self) -> tuple[Writer, int]:
        """Writer and number of the next own change."""
        if self.writer is None:
            writer = Writer(self._random.randint(1, WRITER_MAX))
            while writer in self.vector:
                writer = Writer(self._random.randint(1, WRITER_MAX))
            self.writer = writer
            self._ledger.batch.writers.append((self.id, writer))
        return self.writer, self.vector.get(self.writer, 0) + 1

    def commit(self, ops: Sequence[Op], agent: str, idempotency: bytes | None, now_ms: int) -> Applied:
        """Make a change of ``ops`` and apply it. It may leave this node after the next commit to disk, not before.

        :raises TooLarge: nothing was done.
        :raises InvalidValue: a text edit was not acceptable to the Yjs library; nothing was done.
        """
        writer, seq = self.next_dot()
        deps = tuple(Dep(w, self.vector[w], self.hashes[w][:SHORT_HASH_BYTES]) for w in sorted(self._since_own))
        prev_hash = self.hashes.get(writer, NO_HASH)
        hlc = self.clock.tick(now_ms)
        origin = self._node if seq == 1 else None
        change = self.codec.encode(Change(writer, seq, deps, prev_hash, hlc, agent, idempotency, tuple(ops), origin))
        self._try_texts(change)
        applied = self._apply(change, own=True)
        self._since_own.clear()
        return applied

    def _try_texts(self, change: Change) -> None:
        """Apply the text edits of an own change to their documents, or to none.

        What fails here must never be committed.
        """
        done: list[Dot] = []
        for n, op in enumerate(change.ops):
            if op.kind != Kind.TEXT or op.value is None:
                continue
            named, update = check_marker(unpack(op.value))
            document = named or Dot(change.writer, change.seq, n)
            try:
                self.documents.apply(document, update)
            except CrdtSyncError:
                for dot in done:
                    self.documents.undo(dot)
                raise
            done.append(document)

    # -- changes of others -------------------------------------------------------------------------------

    def receive(self, change: Change, now_ms: int) -> tuple[list[Applied], bool]:
        """Take in a change from a peer. Returns what could be applied now, and False if there was no room to keep
        it waiting.

        :raises ForkDetected: it contradicts a change that this replica holds; nothing was done.
        """
        applied: list[Applied] = []
        todo = [change]
        kept = True
        while todo:
            candidate = todo.pop()
            try:
                if self._is_repeat(candidate):
                    continue
                waits_for = blocker(candidate, self.vector)
                if waits_for is not None:
                    kept = self.gate.hold(candidate, waits_for) and kept
                    continue
                self._check_chain(candidate)
            except ForkDetected:
                if candidate is change:
                    raise
                kept = False  # somebody else sent it ahead, and it was wrong: the right one must be asked for
                continue
            if not self.clock.witness(candidate.hlc, now_ms):
                self.alarms.raise_once(
                    "clock_ahead",
                    self.name,
                    f"space {self.name}: the clock of {self.node_of(candidate.writer)} is over 24 h ahead of "
                    "this node's; check the clocks of both",
                )
            applied.append(self._apply(candidate, own=False))
            todo.extend(reversed(self.gate.release(candidate.writer, candidate.seq)))
        return applied, kept

    def _is_repeat(self, change: Change) -> bool:
        if change.seq > self.vector.get(change.writer, 0):
            return False
        self.check_head(change.writer, change.seq, change.short_hash)
        return True

    def _check_chain(self, change: Change) -> None:
        if change.prev_hash != self.hashes.get(change.writer, NO_HASH):
            raise self._fork(change.writer, change.seq)
        for dep in change.deps:
            self.check_head(dep.writer, dep.seq, dep.short_hash)

    def check_head(self, writer: Writer, seq: int, short_hash: bytes, stored: bool = False) -> None:
        """Compare a change that somebody names with the one that is held under that number, if it is.

        Looks at heads and recent changes, and in the database too if ``stored``.

        :raises ForkDetected: they differ.
        """
        held = self.vector.get(writer, 0)
        if seq > held or seq == 0:
            return
        known = self.hashes[writer][:SHORT_HASH_BYTES] if seq == held else self._recent.get((writer, seq))
        if known is None and stored:
            known = (self._storage.change_hash(self.id, writer, seq) or b"")[:SHORT_HASH_BYTES] or None
        if known is not None and known != short_hash:
            raise self._fork(writer, seq)

    def _fork(self, writer: Writer, seq: int) -> ForkDetected:
        return ForkDetected(
            f"space {self.name}: two different changes are both number {seq} of writer {writer}: "
            "some node went on writing after its disk had gone back; syncing this space with that peer has stopped"
        )

    # -- both ----------------------------------------------------------------------------------------------

    def _apply(self, change: Change, own: bool) -> Applied:
        ledger = self._ledger
        ledger.position += 1
        position = self.position = ledger.position
        self.vector[change.writer] = change.seq
        self.hashes[change.writer] = change.hash
        self._remember_hash(change)
        if change.origin is not None and change.seq == 1:
            self.origins[change.writer] = change.origin
            ledger.batch.origins.append((self.id, change.writer, *change.origin))
        if not own:
            self._since_own.add(change.writer)
        ledger.batch.own_changes += own
        ledger.batch.changes.append(ChangeRow(position, self.id, change.writer, change.seq, change.hash, change.body))
        effects = [self._apply_op(change, n, op, position) for n, op in enumerate(change.ops)]
        return Applied(self.name, change, position, own, effects)

    def _remember_hash(self, change: Change) -> None:
        self._recent[change.writer, change.seq] = change.short_hash
        if len(self._recent) > RECENT_HASHES_MAX:
            del self._recent[next(iter(self._recent))]

    def _apply_op(self, change: Change, n: int, op: Op, position: int) -> Effect:
        removed: list[Entry] = []
        if op.removes:
            removed = self.entries.remove(op.key, op.removes)
            self._ledger.batch.removed_rows.extend([(entry.row, self.id, len(entry.value or b"")) for entry in removed])
            removes = pack(flat_removes(op.removes))
            self._ledger.batch.removals.append(RemovalRow(self.id, op.key, change.writer, change.seq, n, removes))
        if op.value_hash is None:
            return Effect(op, None, removed)
        dot = Dot(change.writer, change.seq, n)
        value = op.value
        if op.kind == Kind.TEXT:
            value = self._apply_text(dot, value, position, change)
        entry = self._add_entry(dot, op, value, change)
        return Effect(op, entry, removed)

    def _add_entry(self, dot: Dot, op: Op, value: bytes | None, change: Change) -> Entry:
        assert op.value_hash is not None
        self._ledger.row += 1
        row = self._ledger.row
        entry = Entry(row, dot, op.key, op.sub, int(op.kind), change.hlc, change.agent, value, op.value_hash, op.attrs)
        self.entries.add(entry)
        attrs = None if op.attrs is None else pack(op.attrs)
        self._ledger.batch.entries.append(
            EntryRow(
                row, self.id, *dot, op.key, op.sub, int(op.kind), change.hlc, change.agent, value, op.value_hash, attrs
            )
        )
        return entry

    def _apply_text(self, dot: Dot, value: bytes | None, position: int, change: Change) -> bytes:
        """Apply a text edit to its document; what is stored as the entry's value is the document's name alone."""
        try:
            named, update = check_marker(unpack(value or b""))
        except InvalidEncoding:
            return pack(list(dot))  # purged, or from a careless author: there is nothing to apply
        document = named or dot
        try:
            if change.writer != self.writer:  # own edits have been tried before
                self.documents.apply(document, update)
        except CrdtSyncError as error:
            self.alarms.raise_once(
                "edit_skipped", self.name, f"space {self.name}: skipped an edit of a text, dot {dot}: {error.message}"
            )
        else:
            row = DocumentUpdateRow(self.id, *document, position, *dot, change.agent, update)
            self._ledger.batch.document_updates.append(row)
        return pack(list(document))

    def prepare_commit(self) -> None:
        """Add what a commit must write beside the changes themselves."""
        self._ledger.batch.clocks.append((self.clock.last, self.id))
        for document in self.documents.states_due():
            row = DocumentStateRow(self.id, *document.dot, self.position, document.state())
            self._ledger.batch.document_states.append(row)

    def committed(self) -> None:
        """All that was applied is on disk."""
        self.documents.committed()
