"""The effects of changes on the texts of one replica: edits are tried, applied or skipped, and written down for the
disk.

A text's entry is a marker that names a document; the document itself is Yjs'
(:mod:`crdtsync.core.text.document_cache`). An own change may edit several texts, and the last edit may be refused when
the others are done; then these are undone, and the change is refused. The edits of another node's change must not be
refused, or all that depends on it would stall: what cannot be applied is skipped, with an alarm. And an edit may be of
a document that was compacted meanwhile; then it is made in the newer documents of that text, too.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from crdtsync.causality import Dot, Writer
from crdtsync.core.alarm_catalogue import EDIT_SKIPPED
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.storage.rows import DocumentDrop, DocumentStateRow, DocumentTrim, DocumentUpdateRow
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.core.text.document import AT_ONCE_BYTES_MAX, STEP_PARTS_MAX
from crdtsync.core.text.family import LINEAGE, Family, families, family_of
from crdtsync.core.text.marker import UNKNOWN_WRITER, Edit, edits_of, is_edit_of, marker_of
from crdtsync.core.text.passing import find_out_after, found, missing_from, placed
from crdtsync.core.text.taking_ahead import Ahead, AtOnce
from crdtsync.core.text.yjs_library import NO_CHANGE
from crdtsync.errors import CrdtSyncError, TooLarge
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.change import Change, Op
from crdtsync.wire.codec import new_row, pack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import CHANGE_OPS_MAX
from crdtsync.wire.tokens import encode_dot
from crdtsync.wire.yjs.encoding import CLOCK_MAX, at_once, parts_at_most
from crdtsync.wire.yjs.lib0 import InvalidUpdate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.storage.write_batch import Ledger
    from crdtsync.core.text.drafted_edits import DraftedEdits
    from crdtsync.core.text.family import Member
    from crdtsync.core.text.taking_ahead import Stage
    from crdtsync.wire.yjs.encoding import Steps

SKIPPED_DOCUMENTS_MAX = 10_000
"""Documents remembered as known to nobody."""
TORN_BYTES_MAX = 16 * 1024 * 1024
"""Other replicas' states of documents that are to be written anew; the rest waits for the next comparison."""

PASSED_ON = CHANGE_OPS_MAX + 1
"""The edits of older documents of a text are, among the edits of a newer one, numbered from here."""

TAKEN_IN = 2 * PASSED_ON
"""Likewise what a new document has taken in of older ones."""

SMALL_PARTS = 9
"""Changes of so many parts do not count, so that a host that was away takes in thousands of small edits in a turn."""
TAKING_IN_PARTS = 5 * SMALL_PARTS
"""To so many parts comes to look for what a new document lacks of an older one; or to load one."""

_TEXT = int(Kind.TEXT)


class _Made(NamedTuple):
    """An edit that was made in a document; ``place``: its own name, or what it has for a name there."""

    document: Dot
    place: Dot
    update: bytes


class _TakenAhead(NamedTuple):
    """A change that is taken in on a stage: by edit, what has come of it. ``held``: the markers that its keys had."""

    stage: Ahead
    held: dict[str, list[Dot]]
    made: dict[Dot, list[_Made | CrdtSyncError]]


