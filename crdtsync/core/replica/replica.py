"""One replica of one space: applies changes in causal order, makes new ones, and says what must be written to disk.

A change has the same effect on every replica: if its author could commit it, no replica refuses it on arrival. An early
change waits at the causal gate, a repeated one is dropped, and one that contradicts the chain of hashes is a fork.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from crdtsync.causality import Dot, Frontier, VersionVector, Writer, hlc_ms
from crdtsync.core.alarm_catalogue import MALFORMED_WRITE, TTL_LENGTHENED, VALUES_CROWDED_OUT
from crdtsync.core.alarms import Alarms
from crdtsync.core.crdt.causal_gate import CausalGate, blocker
from crdtsync.core.crdt.entries import Entries, IncomingEntries
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.crdt.schemas import Schemas
from crdtsync.core.crdt.uploads import Uploads
from crdtsync.core.history.arrival_log import Arrivals
from crdtsync.core.history.checkpoints import Checkpoints
from crdtsync.core.history.recorder import HistoryRecorder
from crdtsync.core.kinds.seen import NOTHING_SEEN, seen_by
from crdtsync.core.kinds.values import ConflictingKeys
from crdtsync.core.replica.asleep import Asleep, fall_asleep
from crdtsync.core.replica.purges import Purges
from crdtsync.core.replica.schemas.caps import SchemaCaps
from crdtsync.core.replica.snapshots.snapshot import ReadDocument, Snapshot
from crdtsync.core.replica.snapshots.staging import Staging
from crdtsync.core.replica.spoilt_values import SpoiltValues
from crdtsync.core.replica.text_edits import TextEdits
from crdtsync.core.space import Applied, Effect, SpaceState
from crdtsync.core.storage.interface import Storage
from crdtsync.core.storage.long_values import LongValues, ValueCache
from crdtsync.core.storage.rows import ChangeRow, EntryRow, SpaceRow, new_names_name
from crdtsync.core.storage.write_batch import Ledger
from crdtsync.core.text.document_cache import Documents
from crdtsync.core.text.drafted_edits import DraftedEdits
from crdtsync.errors import ForkDetected
from crdtsync.wire.change import NO_HASH, SHORT_HASH_BYTES, Change, Codec, Dep, Op
from crdtsync.wire.codec import new_row, pack, unpack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import CLUSTER_SPACE
from crdtsync.wire.peer.snapshot import WriterRow

if TYPE_CHECKING:
    from random import Random

_REGISTER, _TEXT = int(Kind.REGISTER), int(Kind.TEXT)

TAKEN_OPS_MAX = 500
"""Operations of changes that have waited for one that comes, and that are applied in its turn."""
TAKEN_BYTES_MAX = 256 * 1024
"""The bytes of such changes."""
RECENT_HASHES_MAX = 4096
"""How many hashes of changes below the heads are kept in memory to check the deps of arriving changes: this many, or
the newer half of them.
"""
TTL_LENGTHENED_MS_MIN = 1000
"""Hosts' clocks differ by less all the time."""


_PARTS = frozenset(
    (
        "_less_recent", "_recent", "caps", "checkpoints", "codec", "conflicting", "documents", "entries", "gate",
        "past", "pins", "purges", "schemas", "spoilt", "staging", "texts", "unknown", "uploads", "values",
    )
)  # fmt: skip
"""The parts that a replica drops while it sleeps."""


def _nothing(_replica: Replica) -> None:
    """The default for ``woken``: do nothing."""


