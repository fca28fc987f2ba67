"""What changes do to the texts of one replica: edits are tried, applied or skipped, and written down for the disk.

A text's entry is a marker that names a document; the document itself is Yjs'
(:mod:`crdtsync.core.text.document_cache`). An own change may edit several texts, and the last edit may be refused when
the others are done; then these are undone, and the change is refused. The edits of another node's change must not be
refused, or all that depends on it would stall: what cannot be applied is skipped, with an alarm. And an edit may be of
a document that was compacted meanwhile; then it is made in the newer documents of that text, too.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from crdtsync.causality import Dot, Writer
from crdtsync.core.alarm_catalogue import EDIT_SKIPPED
from crdtsync.core.crdt.entries import Entry
from crdtsync.core.storage.interface import (
    Batch,
    DocumentDrop,
    DocumentStateRow,
    DocumentTrim,
    DocumentUpdateRow,
)
from crdtsync.core.text.document import AT_ONCE_BYTES_MAX
from crdtsync.core.text.family import LINEAGE, Family, families, family_of
from crdtsync.core.text.marker import UNKNOWN_WRITER, check_marker
from crdtsync.core.text.passing import find_out, missing_from, passed
from crdtsync.core.text.yjs_library import NO_CHANGE
from crdtsync.errors import CrdtSyncError, InvalidEncoding, TooLarge
from crdtsync.wire.change import Change, Op
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import CHANGE_OPS_MAX
from crdtsync.wire.tokens import encode_dot
from crdtsync.wire.yjs.encoding import CLOCK_MAX, at_once

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.storage.write_batch import Ledger
    from crdtsync.core.text.document import Document
    from crdtsync.core.text.drafted_edits import DraftedEdits
    from crdtsync.wire.yjs.encoding import Steps

SKIPPED_DOCUMENTS_MAX = 10_000
"""Documents remembered as known to nobody."""
TORN_BYTES_MAX = 16 * 1024 * 1024
"""Of other replicas' states of documents that are to be written anew; what is beyond waits for the next comparison."""

PASSED_ON = CHANGE_OPS_MAX + 1
"""The edits of older documents of a text are, among the edits of a newer one, numbered from here."""

TAKEN_IN = 2 * PASSED_ON
"""Likewise what a new document has taken in of older ones."""

PASSES_A_TURN = 60
"""How often edits of others are made in newer documents in a turn; each takes some 0.2 ms. What is more waits."""
TAKING_IN = 5
"""So often that counts for which a new document looks for what it lacks of an older one."""

_TEXT = int(Kind.TEXT)


class _Edit(NamedTuple):
    """An operation of a change. ``is_beginning``: it is of a document that the change makes."""

    dot: Dot
    op: Op
    document: Dot
    is_beginning: bool
    update: bytes


