"""One replica of one space: applies changes in causal order, makes new ones, and says what must be written to disk.

Whatever a change does here, it does on every replica: nothing is refused on arrival that its author could commit.
What is early waits at the causal gate, what is repeated is dropped, what contradicts the chain of hashes is a fork.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, NamedTuple

from crdtsync.causality import WRITER_MAX, Dot, Frontier, HybridClock, VersionVector, Writer
from crdtsync.core.alarms import Alarms
from crdtsync.core.arrivals import Arrivals
from crdtsync.core.documents import NO_CHANGE, UNKNOWN_WRITER, Documents, check_marker
from crdtsync.core.entries import Entries, Entry
from crdtsync.core.gate import CausalGate, blocker
from crdtsync.core.ledger import Ledger
from crdtsync.core.past import Past, seen_by
from crdtsync.core.schemas import Schemas
from crdtsync.core.snapshot import Difference, ReadDocument, Snapshot, Taking, difference
from crdtsync.core.staging import Staging
from crdtsync.core.storage import (
    ChangeRow,
    DocumentDrop,
    DocumentStateRow,
    DocumentTrim,
    DocumentUpdateRow,
    EntryRow,
    HeadRow,
    SpaceRow,
    Storage,
    pack_vector,
)
from crdtsync.errors import CrdtSyncError, ForkDetected, InvalidEncoding
from crdtsync.wire.change import NO_HASH, SHORT_HASH_BYTES, Change, Codec, Dep, Kind, Op
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.limits import CHANGE_OPS_MAX
from crdtsync.wire.snapshot import WriterRow
from crdtsync.wire.tokens import encode_dot

if TYPE_CHECKING:
    from random import Random

SKIPPED_DOCUMENTS_MAX = 10_000
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


class Merged(NamedTuple):
    """What merging a snapshot did: ``advanced`` writers, entries that have ``come`` and that are ``gone``.

    ``applied`` are changes that had been waiting for it; ``kept`` is False if one of them must be asked for again.
    """

    advanced: set[Writer]
    come: list[Entry]
    gone: list[Entry]
    applied: list[Applied]
    kept: bool
    texts: Collection[str] = ()
    """Keys of which nothing has changed but the text."""

    def keys(self) -> set[str]:
        """The keys that it changed."""
        return {*(entry.key for entry in (*self.come, *self.gone)), *self.texts}


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
        self.schemas = Schemas(self.entries)
        self.gate = CausalGate()
        self.arrivals = Arrivals()
        self.clock = HybridClock()
        self.alarms = alarms
        self.documents = Documents(
            lambda dot: storage.document(row.id, dot), lambda dot: storage.document_exists(row.id, dot)
        )
        self.texts_due: set[str] = set()
        self.position = row.position
        self.floor = row.floor
        self.trimmed_position = row.trimmed_position
        self.past = Past(self, ledger, row.history_floor, row.history_since_ms)
        self.pins: set[int] = set()  # log positions of snapshots in transfer: what comes after is not trimmed
        self.origins: dict[Writer, tuple[str, str]] = {}
        self._node = node
        self.storage = storage
        self._ledger = ledger
        self._random = random
        self._since_own: set[Writer] = set()
        self.point: tuple[tuple[int, Writer | None], str] | None = None  # see crdtsync.core.points
        self._texts_touched: set[str] = set()
        self._recent: dict[tuple[Writer, int], bytes] = {}
        self.staging = Staging(self, ledger)
        self._undurable: VersionVector = {}
        self._skipped_documents: set[Dot] = set()
        self.unknown: tuple[Change, Dot] | None = None
        self.barred: AbstractSet[tuple[int, int, int]] = frozenset()
        self._load(row)

    def _load(self, row: SpaceRow) -> None:
        for writer, seq, change_hash in self.storage.heads(self.id):
            self.vector[writer] = seq
            self.hashes[writer] = change_hash
        self.origins = {writer: (node, name) for writer, node, name in self.storage.origins(self.id)}
        for entry in self.storage.entries(self.id):
            self.entries.add(entry)
            if entry.key[0] == "_":
                self.schemas.note(entry.key)
            if entry.kind == Kind.TEXT:
                self.documents.named(entry)
        self.schemas.take_retold()  # nobody has been told anything yet
        self.texts_due = {key for key in self.entries.plural if self.entries.held(key)[-1].kind == Kind.TEXT}
        self.clock.last = row.hlc  # not the entries': a clock from far ahead is applied and not taken over
        if self.writer is None:
            self._since_own = set(self.vector)
        else:
            self._since_own = {w for w, _ in self.storage.heads_after(self.id, row.own_position) if w != self.writer}

    @property
    def frontier(self) -> Frontier:
        """Every head with its short hash."""
        return {writer: (seq, self.hashes[writer][:SHORT_HASH_BYTES]) for writer, seq in self.vector.items()}

    def durable_vector(self) -> VersionVector:
        """The version vector of what is on disk: all but what waits for the next commit."""
        return {**self.vector, **self._undurable}

    def tips(self) -> VersionVector:
        """A part of the vector that covers all of it: this node's newest change, and who has written since."""
        own = () if self.writer is None or self.writer not in self.vector else (self.writer,)
        return {writer: self.vector[writer] for writer in (*own, *self._since_own)}

    def is_own(self, writer: Writer) -> bool:
        """Whether a writer is, or was, this node's."""
        return self.origins.get(writer, ("",))[0] == self._node[0]

    def uncommitted_edits(self, document: Dot) -> list[Dot]:
        """The dots of a document's edits that wait for the next commit."""
        return [
            Dot(Writer(row.by_writer), row.by_seq, row.by_n)
            for row in self._ledger.batch.document_updates
            if row[:4] == (self.id, *document) and (row.update != NO_CHANGE or row.by_writer == UNKNOWN_WRITER)
        ]

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
        applied = self._apply(change, now_ms, own=True)
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

        If it edits a text that is not held here at all, it is not applied, and is ``unknown`` until the next call.

        :raises ForkDetected: it contradicts a change that this replica holds; nothing was done.
        """
        return self._take_in([change], now_ms, asked=change)

    def _take_in(self, todo: list[Change], now_ms: int, asked: Change | None) -> tuple[list[Applied], bool]:
        """Apply what can be applied; errors of ``asked`` are the caller's, those of others are theirs."""
        applied: list[Applied] = []
        kept = True
        self.unknown = None
        while todo:
            candidate = todo.pop()
            try:
                if self._is_repeat(candidate):
                    continue
                waits_for = blocker(candidate, self.vector)
                if self.barred and (self.id, candidate.writer, candidate.seq) in self.barred:
                    waits_for = candidate.writer, candidate.seq
                if waits_for is not None:
                    kept = self.gate.hold(candidate, waits_for) and kept
                    continue
                self._check_chain(candidate)
            except ForkDetected:
                if candidate is asked:
                    raise
                kept = False  # somebody else sent it ahead, and it was wrong: the right one must be asked for
                continue
            document = self._unknown_document(candidate)
            if document is not None:
                kept = kept and self.unknown is None
                self.unknown = (candidate, document)
                continue
            self._witness(candidate.hlc, self.node_of(candidate.writer), now_ms)
            applied.append(self._apply(candidate, now_ms, own=False))
            todo.extend(reversed(self.gate.release(candidate.writer, candidate.seq)))
        return applied, kept

    def _witness(self, hlc: int, whose: str, now_ms: int) -> None:
        if not self.clock.witness(hlc, now_ms):
            self.alarms.raise_once(
                "clock_ahead",
                self.name,
                f"space {self.name}: the clock of {whose} is over 24 h ahead of this node's; check the clocks of both",
            )

    def _unknown_document(self, change: Change) -> Dot | None:
        """A document that the change edits and that is not held here at all, if there is one."""
        for op in change.ops:
            if op.kind != Kind.TEXT or op.value is None:
                continue
            try:
                document, _ = check_marker(unpack(op.value))
            except InvalidEncoding:
                continue
            if document is None or document[:2] == (change.writer, change.seq):
                continue
            if document not in self._skipped_documents and not self.documents.exists(document):
                return document
        return None

    def skip_document(self, document: Dot) -> None:
        """Nobody has what came before the edits of this document: from now on they are skipped."""
        if len(self._skipped_documents) >= SKIPPED_DOCUMENTS_MAX:
            self._skipped_documents.clear()
        self._skipped_documents.add(document)

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
            known = (self.storage.change_hash(self.id, writer, seq) or b"")[:SHORT_HASH_BYTES] or None
        if known is not None and known != short_hash:
            raise self._fork(writer, seq)

    def _fork(self, writer: Writer, seq: int) -> ForkDetected:
        return ForkDetected(
            f"space {self.name}: two different changes are both number {seq} of writer {writer}: "
            "some node went on writing after its disk had gone back; syncing this space with that peer has stopped"
        )

    # -- both ----------------------------------------------------------------------------------------------

    def _apply(self, change: Change, now_ms: int, own: bool) -> Applied:
        ledger = self._ledger
        ledger.position += 1
        position = self.position = ledger.position
        self._undurable.setdefault(change.writer, change.seq - 1)
        self.vector[change.writer] = change.seq
        self.hashes[change.writer] = change.hash
        self._remember_hash(change)
        if change.origin is not None and change.seq == 1:
            self.origins[change.writer] = change.origin
            ledger.batch.origins.append((self.id, change.writer, *change.origin))
        if not own:
            self._since_own.add(change.writer)
            if change.writer == self.writer:
                self._retire_writer()
        ledger.batch.own_changes += own
        ledger.batch.changes.append(
            ChangeRow(position, self.id, change.writer, change.seq, change.hash, change.body, now_ms)
        )
        effects = [self._apply_op(change, n, op, position, now_ms, own) for n, op in enumerate(change.ops)]
        return Applied(self.name, change, position, own, effects)

    def _retire_writer(self) -> None:
        """Others know more of this node's writer than it does: it went on elsewhere, or the disk went back.

        Its next numbers may be taken, so it is never used again.
        """
        assert self.writer is not None
        self._ledger.batch.retired_writers.append((self.id, self.writer))
        self.writer = None
        self._since_own = set(self.vector)

    def _remember_hash(self, change: Change) -> None:
        self._recent[change.writer, change.seq] = change.short_hash
        if len(self._recent) > RECENT_HASHES_MAX:
            del self._recent[next(iter(self._recent))]

    def _apply_op(self, change: Change, n: int, op: Op, position: int, now_ms: int, own: bool) -> Effect:
        removed: list[Entry] = []
        if op.removes:
            removed = self.entries.remove(op.key, op.removes)
            self.past.bury(change, n, removed, position, now_ms)
        entry: Entry | None = None
        dot = Dot(change.writer, change.seq, n)
        if op.value_hash is not None:
            value = op.value
            if op.kind == Kind.TEXT:
                value = self._apply_text(dot, op, position, change, own)
            entry = self._add_entry(dot, op, value, change)
        self._note_markers(entry, removed, position, dot, change.agent)
        if op.key[0] == "_":
            self.schemas.note(op.key)
        return Effect(op, entry, removed)

    def _note_markers(self, added: Entry | None, removed: list[Entry], position: int, dot: Dot, agent: str) -> None:
        """Keep count of the markers that name each document.

        Where none is left, an empty edit on disk tells since when: the document is kept for as long as the log
        reaches back to it, for edits by those who did not know.
        """
        if added is not None and added.kind == Kind.TEXT:
            self.documents.named(added)
            if added.key in self.entries.plural:
                self._texts_touched.add(added.key)
        for entry in removed:
            if entry.kind == Kind.TEXT:
                document = self.documents.unnamed(entry)
                if document is not None and self.documents.exists(document):
                    row = DocumentUpdateRow(self.id, *document, position, *dot, agent, NO_CHANGE)
                    self._ledger.batch.document_updates.append(row)

    def _add_entry(self, dot: Dot, op: Op, value: bytes | None, change: Change) -> Entry:
        assert op.value_hash is not None
        self._ledger.row += 1
        row = self._ledger.row
        entry = Entry(row, dot, op.key, op.sub, int(op.kind), change.hlc, change.agent, value, op.value_hash, op.attrs)
        self.entries.add(entry)
        attrs = None if op.attrs is None else pack(op.attrs)
        self._ledger.batch.entries.append(
            EntryRow(
                row,
                self.id,
                *dot,
                op.key,
                op.sub,
                int(op.kind),
                change.hlc,
                change.agent,
                value,
                op.value_hash,
                attrs,
                seen_by(op),
            )
        )
        return entry

    def _apply_text(self, dot: Dot, op: Op, position: int, change: Change, own: bool) -> bytes:
        """Apply a text edit to its document; what is stored as the entry's value is the document's name alone."""
        try:
            named, update = check_marker(unpack(op.value or b""))
        except InvalidEncoding:
            return pack(list(dot))  # purged, or from a careless author: there is nothing to apply
        document = named or dot
        try:
            if not own:  # own edits have been tried before
                self.documents.apply(document, update)
        except CrdtSyncError as error:
            self._skipped(dot, op, change, error)
        else:
            row = DocumentUpdateRow(self.id, *document, position, *dot, change.agent, update)
            self._ledger.batch.document_updates.append(row)
        return pack(list(document))

    def _skipped(self, dot: Dot, op: Op, change: Change, error: CrdtSyncError) -> None:
        node = self.node_of(change.writer)
        self.alarms.journal(
            "edit_skipped",
            space=self.name, key=op.key, dot=encode_dot(dot), node=node, agent=change.agent, reason=error.message,
        )  # fmt: skip
        self.alarms.raise_once(
            "edit_skipped",
            self.name,
            f"space {self.name}: skipped an edit of the text {op.key!r} by {node}: {error.message}; "
            "the log of this daemon lists all",
        )

    # -- snapshots -------------------------------------------------------------------------------------------

    def snapshot(self, snapshot: bytes, list_documents: Callable[[], list[Dot]], read: ReadDocument) -> Snapshot:
        """The state as it is now, to be given away once it is on disk."""
        writers = [WriterRow(w, seq, self.hashes[w], self.origins.get(w)) for w, seq in sorted(self.vector.items())]
        clock = (self._node[0], self.clock.last, self.entries.digest)
        entries = list(self.entries.all())
        return Snapshot(snapshot, self.name, self.position, clock, writers, entries, list_documents, read)

    def merge_snapshot(self, taken: Taking, now_ms: int) -> Merged:
        """Merge a whole snapshot, exactly: afterwards this replica holds what it would hold had it applied every change
        that the snapshot's frontier names.

        :raises ForkDetected: it contradicts what is held here; nothing was done.
        :raises InvalidValue: a document of it is not acceptable; nothing was done.
        """
        for writer, row in sorted(taken.writers.items()):
            self.check_head(writer, row.seq, row.hash[:SHORT_HASH_BYTES], stored=True)
        found = difference(self.entries.all(), self.vector, taken)
        if found.contradictions:
            raise self._fork(found.contradictions[0].dot.writer, found.contradictions[0].dot.seq)
        states = self._absorb_documents(taken)
        advanced = {writer for writer, row in taken.writers.items() if row.seq > self.vector.get(writer, 0)}
        if advanced:
            self.advance_position()  # what the merge did is as of it
        batch = self._ledger.batch
        batch.document_states.extend(DocumentStateRow(self.id, *dot, self.position, state) for dot, state in states)
        if advanced:  # what came with the states is not on disk edit by edit: an empty one of nobody's stands for it
            batch.document_updates.extend(
                DocumentUpdateRow(self.id, *dot, self.position, UNKNOWN_WRITER, 0, CHANGE_OPS_MAX, "", NO_CHANGE)
                for dot, _ in states
            )
        self.staging.adopt(taken, found.come)
        self.past.bury_unknown(found.gone, self.position, now_ms)
        self.entries.exchange(found.gone, found.incoming, found.digest)
        self.note_merged_markers(found)
        self.schemas.note_entries((*found.come, *found.gone))
        self._advance_heads(taken, advanced)
        if advanced:
            self.past.cut(self.vector, now_ms)  # what removed the entries that went is not known
        assert taken.header is not None
        self._witness(taken.header.hlc, "another node", now_ms)
        waiting = [change for w in sorted(advanced) for change in self.gate.release(w, self.vector[w])]
        applied, kept = self._take_in(waiting[::-1], now_ms, asked=None)
        return Merged(advanced, found.come, found.gone, applied, kept)

    def _absorb_documents(self, taken: Taking) -> list[tuple[Dot, bytes]]:
        """The documents of a snapshot into those held here: all, or none if one is not acceptable."""
        is_news = any(row.seq > self.vector.get(writer, 0) for writer, row in taken.writers.items())
        states: list[tuple[Dot, bytes]] = []
        for document, state in sorted(taken.documents.items()):
            if not state or not (is_news or not self.documents.exists(document)):
                continue
            try:
                states.append((document, self.documents.absorb(document, state)))
            except CrdtSyncError:
                for done, _ in states:
                    self.documents.undo(done)
                raise
        return states

    @property
    def ledger(self) -> Ledger:
        """What the next commit must write."""
        return self._ledger

    def advance_position(self) -> int:
        """A place in the log at which no change stands."""
        self._ledger.position += 1
        self.position = self._ledger.position
        return self.position

    def note_merged_markers(self, found: Difference) -> None:
        """Keep count of the markers that have come and gone, not by changes."""
        text = int(Kind.TEXT)
        for entry in [entry for entry in found.come if entry.kind == text]:
            self._note_markers(entry, [], self.position, entry.dot, entry.agent)
        for entry in [entry for entry in found.gone if entry.kind == text]:
            self._note_markers(None, [entry], self.position, entry.dot, entry.agent)

    def _advance_heads(self, taken: Taking, advanced: set[Writer]) -> None:
        """Everything up to the snapshot's frontier counts as applied, and the log does not hold what it brought."""
        batch = self._ledger.batch
        for writer, row in sorted(taken.writers.items()):
            if row.origin is not None and writer not in self.origins:
                self.origins[writer] = row.origin
                batch.origins.append((self.id, writer, *row.origin))
            if writer in advanced:
                self._undurable.setdefault(writer, self.vector.get(writer, 0))
                self.vector[writer] = self.floor[writer] = row.seq
                self.hashes[writer] = row.hash
                batch.heads.append(HeadRow(self.id, writer, row.seq, row.hash, self.position))
        if not advanced:
            return
        self._since_own |= advanced
        if self.writer in advanced:
            self._retire_writer()
        batch.floors.append((pack_vector(self.floor), self.id))

    # -- the disk --------------------------------------------------------------------------------------------

    def prepare_commit(self) -> None:
        """Add what a commit must write beside the changes themselves."""
        self._ledger.batch.clocks.append((self.clock.last, self.id))
        for document in self.documents.states_due():
            self.store_document(document.dot)

    def store_document(self, dot: Dot) -> bool:
        """Store a document as a whole with the commit under way, and drop what no snapshot in transfer needs.

        False if that cannot be done.
        """
        document = self.documents.get(dot, is_use=False)
        try:
            state = document.state()
        except CrdtSyncError as error:  # its edits are on disk one by one
            self.alarms.journal("text_not_stored", space=self.name, document="-".join(map(str, dot)), reason=str(error))
            return False
        document.updates_since_state = 0
        self._ledger.batch.document_states.append(DocumentStateRow(self.id, *dot, self.position, state))
        if not self.pins:
            self._ledger.batch.document_trims.append(DocumentTrim(self.id, *dot, 0, self.position))
        return True

    def committed(self) -> None:
        """All that was applied is on disk."""
        self._undurable.clear()
        self.past.committed()
        self.documents.committed()
        self.texts_due |= self._texts_touched
        self._texts_touched.clear()

    def drop_document(self, dot: Dot) -> None:
        """A document that nobody names goes from memory, and from disk with the commit under way."""
        is_touched = any(row[:4] == (self.id, *dot) for row in self._ledger.batch.document_updates)
        if not is_touched and not self.documents.is_dirty(dot):
            self.documents.drop(dot)
            self._ledger.batch.document_drops.append(DocumentDrop(self.id, *dot))