class Replica(SpaceState):
    """One space, and all that happens to it."""

    __slots__ = (
        "_cache", "_cluster", "_less_recent", "_node", "_recent", "arrivals", "asleep", "barred", "caps",
        "checkpoints", "codec", "conflicting", "gate", "hashes", "idle_looks", "new_names", "past", "point", "purges",
        "since_own", "spoilt", "staging", "texts", "token", "unknown", "woken",
    )  # fmt: skip
    # Beyond 30 attributes each instance would have a table of names of its own, which takes 1.6 kB of each space.

    def __init__(
        self,
        row: SpaceRow,
        cluster: bytes,
        storage: Storage,
        ledger: Ledger,
        random: Random,
        node: tuple[str, str],
        alarms: Alarms,
        cache: ValueCache,
    ) -> None:
        super().__init__(row, storage, ledger, random, node[0], alarms)
        self._cluster = cluster
        self._node = node
        self._cache = cache
        self.hashes: dict[Writer, bytes] = {}
        self.arrivals = Arrivals()
        self.since_own: set[Writer] = set()
        """Writers that have written since this node's newest change."""
        self.point: tuple[tuple[int, Writer | None], str] | None = None  # see crdtsync.core.waiting.session_points
        self.token: tuple[int, str] | None = None  # of all that is here at a position, as far as it was asked for
        self.barred: AbstractSet[tuple[int, int, int]] = frozenset()
        self.new_names: list[tuple[Writer, int, int, Writer]] = []
        """Branches that have moved here: a writer, its first and last number on it, and the writer there is now."""
        self.asleep: Asleep | None = None
        """The facts that are known while it sleeps: see :mod:`crdtsync.core.replica.asleep`."""
        self.idle_looks = 0
        """How often somebody has looked whether it is used since it was."""
        self.woken: Callable[[Replica], None] = _nothing
        """Is called when it has woken up, with this replica."""
        self._load_heads(row)
        self.clock.last = row.hlc  # not the entries': a clock from far ahead is applied and not taken over
        self._make_parts(row.history_floor, row.history_since_ms)

    def _make_parts(self, history_floor: VersionVector, history_since_ms: int, slept: Asleep | None = None) -> None:
        """All that a replica which sleeps does without, as it stands on disk; ``slept``: what was known meanwhile."""
        ledger = self.ledger
        self.codec = Codec(self._cluster, self.name, self.epoch)
        self.entries = Entries()
        self.conflicting = ConflictingKeys(self.entries)
        self.schemas = Schemas(self.entries)
        self.caps = SchemaCaps()
        self.purges = Purges(self.entries)
        self.uploads = Uploads(self.entries)
        self.gate = CausalGate()
        self._begin_texts()
        self.past = HistoryRecorder(self, ledger, history_floor, history_since_ms)
        self.checkpoints = Checkpoints(self, self.past)
        self.pins = set()
        self.spoilt = SpoiltValues(self, self.codec)
        self.values = LongValues(
            self._cache,
            self.storage.value,
            self.storage.values,
            self.spoilt.logged,
            self.spoilt.tell,
            self.spoilt.mend,
        )
        self._recent: dict[tuple[Writer, int], bytes] = {}
        self._less_recent: dict[tuple[Writer, int], bytes] = {}
        self.staging = Staging(self, ledger)
        self.unknown: tuple[Change, Dot] | None = None
        self._load_entries(slept)

    def _load_heads(self, row: SpaceRow) -> None:
        for writer, seq, change_hash in self.storage.heads(self.id):
            self.vector[writer] = seq
            self.hashes[writer] = change_hash
        packed = self.storage.meta(new_names_name(self.id))
        self.new_names = [(w, first, last, name) for w, first, last, name in unpack(packed)] if packed else []
        self.origins = {writer: (node, name) for writer, node, name in self.storage.origins(self.id)}
        if self.writer is None:
            self.since_own = set(self.vector)
        else:
            self.since_own = {w for w, _ in self.storage.heads_after(self.id, row.own_position) if w != self.writer}

    def _load_entries(self, slept: Asleep | None) -> None:
        stored = list(self.storage.entries(self.id, self.values.stand_in))
        self.values.doubt_all(stored)
        markers = [entry for entry in stored if entry.kind == Kind.TEXT]
        reserved = [entry for entry in stored if entry.key[0] == "_"]
        is_known = slept is not None and slept.entries == len(stored)  # else the disk has lost some: peers hold them
        self.entries.load(stored, slept.digest if slept is not None and is_known else None)
        self.note_reserved(reserved)
        self.texts.load(markers)
        self.schemas.take_retold()  # nobody has been told anything else

    def read_anew(self, row: SpaceRow) -> None:
        """Read what is on disk, which holds all of what memory does, but for changes that have been taken back. That
        takes a tenth of reading all.
        """
        self.past.let_go()
        self.vector.clear()
        self.hashes.clear()
        self._recent, self._less_recent = {}, {}
        self.undurable.clear()
        self.spoilt_changes.clear()
        self.gate.clear()
        self.ledger.late.pop(self.name, None)
        self.arrivals = Arrivals()
        self.point = self.token = None
        self.writer, self.position = row.own_writer, row.position
        self._load_heads(row)
        there, stored = {entry.row: entry for entry in self.entries.all()}, set(self.storage.live_rows(self.id))
        gone = [there[number] for number in sorted(there.keys() - stored)]
        back = list(self.storage.entries(self.id, self.values.stand_in, sorted(stored - there.keys())))
        self.values.doubt_all(back)
        self.caps.forget()
        self.entries.exchange(gone, IncomingEntries(back), sum(entry.digest for entry in back))
        self.note_reserved((*gone, *back))
        self._begin_texts()
        self.texts.load(entry for entry in self.entries.all() if entry.kind == _TEXT)
        self.schemas.take_retold()

    def _begin_texts(self) -> None:
        """With none in memory."""
        self.documents = Documents(
            lambda dot: self.storage.document(self.id, dot), lambda dot: self.storage.document_exists(self.id, dot)
        )
        self.texts = TextEdits(self, self.ledger)

    def note_reserved(self, entries: Sequence[Entry]) -> None:
        """Entries have come or gone, not by changes: what reserved keys declare may be another."""
        reserved = [entry for entry in entries if entry.key[0] == "_"]
        self.schemas.note_entries(reserved)
        self.purges.note_entries(reserved)
        self.checkpoints.note(entry.key for entry in reserved)
        self._note_uploads(entry.key for entry in reserved)

    def _note_uploads(self, keys: Iterable[str]) -> None:
        for key in dict.fromkeys(keys):
            self.uploads.note(key)

    # -- sleep -------------------------------------------------------------------------------------------

    def sleep(self) -> None:
        """Let go of what can be read from disk again. Whether it may is for
        :func:`crdtsync.core.replica.asleep.may_sleep` to say.
        """
        self._let_go(fall_asleep(self))

    def _let_go(self, asleep: Asleep) -> None:
        self.asleep = asleep
        for name in _PARTS:
            if hasattr(self, name):
                delattr(self, name)
        self.__class__ = Sleeping

    def wake(self) -> None:
        """Read anew from disk what it does without while it sleeps."""
        asleep = self.asleep
        assert asleep is not None, "it sleeps"
        self.__class__, self.asleep = Replica, None
        try:
            self._make_parts(asleep.history_floor, asleep.history_since_ms, asleep)
            self.idle_looks = 0
            self.woken(self)
        except BaseException:  # the disk failed: it sleeps on
            self._let_go(asleep)
            raise

    @property
    def digest(self) -> int | None:
        """The digest of the live entries; None: it is not worked out yet for those that were loaded."""
        if self.asleep is not None:
            return self.asleep.digest
        return self.entries.digest if self.entries.is_summed else None

    @property
    def frontier(self) -> Frontier:
        """Every head with its short hash."""
        return {writer: (seq, self.hashes[writer][:SHORT_HASH_BYTES]) for writer, seq in self.vector.items()}

    def tips(self) -> VersionVector:
        """A part of the vector that covers all of it: this node's newest change, and who has written since."""
        own = () if self.writer is None or self.writer not in self.vector else (self.writer,)
        return {writer: self.vector[writer] for writer in (*own, *self.since_own)}

    # -- own changes -----------------------------------------------------------------------------------

    @property
    def is_plain(self) -> bool:
        """Whether the next own change is none that has more to tell than others, and no key has a schema."""
        return self.writer in self.vector and self.schemas.is_empty and self.name != CLUSTER_SPACE

    def deps(self) -> tuple[Dep, ...]:
        """The deps of the next own change."""
        return tuple([Dep(w, self.vector[w], self.hashes[w][:SHORT_HASH_BYTES]) for w in sorted(self.since_own)])

    def commit(
        self,
        ops: Sequence[Op],
        agent: str,
        idempotency: bytes | None,
        now_ms: int,
        edits: Mapping[Dot, DraftedEdits] | None = None,
    ) -> Applied:
        """Make a change of ``ops`` and apply it. It may leave this node after the next commit to disk, not before.

        ``edits``: those of texts among them, as they were judged since anything else was applied.

        :raises TooLarge: nothing was done.
        :raises InvalidValue: a text edit was not acceptable to the Yjs library; nothing was done.
        """
        writer, seq = self.next_dot()
        deps = self.deps()
        prev_hash = self.hashes.get(writer, NO_HASH)
        hlc = self.clock.tick(now_ms)
        origin = self._node if seq == 1 else None
        change = Change(
            writer, seq, deps, prev_hash, hlc, agent, idempotency, tuple(self.uploads.with_parts(ops)), origin
        )
        change.ops = self.past.with_lost(change)
        self.codec.encode(change)
        self.texts.try_all(change, edits or {})
        applied = self.apply(change, now_ms, own=True)
        self.since_own.clear()
        self._tell_crowded(change)
        self._tell_lengthened(change, now_ms)
        return applied

    def _tell_crowded(self, change: Change) -> None:
        """A write has taken values along, since its key was full: nobody chose that, so somebody is told."""
        for op in change.ops:
            if op.crowded:
                self.alarms.journal(
                    "values_crowded_out", space=self.name, key=op.key, agent=change.agent, values=op.crowded
                )
                self.alarms.raise_once(
                    VALUES_CROWDED_OUT,
                    self.name,
                    f"space {self.name}: {op.key!r} had as many values at once as a key may have, and a write of "
                    f"{change.agent} took the lowest along (crdtsync history --lost shows them)",
                    (op.key,),
                )

    def _tell_lengthened(self, change: Change, now_ms: int) -> None:
        """A ttl counts from the change's hybrid time: a clock of another host that is ahead lengthens it."""
        if not any(op.attrs is not None and "ttl" in op.attrs for op in change.ops):
            return
        ahead_ms = hlc_ms(change.hlc) - now_ms
        message = (
            f"space {self.name}: a ttl that was written here lasts {ahead_ms / 1000:.1f} s longer than it should: "
            "another host's clock is ahead of this one's by that"
        )
        self.alarms.set(TTL_LENGTHENED, self.name, message if ahead_ms > TTL_LENGTHENED_MS_MIN else "")

    # -- changes of others -------------------------------------------------------------------------------

    def receive(self, change: Change, now_ms: int) -> tuple[list[Applied], bool]:
        """Take in a change from a peer. Returns what could be applied now, and False if there was no room to keep
        it waiting.

        If it edits a text that is not held here at all, it is not applied, and is ``unknown`` until the next call.

        :raises ForkDetected: it contradicts a change that this replica holds; nothing was done.
        """
        return self.take_in([change], now_ms, asked=change)

    def take_in(self, todo: list[Change | bytes], now_ms: int, asked: Change | None) -> tuple[list[Applied], bool]:
        """Apply what can be applied; errors of ``asked`` are the caller's, those of others are theirs. If there is
        much, the rest is left to the turns that follow.
        """
        applied: list[Applied] = []
        kept = True
        self.unknown = None
        ops = size_bytes = 0
        while todo:
            if ops >= TAKEN_OPS_MAX or size_bytes >= TAKEN_BYTES_MAX:
                self.ledger.late.setdefault(self.name, []).extend(todo)
                break
            early = todo.pop()
            candidate = self.codec.decode(early) if isinstance(early, bytes) else early
            ops += len(candidate.ops)
            size_bytes += len(candidate.body)
            try:
                done, was_kept = self._take(candidate, now_ms)
            except ForkDetected:
                if candidate is asked:
                    raise
                kept = False  # somebody else sent it ahead, and it was wrong: the right one must be asked for
                continue
            kept = kept and was_kept
            if done is not None:
                applied.append(done)
                if not self.gate.is_empty:
                    todo.extend(reversed(self.gate.release(candidate.writer, candidate.seq)))
        return applied, kept

    def document_ready(self, document: Dot, now_ms: int) -> list[Applied]:
        """A document is ready for edits: apply the changes of others that have waited for that."""
        waiting = self.texts.take_waiting(document)
        bodies: list[Change | bytes] = [body for place in waiting for body in self.gate.release(*place)]
        return self.take_in(bodies[::-1], now_ms, asked=None)[0] if bodies else []

    def _take(self, change: Change, now_ms: int) -> tuple[Applied | None, bool]:
        """Apply one change, or keep it until it can be applied; False: there was no room to keep it.

        :raises ForkDetected: it contradicts a change that this replica holds.
        """
        writer, seq = change.writer, change.seq
        if seq <= self.vector.get(writer, 0):
            self.check_head(writer, seq, change.short_hash)
            return None, True
        waits_for = blocker(change, self.vector)
        if self.barred and (self.id, writer, seq) in self.barred:
            waits_for = writer, seq
        if waits_for is not None:
            return None, self.gate.hold(change, waits_for)
        if change.prev_hash != self.hashes.get(writer, NO_HASH):
            raise self.fork(writer, seq)
        for dep in change.deps:
            self.check_head(dep.writer, dep.seq, dep.short_hash, stored=True)
        edits = self.texts.edits_of(change)
        if edits and not self.texts.is_small(edits):
            document = self.texts.unknown_document(edits.values())
            if document is not None:
                kept = self.unknown is None
                self.unknown = (change, document)
                return None, kept
            if self.texts.is_to_wait(change, [*edits.values()]):
                return None, self.gate.hold(change, (writer, seq))
        self.clock.witness(change.hlc, now_ms)
        if change.is_malformed:
            whose = change.origin[1] if change.origin is not None else self.node_of(writer)
            message = f"space {self.name}: {whose} sent a value, or something about one, that no agent can write"
            self.alarms.raise_once(MALFORMED_WRITE, self.name, message)
        return self.apply(change, now_ms, own=False), True

    def check_head(self, writer: Writer, seq: int, short_hash: bytes, stored: bool = False) -> None:
        """Compare a change that somebody names with the one that is held under that number, if it is.

        Looks at heads and recent changes, and in the database too if ``stored``.

        :raises ForkDetected: they differ.
        """
        held = self.vector.get(writer, 0)
        if seq > held or seq == 0:
            return
        known = self.short_hash(writer, seq, stored)
        if known is not None and known != short_hash:
            raise self.fork(writer, seq)

    def short_hash(self, writer: Writer, seq: int, stored: bool = True) -> bytes | None:
        """By what a change that is held here is known; None: not known any more. Looks at heads and recent changes, and
        in the database too if ``stored``.
        """
        held = self.vector.get(writer, 0)
        if not 0 < seq <= held:
            return None
        place = writer, seq
        known = self.hashes[writer][:SHORT_HASH_BYTES] if seq == held else self._recent.get(place)
        known = self._less_recent.get(place) if known is None else known
        if known is None and stored:
            known = (self.storage.change_hash(self.id, writer, seq) or b"")[:SHORT_HASH_BYTES] or None
        return known

    def fork(self, writer: Writer, seq: int) -> ForkDetected:
        """The error to raise if two changes have one number."""
        return ForkDetected(
            f"space {self.name}: two different changes are both number {seq} of writer {writer} of "
            f"{self.node_of(writer)}: it went on writing after its disk had gone back, or somebody else wrote under "
            "its number",
            writer=writer,
            seq=seq,
        )

    # -- both ----------------------------------------------------------------------------------------------

    def apply(self, change: Change, now_ms: int, own: bool) -> Applied:
        """Apply a change that may be applied: all that it comes after is held, and its chain of hashes is whole."""
        position = self._advance(change, now_ms, own)
        ops = change.ops
        if len(ops) == 1:
            effects = [self._apply_op(change, 0, ops[0], position, now_ms, own)]
        else:
            effects = [self._apply_op(change, n, op, position, now_ms, own) for n, op in enumerate(ops)]
        return self._applied(change, position, own, effects)

    def put(self, change: Change, gone: Entry | None, now_ms: int) -> Applied:
        """The same of an own change with one operation, a register's value in the place of ``gone``, which is all that
        the key holds.
        """
        position = self._advance(change, now_ms, own=True)
        return self._applied(change, position, True, [self._put(change, 0, gone, position, now_ms)])

    def _applied(self, change: Change, position: int, own: bool, effects: list[Effect]) -> Applied:
        self.caps.note(self, effects)
        applied: Applied = new_row(Applied, (self.name, change, position, own, effects))
        return applied

    def _advance(self, change: Change, now_ms: int, own: bool) -> int:
        """Append a change to the log, as the new head of its writer; its position."""
        ledger = self.ledger
        ledger.position += 1
        position = self.position = ledger.position
        self.undurable.setdefault(change.writer, change.seq - 1)
        self.vector[change.writer] = change.seq
        self.hashes[change.writer] = change.hash
        if len(self._recent) >= RECENT_HASHES_MAX // 2:
            self._recent, self._less_recent = {}, self._recent
        self._recent[change.writer, change.seq] = change.hash[:SHORT_HASH_BYTES]
        if change.origin is not None and change.seq == 1:
            self.origins[change.writer] = change.origin
            ledger.batch.origins.append((self.id, change.writer, *change.origin))
        if not own:
            self.since_own.add(change.writer)
            if change.writer == self.writer:
                self.retire_writer()
        ledger.batch.own_changes += own
        row = (position, self.id, change.writer, change.seq, change.hash, change.body, now_ms)
        ledger.batch.changes.append(new_row(ChangeRow, row))
        return position

    def retire_writer(self) -> None:
        """Others know more of this node's writer than it does: it went on elsewhere, or the disk went back.

        Its next numbers may be taken, so it is never used again.
        """
        assert self.writer is not None
        self.ledger.batch.retired_writers.append((self.id, self.writer))
        self.writer = None
        self.since_own = set(self.vector)

    def _apply_op(self, change: Change, n: int, op: Op, position: int, now_ms: int, own: bool) -> Effect:
        if (
            op.kind == _REGISTER
            and op.attrs is None
            and op.value is not None
            and op.key[0] != "_"
            and (op.lost is None)
            and (n == 0 or change.ops[n - 1].key != op.key)  # no part of a resolution
        ):
            held = self.entries.held(op.key)
            if not held and not op.removes:
                return self._put(change, n, None, position, now_ms)
            if len(held) == 1 and op.removes == (held[0].dot,) and held[0].kind == _REGISTER and held[0].attrs is None:
                return self._put(change, n, held[0], position, now_ms)
        removed: list[Entry] = []
        may_be_text = self.entries.may_hold(op.key, _TEXT)  # which takes as long as to look at a few
        if op.removes:
            removed = self.entries.remove(op.key, op.removes)
            self.past.record_removed(change, n, removed, position, now_ms)
        entry: Entry | None = None
        dot = new_row(Dot, (change.writer, change.seq, n))
        if op.value_hash is not None:
            value = op.value
            if op.kind == _TEXT:
                value = self.texts.apply(dot, op, position, change, own)
            entry = self._add_entry(dot, op, value, change)
        self.texts.note_markers(entry, removed if may_be_text else [], position, dot, change.agent)
        if op.key[0] == "_":
            self.schemas.note(op.key)
            self.checkpoints.note((op.key,))
            self.purges.note(op.key)
            self.uploads.note(op.key)
        effect: Effect = new_row(Effect, (op, entry, removed))
        return effect

    def _put(self, change: Change, n: int, gone: Entry | None, position: int, now_ms: int) -> Effect:
        """Apply the operation that is made most: a register's value, in the place of the one that the key holds.

        The rest of :meth:`_apply_op` does the same; here it takes 9 µs and not 22.
        """
        op = change.ops[n]
        ledger, hashed = self.ledger, op.value_hash
        assert hashed is not None
        ledger.row += 1
        dot = new_row(Dot, (change.writer, change.seq, n))
        entry = Entry(ledger.row, dot, op.key, op.sub, _REGISTER, change.hlc, change.agent, op.value, hashed, None)
        if gone is None:
            self.entries.add(entry)
            seen, removed = NOTHING_SEEN, []
        else:
            self.entries.put_in_place(gone, entry)
            seen, removed = self.past.replaced(change, dot, gone, position, now_ms), [gone]
        if len(op.value or b"") > self.values.memory_bytes_max:
            ledger.note_long(self.values, entry)
        row = (
            ledger.row, self.id, *dot, op.key, op.sub, _REGISTER, change.hlc, change.agent, op.value, hashed, None, seen
        )  # fmt: skip
        ledger.batch.entries.append(new_row(EntryRow, row))
        effect: Effect = new_row(Effect, (op, entry, removed))
        return effect

    def _add_entry(self, dot: Dot, op: Op, value: bytes | None, change: Change) -> Entry:
        assert op.value_hash is not None
        ledger, kind, hashed = self.ledger, int(op.kind), op.value_hash
        ledger.row += 1
        entry = Entry(ledger.row, dot, op.key, op.sub, kind, change.hlc, change.agent, value, hashed, op.attrs)
        self.entries.add(entry)
        ledger.note_long(self.values, entry)
        attrs = None if op.attrs is None else pack(op.attrs)
        row = (
            ledger.row, self.id, *dot, op.key, op.sub, kind, change.hlc, change.agent, value, hashed, attrs, seen_by(op)
        )  # fmt: skip
        ledger.batch.entries.append(new_row(EntryRow, row))
        return entry

    # -- snapshots -------------------------------------------------------------------------------------------

    def snapshot(self, snapshot: bytes, list_documents: Callable[[], list[Dot]], read: ReadDocument) -> Snapshot:
        """The state as it is now, to be given away once it is on disk."""
        writers = [WriterRow(w, seq, self.hashes[w], self.origins.get(w)) for w, seq in sorted(self.vector.items())]
        clock = (self.node, self.clock.last, self.entries.digest)
        entries = list(self.entries.all())
        return Snapshot(
            snapshot, self.name, self.position, clock, writers, entries, list_documents, read, self.values.check
        )

    # -- the disk --------------------------------------------------------------------------------------------

    def prepare_commit(self) -> None:
        """Add what a commit must write beside the changes themselves."""
        self.idle_looks = 0
        self.ledger.batch.clocks.append((self.clock.last, self.id))
        for document in self.documents.states_due(row.update for row in self.ledger.batch.document_updates):
            self.texts.store(document.dot)

    def committed_plainly(self) -> None:
        """All that was applied is on disk, and none of it was about texts."""
        self.undurable.clear()
        self.past.committed()

    def committed(self) -> None:
        """All that was applied is on disk."""
        self.committed_plainly()
        self.documents.committed()


class Sleeping(Replica):
    """A replica while it sleeps: its holders go on holding it. An access to a dropped part wakes it.

    A class of its own, since one that is asked for unknown names takes more than twice as long to read each known one.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # else no attribute would be unknown

        def __getattr__(self, name: str) -> object:
            """Somebody touches what it does without."""
            if name not in _PARTS:
                raise AttributeError(name)
            self.wake()
            return getattr(self, name)

    def apply(self, change: Change, now_ms: int, own: bool) -> Applied:
        """See :meth:`Replica.apply`. It is awake before anything of the change is noted."""
        self.wake()
        return self.apply(change, now_ms, own)