class TextEdits:
    """The text edits of one replica. ``torn`` are documents that are to be written anew, as another
    replica holds them.
    """

    __slots__ = (
        "_ahead",
        "_ahead_of",
        "_at_once",
        "_documents",
        "_ledger",
        "_parts",
        "_parts_of",
        "_read",
        "_read_of",
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
        self._parts = 0
        self._parts_of: WriteBatch | None = None  # the turn in which they were
        self._ahead: _TakenAhead | None = None
        self._ahead_of: tuple[Writer, int] | None = None  # which change that is
        self._skipped: dict[Dot, None] = {}
        self._refused: dict[Dot, None] = {}
        self._waiting: dict[Dot, dict[tuple[Writer, int], None]] = {}
        self._read: dict[int, Edit] = {}
        self._read_of: Change | None = None  # a change of which these edits are not applied yet
        self._at_once = AtOnce(self._documents)

    def load(self, markers: Iterable[Entry]) -> None:
        """Begin with these, which are all that the replica holds."""
        for marker in markers:
            self._documents.named(marker)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits, and nothing was left out."""
        return not (self.torn or self._skipped or self._refused or self._waiting)

    # -- edits -------------------------------------------------------------------------------------------------

    def edits_of(self, change: Change) -> dict[int, Edit]:
        """The edits of texts in a change, by operation."""
        if change is not self._read_of:
            self._read = edits_of(change)
            self._read_of = change if self._read else None
        return self._read

    def _take_edit(self, change: Change, n: int) -> Edit | None:
        """The edit that this operation is, which is asked for no more."""
        edits = self.edits_of(change)
        edit = edits.pop(n, None)
        if not edits:
            self._read_of = None
        return edit

    def try_all(self, change: Change, edits: Mapping[Dot, DraftedEdits]) -> None:
        """Apply the text edits of an own change to their documents, or to none. ``edits``: as they were judged.

        If this fails, the change must never be committed.
        """
        begun = {document: drafted.begun for document, drafted in edits.items() if drafted.begun is not None}
        for document, made in begun.items():
            self._documents.put_made(document, made)
        done = [*begun]
        counts: dict[Dot, int] = {}
        for edit in self.edits_of(change).values():
            document = edit.document
            try:
                number = counts.get(document, 0)
                if document not in begun or number >= len(begun[document].updates):
                    judged = edits[document].summary(number, edit.update) if document in edits else None
                    self._documents.apply(document, edit.update, judged=judged)
            except CrdtSyncError:
                for dot in done:
                    self._documents.undo(dot)
                raise
            done.append(document)
            counts[document] = number + 1

    def unknown_document(self, edits: Iterable[Edit]) -> Dot | None:
        """A document that one of these is of and that is not held here at all, if there is one."""
        for edit in edits:
            document = edit.document
            if edit.is_beginning or document in self._skipped or self._documents.exists(document):
                continue
            if not self._replica.purges.covers(edit.op.key, document):
                return document
        return None

    def is_small(self, edits: Mapping[int, Edit]) -> bool:
        """Whether a change is a short edit of one document in memory, and nothing is in its way. So it is with most: of
        these no more has to be found out.
        """
        if len(edits) > 1 or self._ahead is not None or self._documents.unready:
            return False
        for edit in edits.values():
            if self._is_of_family(edit):
                return False
            parts = self._documents.parts_of_short(edit.document, edit.update)
            if parts is None or (parts > SMALL_PARTS and self._done(parts) > STEP_PARTS_MAX):
                return False
        return True

    def is_to_wait(self, change: Change, edits: Sequence[Edit]) -> bool:
        """Whether a change of another node, with these edits, edits a document that has to be made ready for that
        first, or comes to so much that it is taken in over several turns.

        :meth:`take_waiting` hands it out when that is done.
        """
        place = change.writer, change.seq
        if self._ahead is not None and self._ahead_of == place:
            if self._is_valid(self._ahead):
                return False
            self._ahead = self._ahead_of = None
        documents = self._documents
        waits_for = {edit.document for edit in edits if edit.document in documents.unready}
        if not waits_for:
            waits_for.update(self._is_to_be_prepared(change, edits))
        for document in waits_for:
            self._waiting.setdefault(document, {})[place] = None
        if waits_for:
            self._read_of = None
        return bool(waits_for)

    def _is_unready(self, edit: Edit) -> bool:
        documents = self._documents
        return not edit.is_beginning and documents.exists(edit.document) and not documents.get(edit.document).is_ready

    def _is_to_be_prepared(self, change: Change, edits: Sequence[Edit]) -> Iterator[Dot]:
        """A document that the change waits for: it is made ready, or the change comes to more than may be taken in in
        this turn, or it takes a while to find out where its edits stand in newer documents. That is done in the turns
        that follow. Where it takes several documents they are not all made ready first, for which all had to be in
        memory: it is taken in ahead.
        """
        first = edits[0].document
        is_unready = any(map(self._is_unready, edits))
        if is_unready and all(edit.document == first for edit in edits):
            self._documents.is_ready(first)
            yield first
            return
        families_of = self._families(edits)
        parts = STEP_PARTS_MAX + 1 if is_unready else self._parts_of_all(edits, families_of)
        if parts > STEP_PARTS_MAX or any(map(self._is_to_be_placed, edits, families_of)):
            steps = self._take_ahead(change)
            self._documents.prepare(first, steps)
            touched = dict.fromkeys(
                document
                for edit, family in zip(edits, families_of, strict=True)
                for document in ([edit.document] if family is None else family.members)
            )
            for document in filter(self._documents.exists, touched):  # no other edit comes in between
                self._documents.prepare(document, steps)
            yield first
        elif parts > SMALL_PARTS and self._done(0) and self._done(0) + parts > STEP_PARTS_MAX:
            self._documents.prepare(first, _next_turn())
            yield first
        elif parts > SMALL_PARTS:
            self._done(parts)

    def _is_to_be_placed(self, edit: Edit, family: Family | None) -> bool:
        """Whether it takes a while to find out where an edit stands in newer documents."""
        if family is None or edit.is_beginning:
            return False
        return any(True for _ in find_out_after(self._documents, family, edit.document, edit.update))

    def _families(self, edits: Sequence[Edit]) -> list[Family | None]:
        """The family of each edit; those of one document have the same."""
        known: dict[tuple[str, Dot, str | None], Family | None] = {}
        places = [(edit.op.key, edit.document, edit.op.sub) for edit in edits]
        for place, edit in zip(places, edits, strict=True):
            if place not in known:
                known[place] = self._family_here(edit)
        return [known[place] for place in places]

    def _parts_of_all(self, edits: Sequence[Edit], families_of: Sequence[Family | None]) -> int:
        """To how many parts the edits of a change come; if these are more than a turn has, no more is looked at."""
        newer: dict[Dot, int] = {}
        parts = 0
        for edit, family in zip(edits, families_of, strict=True):
            if edit.document not in newer:
                after = [] if family is None else [*filter(self._documents.exists, family.after(edit.document))]
                newer[edit.document] = len(after)
                parts += TAKING_IN_PARTS * sum(not self._documents.is_open(dot) for dot in after)
            parts += self._parts_at_once(edit, family, newer[edit.document], len(edits) == 1)
            if parts > STEP_PARTS_MAX:
                break
        return parts

    def _parts_at_once(self, edit: Edit, family: Family | None, newer: int, is_alone: bool) -> int:
        """To how many parts an edit comes, with what is made of it in so many newer documents."""
        if edit.is_beginning:
            olders = [*filter(self._documents.exists, family.before(edit.document))] if family is not None else []
            if any(len(self._documents.get(older).state()) > AT_ONCE_BYTES_MAX for older in olders):
                return STEP_PARTS_MAX + 1
            return parts_at_most(edit.update, STEP_PARTS_MAX) + TAKING_IN_PARTS * len(olders)
        try:
            parts = self._documents.get(edit.document).parts_at_once(edit.update, is_next=is_alone)
        except (CrdtSyncError, InvalidUpdate):
            return parts_at_most(edit.update, STEP_PARTS_MAX)  # it is judged, and skipped
        return parts + newer * (SMALL_PARTS + parts)

    def _done(self, parts: int) -> int:
        """Note that so much is taken in; how much that was in this turn."""
        if self._parts_of is not self._ledger.batch:
            self._parts, self._parts_of = 0, self._ledger.batch
        self._parts += parts
        return self._parts

    def _take_ahead(self, change: Change) -> Steps[None]:
        """Take a change in by copies of the documents that it edits, one after the other, the oldest first; they take
        their places when it is applied.
        """
        ahead = _TakenAhead(Ahead(self._documents), {}, {})
        edits = [*self._edits_ahead(change, ahead)]
        families_of = dict.fromkeys(family for _, family in edits if family is not None)
        places = {edit.document: (0, edit.document) for edit, _ in edits}
        places |= {document: family.place(document) for family in families_of for document in family.members}
        for document in sorted(places, key=lambda each: places[each]):
            for edit, family in edits:
                if document == edit.document or _is_passed_on(edit, family, document, ahead.made[edit.dot]):
                    ahead.made[edit.dot] += yield from self._made_in(document, edit, family, change, ahead.stage)
        self._ahead, self._ahead_of = ahead, (change.writer, change.seq)

    def _edits_ahead(self, change: Change, ahead: _TakenAhead) -> Iterator[tuple[Edit, Family | None]]:
        """The edits of a change, each with the documents that are one text when it is made."""
        edits, held = edits_of(change), dict[str, list[Entry]]()
        known: dict[tuple[object, ...], Family | None] = {}
        for n, op in enumerate(change.ops):
            here = held.get(op.key)
            if here is None:
                here = self._replica.entries.held(op.key)
                ahead.held[op.key] = [entry.dot for entry in here]
            held[op.key] = here = [entry for entry in here if entry.dot not in op.removes]
            edit = edits.get(n)
            if edit is not None and not self._is_gone(edit):
                told_by = (op.key, edit.document, *(entry.dot for entry in here if entry.sub == LINEAGE))
                if op.sub == LINEAGE or told_by not in known:
                    known[told_by] = self._family(edit, here)
                ahead.made[edit.dot] = []
                yield edit, known[told_by]
                here.append(marker_of(edit))

    def _is_valid(self, ahead: _TakenAhead) -> bool:
        """Whether the change is still made in the same documents, and these are as they were."""
        held = self._replica.entries.held
        return ahead.stage.is_valid and all(
            [entry.dot for entry in held(key)] == dots for key, dots in ahead.held.items()
        )

    def take_waiting(self, document: Dot) -> list[tuple[Writer, int]]:
        """The changes that have waited for a document, which is ready now."""
        return [*self._waiting.pop(document, {})]

    def make_ready(self, change: Change) -> None:
        """Make all that a change edits ready for it, however long that takes."""
        for edit in edits_of(change).values():
            if not edit.is_beginning:
                at_once(self._documents.get(edit.document).make_ready())
        at_once(self._take_ahead(change))

    def _is_gone(self, edit: Edit) -> bool:
        """Whether it is of a document that was purged, by somebody who did not know that."""
        document = edit.document
        if document == edit.dot or not self._replica.purges.covers(edit.op.key, document):
            return False
        return not self._documents.exists(document)

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
        edit = self._take_edit(change, dot.n)
        if edit is None:
            return pack(list(dot))  # purged, or from a careless author: there is nothing to apply
        if self._is_gone(edit):
            return pack(list(edit.document))  # it goes with the next look at the purge
        made = self._made_ahead(dot)
        if made is None:
            made = at_once(self._made(edit, change, self._family_here(edit), self._at_once, is_tried=own))
        for each in made:
            if isinstance(each, CrdtSyncError):
                self._tell_skipped(dot, op, change, each)
            else:
                self._write_down(each, position, change.agent)
        return pack(list(edit.document))

    def _made_ahead(self, dot: Dot) -> list[_Made | CrdtSyncError] | None:
        """The outcome of an edit of the change that was taken in ahead; with the first one the copies replace the
        documents.
        """
        ahead = self._ahead
        if ahead is None or self._ahead_of != dot[:2]:
            return None
        copies = ahead.stage.copies
        if copies and not ahead.stage.is_valid:
            self._ahead = self._ahead_of = None
            return None
        while copies:
            self._documents.put(*copies.popitem())
        made = ahead.made.pop(dot, None)
        if not ahead.made:
            self._ahead = self._ahead_of = None
        return made

    def _write_down(self, made: _Made, position: int, agent: str) -> None:
        row = (self._replica.id, *made.document, position, *made.place, agent, made.update)
        self._ledger.batch.document_updates.append(new_row(DocumentUpdateRow, row))

    # -- documents of one text -----------------------------------------------------------------------------------

    def _made(
        self, edit: Edit, change: Change, family: Family | None, stage: Stage, *, is_tried: bool = False
    ) -> Steps[list[_Made | CrdtSyncError]]:
        """Make an edit in its document, and in all newer ones of the text too; a new one takes in what was edited
        without it. Or why that cannot be. ``is_tried``: it is made in its document.
        """
        made = yield from self._made_in(edit.document, edit, family, change, stage, is_tried=is_tried)
        for newer in [] if family is None else family.after(edit.document):
            if _is_passed_on(edit, family, newer, made):
                made += yield from self._made_in(newer, edit, family, change, stage)
        return made

    def _made_in(
        self, document: Dot, edit: Edit, family: Family | None, change: Change, stage: Stage, *, is_tried: bool = False
    ) -> Steps[list[_Made | CrdtSyncError]]:
        """Make an edit in its document, or in a newer one of the text."""
        dot, update = edit.dot, edit.update
        made: list[_Made | CrdtSyncError] = []
        try:
            if document != edit.document:
                if family is not None and stage.exists(document):
                    update = yield from found(partial(_passed_on, edit, document, family.members[document], stage))
                    yield from stage.apply(document, update)
                    made.append(_Made(document, dot._replace(n=PASSED_ON + dot.n), update))
                return made
            if document in self._refused and not stage.exists(document):
                raise TooLarge("its text would take this host too long to load")
            if not is_tried:
                yield from stage.apply(document, update)
            made.append(new_row(_Made, (document, dot, update)))
            if family is None or not edit.is_beginning:
                return made
            if not any(is_edit_of(later, document) for later in change.ops[dot.n + 1 :]):
                yield from self._take_in_older(document, family, dot, stage, made)
        except CrdtSyncError as error:
            made.append(error)
        return made

    def _is_of_family(self, edit: Edit) -> bool:
        """Whether its document may be one of several of its text."""
        return edit.op.sub == LINEAGE or edit.op.key in self._documents.compacted

    def _family_here(self, edit: Edit) -> Family | None:
        return self._family(edit, self._replica.entries.held(edit.op.key)) if self._is_of_family(edit) else None

    def _family(self, edit: Edit, held: Sequence[Entry]) -> Family | None:
        """The documents of the text that an edit is of, with what it says itself; None: there is but one."""
        if edit.op.sub != LINEAGE and not any(entry.sub == LINEAGE for entry in held):
            return None
        return family_of([*held, marker_of(edit)], edit.document)

    def _take_in_older(
        self, newer: Dot, family: Family, dot: Dot, stage: Stage, made: list[_Made | CrdtSyncError]
    ) -> Steps[None]:
        """Add to ``made`` what ``newer`` lacks of the older documents of its text, when it has it."""
        lacked = 0
        member = family.members[newer]
        for older in filter(stage.exists, family.before(newer)):
            attempt = partial(missing_from, stage.get(older), stage.get(newer), member, may_wait=stage.may_wait)
            update = yield from found(attempt)
            yield
            if update is not None:
                yield from stage.apply(newer, update, CLOCK_MAX)
                lacked += 1
                made.append(_Made(newer, dot._replace(n=TAKEN_IN + lacked), update))

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
                    made: list[_Made | CrdtSyncError] = []
                    stage = AtOnce(self._documents)
                    try:
                        at_once(self._take_in_older(newer, family, Dot(UNKNOWN_WRITER, 0, 0), stage, made))
                    except CrdtSyncError as error:
                        replica.alarms.journal("text_torn", space=replica.name, key=key, reason=error.message)
                    for each in made:
                        assert isinstance(each, _Made)
                        self._write_down(each, position, "")
                        changed.add(key)
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
        text = int(Kind.TEXT)  # thousands are asked
        for entry in [entry for entry in removed if entry.kind == text]:
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
        """Store a document as a whole with the commit under way, and drop the states before it that no snapshot in
        transfer and no checkpoint needs.

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
        pin = replica.checkpoints.newest_pin()
        if not replica.pins and pin is not None:
            batch.document_trims.append(DocumentTrim(replica.id, *dot, 0, replica.position, pin))
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


def _is_passed_on(edit: Edit, family: Family | None, document: Dot, made: Sequence[_Made | CrdtSyncError]) -> bool:
    """Whether an edit, of which this was made in its own document, is to be made in another one."""
    if edit.is_beginning or family is None or document not in family.members or not made:
        return False
    return isinstance(made[0], _Made) and family.place(document) > family.place(edit.document)


def _passed_on(edit: Edit, document: Dot, member: Member, stage: Stage) -> bytes:
    """An edit as it is to be made in a newer document."""
    newer, olders = stage.get(document), [edit.document]
    return placed(edit.update, newer, member, olders, stage.get, structs_max=CLOCK_MAX, may_wait=stage.may_wait)