class TextEdits:
    """Of one replica. ``torn`` are documents that are to be written anew, as another replica holds them."""

    __slots__ = (
        "_documents",
        "_ledger",
        "_passes",
        "_passes_of",
        "_refused",
        "_replica",
        "_skipped",
        "_waiting",
        "torn",
    )

    def __init__(self, replica: Replica, ledger: Ledger) -> None:
        self.torn: dict[Dot, bytes] = {}
        self._replica = replica
        self._documents = replica.documents
        self._ledger = ledger
        self._passes = 0
        self._passes_of: Batch | None = None  # the turn in which they were
        self._skipped: dict[Dot, None] = {}
        self._refused: dict[Dot, None] = {}
        self._waiting: dict[Dot, dict[tuple[Writer, int], None]] = {}

    def load(self, markers: Iterable[Entry]) -> None:
        """Begin with these, which are all that the replica holds."""
        for marker in markers:
            self._documents.named(marker)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits, and nothing was left out."""
        return not (self.torn or self._skipped or self._refused or self._waiting)

    # -- edits -------------------------------------------------------------------------------------------------

    def try_all(self, change: Change, edits: Mapping[Dot, DraftedEdits]) -> None:
        """Apply the text edits of an own change to their documents, or to none. ``edits``: as they were judged.

        What fails here must never be committed.
        """
        for document, drafted in edits.items():
            if drafted.begun is not None:
                self._documents.begin_with(document, drafted.begun)
        done: list[Dot] = []
        counts: dict[Dot, int] = {}
        for n, op in enumerate(change.ops):
            if op.kind != _TEXT or op.value is None:
                continue
            named, update = check_marker(unpack(op.value))
            document = named or Dot(change.writer, change.seq, n)
            try:
                number = counts.get(document, 0)
                judged = edits[document].summary(number, update) if document in edits else None
                self._documents.apply(document, update, judged=judged)
            except CrdtSyncError:
                for dot in done:
                    self._documents.undo(dot)
                raise
            done.append(document)
            counts[document] = number + 1

    def unknown_document(self, change: Change) -> Dot | None:
        """A document that the change edits and that is not held here at all, if there is one."""
        for edit in _edits(change):
            document = edit.document
            if edit.is_beginning or document in self._skipped or self._documents.exists(document):
                continue
            if not self._is_purged(edit.op.key, document):
                return document
        return None

    def is_to_wait(self, change: Change) -> bool:
        """Whether a change of another node edits a document that has to be made ready for that first, or begins with so
        much that it is taken in in steps.

        :meth:`take_waiting` hands it out when that is done.
        """
        edits = [*_edits(change)]
        if not edits:
            return False
        unready = {
            edit.document
            for edit in edits
            if not edit.is_beginning
            and self._documents.exists(edit.document)
            and not self._documents.is_ready(edit.document)
        }
        if not unready:
            beginnings = self._beginnings(edits)
            if not beginnings.keys() <= self._documents.begun.keys():
                first = min(beginnings)
                self._documents.prepare(first, self._begin(edits, beginnings))
                unready.add(first)
        if not unready:
            unready.update(self._is_to_be_passed(edits))
        for document in unready:
            self._waiting.setdefault(document, {})[change.writer, change.seq] = None
        return bool(unready)

    def _beginnings(self, edits: Iterable[_Edit]) -> dict[Dot, list[bytes]]:
        """The documents that a change makes, and edits so much that it takes a while, each with these edits; also one
        that is made of a long one.
        """
        found: dict[Dot, list[bytes]] = {}
        of_long: set[Dot] = set()
        for edit in edits:
            if edit.is_beginning:
                found.setdefault(edit.document, []).append(edit.update)
                if edit.op.sub == LINEAGE and self._is_of_long(edit):
                    of_long.add(edit.document)
        return {
            document: updates
            for document, updates in found.items()
            if document in of_long or (len(updates) > 1 and sum(map(len, updates)) > AT_ONCE_BYTES_MAX)
        }

    def _is_of_long(self, edit: _Edit) -> bool:
        family = self._family(edit.document, edit.dot, edit.op)
        olders = filter(self._documents.exists, family.before(edit.document) if family is not None else ())
        return any(len(self._documents.get(older).state()) > AT_ONCE_BYTES_MAX for older in olders)

    def _begin(self, edits: Iterable[_Edit], beginnings: Mapping[Dot, Sequence[bytes]]) -> Steps[None]:
        """Take in, in steps, what new documents begin with, before it is applied."""
        begun = yield from self._documents.begin(beginnings)
        for edit in edits:
            family = self._family(edit.document, edit.dot, edit.op) if edit.document in begun else None
            if family is not None:
                yield from self.find_out_before(family, begun[edit.document])
        self._documents.begun.update(begun)  # all at once, for they go with the next commit

    def _is_to_be_passed(self, edits: Iterable[_Edit]) -> Iterator[Dot]:
        """A document of which edits are made in newer ones too, if it takes a while to find out where they stand there:
        that is done in the turns that follow. Likewise if much was passed on in this turn.
        """
        for edit in edits:
            family = self._family(edit.document, edit.dot, edit.op)
            if family is not None and self._passed(0) >= PASSES_A_TURN:
                self._documents.prepare(edit.document, _next_turn())
                yield edit.document
                return
            if family is not None and not edit.is_beginning:
                steps = self.find_out_after(family, edit.document, edit.update)
                for _ in steps:
                    self._documents.prepare(edit.document, steps)
                    yield edit.document
                    return

    def _passed(self, times: int) -> int:
        """Note that so often something was passed on; how often that was in this turn."""
        if self._passes_of is not self._ledger.batch:
            self._passes, self._passes_of = 0, self._ledger.batch
        self._passes += times
        return self._passes

    def find_out_after(self, family: Family, document: Dot, update: bytes) -> Steps[None]:
        """What it takes to make an edit of a document in the newer ones too."""
        older = self._documents.get(document)
        for dot in filter(self._documents.exists, family.after(document)):
            newer, member = self._documents.get(dot), family.members[dot]
            if older.is_ready and newer.is_ready and max(older.size_bytes, newer.size_bytes) <= AT_ONCE_BYTES_MAX:
                continue
            yield from find_out(partial(passed, update, older, newer, member, may_wait=True))

    def find_out_before(self, family: Family, newer: Document) -> Steps[None]:
        """What it takes that a new document takes in what was edited without it."""
        member = family.members[newer.dot]
        for dot in filter(self._documents.exists, family.before(newer.dot)):
            yield from find_out(partial(missing_from, self._documents.get(dot), newer, member, may_wait=True))

    def take_waiting(self, document: Dot) -> list[tuple[Writer, int]]:
        """The changes that have waited for a document, which is ready now."""
        return [*self._waiting.pop(document, {})]

    def make_ready(self, change: Change) -> None:
        """Make all that a change edits ready for it, however long that takes."""
        edits = [*_edits(change)]
        for edit in edits:
            if not edit.is_beginning:
                at_once(self._documents.get(edit.document).make_ready())
        at_once(self._begin(edits, self._beginnings(edits)))

    def _is_purged(self, key: str, document: Dot) -> bool:
        return self._replica.purges.covers(key, document)

    def skip_document(self, document: Dot) -> None:
        """Nobody has what came before the edits of this document: from now on they are skipped."""
        if len(self._skipped) >= SKIPPED_DOCUMENTS_MAX:
            self._skipped.clear()
        self._skipped[document] = None

    def refuse_document(self, document: Dot) -> None:
        """It would take too long to load: unless it is held already, from now on its edits are skipped, also those that
        need nothing of what came before.
        """
        self.skip_document(document)
        if len(self._refused) >= SKIPPED_DOCUMENTS_MAX:
            self._refused.clear()
        self._refused[document] = None

    def note_torn(self, document: Dot, theirs: bytes) -> None:
        """Another replica's state of this document cannot be united with the one here."""
        if sum(map(len, self.torn.values())) + len(theirs) <= TORN_BYTES_MAX:
            self.torn[document] = theirs

    def apply(self, dot: Dot, op: Op, position: int, change: Change, own: bool) -> bytes:
        """Apply a text edit to its document; what is stored as the entry's value is the document's name alone."""
        try:
            named, update = check_marker(unpack(op.value or b""))
        except InvalidEncoding:
            return pack(list(dot))  # purged, or from a careless author: there is nothing to apply
        document = named or dot
        if named is not None and self._is_purged(op.key, named) and not self._documents.exists(named):
            return pack(list(document))  # an edit by somebody who did not know; it goes with the next look at the purge
        try:
            if document in self._refused and not self._documents.exists(document):
                raise TooLarge("its text would take this host too long to load")
            if not own:  # own edits have been tried before
                self._documents.apply(document, update)
        except CrdtSyncError as error:
            self._tell_skipped(dot, op, change, error)
        else:
            row = DocumentUpdateRow(self._replica.id, *document, position, *dot, change.agent, update)
            self._ledger.batch.document_updates.append(row)
            self._pass_on(document, update, dot, op, position, change)
        return pack(list(document))

    # -- documents of one text -----------------------------------------------------------------------------------

    def _pass_on(self, document: Dot, update: bytes, dot: Dot, op: Op, position: int, change: Change) -> None:
        """Make an edit in all newer documents of the text too; a new one takes in what was edited without it."""
        family = self._family(document, dot, op)
        if family is None:
            return
        is_begun_here = document[:2] == (change.writer, change.seq)
        if is_begun_here and any(_is_edit_of(later, document) for later in change.ops[dot.n + 1 :]):
            return
        for newer in [document] if is_begun_here else family.after(document):
            if not self._documents.exists(newer):
                continue
            try:
                if is_begun_here:
                    self._take_in_older(newer, family, dot, position, change.agent)
                else:
                    self._passed(1)
                    member, older = family.members[newer], self._documents.get(document)
                    passed_on = passed(update, older, self._documents.get(newer), member)
                    self._documents.apply(newer, passed_on)
                    place = dot._replace(n=PASSED_ON + dot.n)
                    row = DocumentUpdateRow(self._replica.id, *newer, position, *place, change.agent, passed_on)
                    self._ledger.batch.document_updates.append(row)
            except CrdtSyncError as error:
                self._tell_skipped(dot, op, change, error)

    def _family(self, document: Dot, dot: Dot, op: Op) -> Family | None:
        """The documents of the text that an operation edits, with what it says itself; None: there is but one."""
        held = self._replica.entries.held(op.key)
        if op.sub != LINEAGE and not any(entry.sub == LINEAGE for entry in held):
            return None
        value = pack(list(document))
        marker = Entry(0, dot, op.key, op.sub, int(op.kind), 0, "", value, b"", op.attrs)
        return family_of([*held, marker], document)

    def _take_in_older(self, newer: Dot, family: Family, dot: Dot, position: int, agent: str) -> bool:
        """What ``newer`` lacks of the older documents of its text; whether there was anything."""
        lacked = 0
        for older in filter(self._documents.exists, family.before(newer)):
            self._passed(TAKING_IN)
            member = family.members[newer]
            update = missing_from(self._documents.get(older), self._documents.get(newer), member)
            if update is not None:
                self._documents.apply(newer, update, structs_max=CLOCK_MAX)
                lacked += 1
                place = dot._replace(n=TAKEN_IN + lacked)
                row = DocumentUpdateRow(self._replica.id, *newer, position, *place, agent, update)
                self._ledger.batch.document_updates.append(row)
        return lacked > 0

    def unite(self) -> set[str]:
        """A snapshot may have brought edits of older documents, or newer documents that lack edits of older ones here:
        the newer take in what they lack. The keys of the texts that changed by it.
        """
        replica, changed = self._replica, set[str]()
        keys = sorted({entry.key for entry in replica.entries.all() if entry.sub == LINEAGE})
        position = replica.advance_position() if keys else replica.position  # after the states that came
        for key in keys:
            for family in families(replica.entries.held(key)):
                for newer in filter(self._documents.exists, sorted(family.members, key=family.place)[1:]):
                    try:
                        if self._take_in_older(newer, family, Dot(UNKNOWN_WRITER, 0, 0), position, ""):
                            changed.add(key)
                    except CrdtSyncError as error:
                        replica.alarms.journal("text_torn", space=replica.name, key=key, reason=error.message)
        return changed

    # -- what is skipped -----------------------------------------------------------------------------------------

    def _tell_skipped(self, dot: Dot, op: Op, change: Change, error: CrdtSyncError) -> None:
        replica = self._replica
        node = replica.node_of(change.writer)
        replica.alarms.journal(
            "edit_skipped",
            space=replica.name, key=op.key, dot=encode_dot(dot), node=node, agent=change.agent, reason=error.message,
        )  # fmt: skip
        replica.alarms.raise_once(
            EDIT_SKIPPED,
            replica.name,
            f"space {replica.name}: skipped an edit of the text {op.key!r} by {node}: {error.message}; "
            "the log of this daemon lists all",
            [op.key],
        )

    # -- markers -----------------------------------------------------------------------------------------------

    def note_markers(self, added: Entry | None, removed: list[Entry], position: int, dot: Dot, agent: str) -> None:
        """Keep count of the markers that name each document.

        Where none is left, an empty edit on disk tells since when: the document is kept for as long as the log
        reaches back to it, for edits by those who did not know.
        """
        if added is not None and added.kind == Kind.TEXT:
            self._documents.named(added)
        for entry in removed:
            if entry.kind == Kind.TEXT:
                document = self._documents.unnamed(entry)
                if document is not None and self._documents.exists(document):
                    row = DocumentUpdateRow(self._replica.id, *document, position, *dot, agent, NO_CHANGE)
                    self._ledger.batch.document_updates.append(row)

    def note_merged_markers(self, come: Iterable[Entry], gone: Iterable[Entry]) -> None:
        """Keep count of the markers that have come and gone, not by changes."""
        text, position = int(Kind.TEXT), self._replica.position
        for entry in [entry for entry in come if entry.kind == text]:
            self.note_markers(entry, [], position, entry.dot, entry.agent)
        for entry in [entry for entry in gone if entry.kind == text]:
            self.note_markers(None, [entry], position, entry.dot, entry.agent)

    # -- the disk ----------------------------------------------------------------------------------------------

    def store(self, dot: Dot) -> bool:
        """Store a document as a whole with the commit under way, and drop what no snapshot in transfer needs.

        False if that cannot be done.
        """
        replica, batch = self._replica, self._ledger.batch
        document = self._documents.get(dot, is_use=False)
        try:
            state = document.state()
        except CrdtSyncError as error:  # its edits are on disk one by one
            name = "-".join(map(str, dot))
            replica.alarms.journal("text_not_stored", space=replica.name, document=name, reason=str(error))
            return False
        document.updates_since_state = document.work_since_state = 0
        batch.document_states.append(DocumentStateRow(replica.id, *dot, replica.position, state))
        if not replica.pins:
            batch.document_trims.append(DocumentTrim(replica.id, *dot, 0, replica.position))
        return True

    def drop(self, dot: Dot) -> bool:
        """A document that nobody names goes from memory, and from disk with the commit under way; False: not while it
        has something that is not on disk.
        """
        batch, space = self._ledger.batch, self._replica.id
        is_touched = any(row[:4] == (space, *dot) for row in batch.document_updates)
        if is_touched or self._documents.is_dirty(dot):
            return False
        self._documents.drop(dot)
        batch.document_drops.append(DocumentDrop(space, *dot))
        return True


def _next_turn() -> Steps[None]:
    yield


def _is_edit_of(op: Op, document: Dot) -> bool:
    try:
        return op.kind == _TEXT and op.value is not None and check_marker(unpack(op.value))[0] == document
    except InvalidEncoding:
        return False


def _edits(change: Change) -> Iterator[_Edit]:
    """The edits of texts in a change."""
    for n, op in enumerate(change.ops):
        if op.kind == _TEXT and op.value is not None:
            with suppress(InvalidEncoding):
                named, update = check_marker(unpack(op.value))
                dot = Dot(change.writer, change.seq, n)
                document = named or dot
                yield _Edit(dot, op, document, document[:2] == dot[:2], update)
