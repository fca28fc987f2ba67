"""One text as a Yjs document, in memory.

Every update passes the structural validation of :mod:`crdtsync.wire.yjs.validator` first. After any exception from the
Yjs library the replica in memory is never used again: it is rebuilt from disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, TypeVar

from crdtsync.causality import Dot
from crdtsync.core.text.judging import EDIT_LOOKED_AT_MAX, EDIT_STRUCTS_MAX, judge_edit, judge_state, refused
from crdtsync.core.text.yjs_library import (
    NO_CHANGE,
    NO_CLOCKS,
    ROOT,
    ROOTS,
    client_of,
    edited_by,
    in_few,
    is_panic,
    loaded_in_steps,
    new_doc,
    text_of,
)
from crdtsync.differences import Edit
from crdtsync.errors import CrdtSyncError, InvalidValue, TooLarge
from crdtsync.wire.codec import pack
from crdtsync.wire.limits import MOVED_BYTES_A_PART, MOVES_A_SCAN, WORK_PARTS_MAX
from crdtsync.wire.yjs.competition import COMPARED_A_PART, SIBLINGS_MAX, Competition, counted
from crdtsync.wire.yjs.encoding import BYTES_A_PART, SHORT_BYTES_MAX, Steps, at_once, parts_at_most
from crdtsync.wire.yjs.rewriting import contradiction, in_pieces
from crdtsync.wire.yjs.state_vector import decode_state_vector, encode_state_vector
from crdtsync.wire.yjs.validator import (
    InvalidUpdate,
    Outline,
    UpdateSummary,
    advance,
    holds_only_text,
    validate_slowly,
)

if TYPE_CHECKING:
    from crdtsync.core.text.drafted_edits import DraftedEdits
    from crdtsync.core.text.places import Beginning, Places
    from crdtsync.core.text.yjs_library import YjsText
    from crdtsync.wire.yjs.rewriting import Inserted

CONTESTED_STEPS_MIN = 100_000
"""Steps that loading a document may take, before it is compacted by itself."""

CONTESTED_STEPS_MAX = 400_000
"""The same, before an agent of this host may insert nothing more."""

LOOKED_AT_A_PART = 300
"""To look at so many takes as long as to insert a part."""

LIBRARY_PARTS = 16
"""So many parts the Yjs library inserts in the time in which one is judged, where it need not look far."""

STEP_PARTS_MAX = WORK_PARTS_MAX // 2
"""To so many parts comes what is taken in of other hosts' edits in one turn: some 20 ms."""

COUNT_ITEMS_FACTOR = 100
"""The items of a document by which these steps may grow until they are counted anew."""

ITEMS_MAX = 20_000
"""Items of a document, at a local edit that inserts; twice as many at one that deletes. The Yjs library loads, writes
and reads so many in one call each.
"""

CROWDED_ITEMS_MIN = 10_000
"""A document with more is compacted by itself."""

COUNT_ITEMS_EACH = 5000
"""By so many items a document may grow, as far as is known, until they are counted anew."""

DOCUMENT_BYTES_MAX = 7 * 1024 * 1024
"""A document with what was deleted from it, at a local edit that inserts: soon it would not fit into a reply."""

LOAD_STEP_BYTES = 8 * 1024
"""Edits that are loaded in one step, some 10 ms; or one edit, or a whole state, however long."""

AT_ONCE_BYTES_MAX = 16 * 1024
"""A document that takes more is made ready for edits in steps: it may have so many items that this takes 25 ms."""

REPEATED_UNITS_MAX = 2000
"""If an edit repeats what the document holds, so many characters are compared with it."""

BULKY_BYTES_MIN = 64 * 1024
"""A document that takes less is never compacted by itself."""

BULKY_FACTOR = 4
"""Nor one that takes less than so many times the bytes of its text, unless it takes :data:`BULKY_OVERHEAD_BYTES`."""

BULKY_OVERHEAD_BYTES = 512 * 1024
"""Overhead of a document beside its text, beyond which it is compacted however long the text is: some 50,000 items,
between which a place is found in 10 to 15 ms.
"""

MORE_THAN_TEXT = (
    "this text holds more than characters (formats, embedded objects, or other shared types beside it), which a new "
    "document would lose"
)

# Measured with pycrdt 0.14.13: memory of an empty document, and of each of its parts.
_EMPTY_BYTES = 4096
_STRUCT_BYTES = 220
_STRUCT_STATE_BYTES = 7  # what a part takes in a state, beside its text
_JUDGED_BYTES = 250  # what an item takes in what edits are judged by
_INSERTED_BYTES = 320  # and one that was read to place others beside it

_PART_BYTES = 10  # of an update: a part of it
_PART_TEXT_BYTES = 100  # to insert so many takes as long as a part

Load = Callable[[Dot], tuple[bytes | None, list[bytes]]]
T = TypeVar("T")


class Document:
    """One Yjs document, loaded from disk at its first use."""

    __slots__ = (
        "_checked", "_doc", "_is_measured", "_is_odd", "_items_over", "_judged", "_library_bytes", "_load", "_loading",
        "_outline", "_size_bytes", "_steps_counted", "_uncommitted", "beginning", "dot", "inserted", "is_large",
        "items", "placed", "places", "steps", "updates_since_state", "used_s", "work_since_state",
    )  # fmt: skip

    def __init__(self, dot: Dot, load: Load) -> None:
        self.dot = dot
        self._library_bytes = _EMPTY_BYTES
        self.updates_since_state = 0
        self.work_since_state = 0
        """How many parts these have, about."""
        self.used_s = 0.0
        self.is_large = False
        self.places: dict[Dot, Places] = {}
        """The places that this one has forgotten of older documents of the text, as far as it was asked for."""
        self.beginning: Beginning | None = None
        """The text that a compaction began it with, likewise."""
        self.inserted: Inserted = {}
        """The text that was inserted since, likewise."""
        self.placed: tuple[bytes, bytes | CrdtSyncError] | None = None
        """An edit by somebody who reads older documents too, and how it is to be made on top of what this one holds, or
        why it cannot be.
        """
        self.steps = 0
        """How many the Yjs library may take to load it, when that was counted last."""
        self.items = 0
        """How many it had then."""
        self._steps_counted = 0
        self._items_over = 0  # so many fewer items it had, when they were counted last, than edits are judged by
        self._load = load
        self._doc: YjsText | None = None
        self._loading: YjsText | None = None  # what becomes that
        self._outline: Outline | None = None
        self._uncommitted: list[bytes] = []
        self._size_bytes = 0
        self._is_measured = False
        self._judged: tuple[bytes, Outline, UpdateSummary | InvalidValue] | None = None
        self._checked: tuple[bytes, UpdateSummary] | None = None  # an update, on top of what it holds now
        self._is_odd = False  # so that nothing can be made of it that edits are judged by

    @property
    def memory_bytes(self) -> int:
        """About how much memory it takes, with what edits are judged by and placed by."""
        size_bytes = self._library_bytes
        if self._outline is not None:
            size_bytes += _JUDGED_BYTES * self._outline.competition.placed
        if self.beginning is not None:
            size_bytes += self.beginning.memory_bytes
        if self.placed is not None:
            size_bytes += 2 * len(self.placed[0])
        size_bytes += sum(places.memory_bytes for places in self.places.values())
        return size_bytes + _INSERTED_BYTES * sum(map(len, self.inserted.values()))

    def loaded_bytes(self) -> int:
        """The same once it is in memory, where it is put."""
        self._loaded()
        return self.memory_bytes

    def let_go(self) -> None:
        """Have nothing of it in memory but what is not on disk, until it is used again."""
        self._reload()
        self.places, self.beginning = {}, None
        self._library_bytes = _EMPTY_BYTES + sum(map(len, self._uncommitted))

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever applied to it."""
        return not self._outline and self._read(lambda doc: doc.get_state()) == NO_CLOCKS

    @property
    def is_begun(self) -> bool:
        """Whether any edit was ever applied to it."""
        return bool(self._outline or self._uncommitted) or not self.is_empty

    @property
    def is_uncommitted(self) -> bool:
        """Whether it has edits that are not yet on disk."""
        return bool(self._uncommitted)

    def check(
        self,
        update: bytes,
        before: DraftedEdits | None = None,
        structs_max: int = EDIT_STRUCTS_MAX,
        looked_at_max: int = EDIT_LOOKED_AT_MAX,
        work_max: int | None = None,
    ) -> UpdateSummary:
        """Refuse an update that is not acceptable on top of what the document holds, and of the edits ``before``.

        :raises InvalidValue: malformed, or it refers to edits that the document does not hold.
        :raises TooLarge: too many parts, or it comes to more than ``work_max``.
        """
        self._loaded()
        try:
            outline = self.outline() if before is None else before.outline(self)
            return at_once(judge_edit(update, outline, structs_max, looked_at_max, work_max))
        except InvalidUpdate as error:
            raise refused(error) from None

    @property
    def is_contested(self) -> bool:
        """Whether so many edits compete for the same places that no more may be inserted."""
        since_load = self._outline.competition.looked_at if self._outline is not None else 0
        return self.steps > CONTESTED_STEPS_MAX or since_load > EDIT_LOOKED_AT_MAX

    @property
    def is_crowded(self) -> bool:
        """Whether it had so many items, or took so many steps to load, when these were counted last, that it is to be
        compacted.
        """
        return self.items > CROWDED_ITEMS_MIN or self.steps >= CONTESTED_STEPS_MIN

    @property
    def is_to_be_counted(self) -> bool:
        """Whether it may have many more items, or loading it may take many more steps, than when they were counted."""
        if self._outline is None:
            return False
        competition = self._outline.competition
        more_items = competition.items - self._items_over - self.items
        more_steps = competition.steps - self._steps_counted
        if more_items > COUNT_ITEMS_EACH:
            return True
        return more_steps > CONTESTED_STEPS_MIN and more_steps > COUNT_ITEMS_FACTOR * competition.items

    def count(self) -> Steps[None]:
        """Count its items, and the steps, and know them from then on."""
        outline = self.outline()
        competition = outline.competition
        self._steps_counted, looked_at, items = competition.steps, competition.looked_at, competition.items
        longest = competition.longest
        exact = yield from counted(self.state(), ROOT)
        self.steps = exact.steps
        if self._outline is outline:
            competition.looked_at -= min(looked_at, competition.looked_at)
            self._know_items(exact.items, items)
            competition.longest += exact.longest - longest

    def _know_items(self, items: int, judged: int) -> None:
        """It has, or had, so many, where edits are judged as if it had ``judged``."""
        self.items, self._items_over = items, judged - items

    def items_with(self, summary: UpdateSummary) -> int:
        """How many items it has at most with an edit that was judged on top of what it holds."""
        return summary.competition.items - self._items_over

    def check_author(self, update: bytes, summary: UpdateSummary, before: Sequence[bytes] = ()) -> None:
        """Refuse an update that says something else of ids than the document does, or than the edits ``before``: the
        Yjs library would drop that part of it without a word. If an update repeats much, that part is not compared.

        :raises InvalidValue: it does.
        """
        clocks = self.outline()
        repeated = {client: first for client, (first, _) in summary.ranges.items() if first < clocks.get(client, 0)}
        units = sum(clocks[client] - first for client, first in repeated.items())
        held = [*before]
        if repeated and units <= REPEATED_UNITS_MAX:
            state = encode_state_vector({**clocks, **repeated})
            held.append(self._read(lambda doc: doc.get_update(state)))
        found = next(filter(None, (contradiction(update, other) for other in held)), None)
        if found is not None:
            raise InvalidValue(
                f"clock {found[1]:,} of the Yjs client id {found[0]} is another character already: two programs have "
                "that id; give each replica one of its own, which is random",
                path="$",
            )

    def apply(self, update: bytes, structs_max: int = EDIT_STRUCTS_MAX, judged: UpdateSummary | None = None) -> None:
        """Take in an update; the document is as it was if this raises.

        ``judged``: what :meth:`check` has said of it, on top of what the document holds now.

        :raises InvalidValue: see :meth:`check`; or the Yjs library could not take it.
        """
        if judged is None and self._checked is not None and self._checked[0] == update:
            judged = self._checked[1]
        judged = self.check(update, structs_max=structs_max) if judged is None else judged
        update = judged.joined or update
        self._library_takes(update)
        self._note_taken_in(update, judged)

    def twin(self) -> Steps[Document]:
        """One of its own, made in steps, which takes edits in ahead of this one.

        :raises InvalidValue: this one cannot be made ready for edits.
        """
        yield from self.make_ready()
        twin = copy(self)
        yield from twin._share_nothing()  # noqa: SLF001  # of its own class
        return twin

    def _share_nothing(self) -> Steps[None]:
        """With the document of which this is a copy."""
        try:
            self._outline, state = self.outline().copy(), self.state()
        except InvalidUpdate as error:
            raise refused(error) from None
        competition = self._outline.competition
        yield
        if competition.steps > STEP_PARTS_MAX * LOOKED_AT_A_PART:
            self._doc = yield from loaded_in_steps(state, _sizes_a_step(competition)[0])
        else:
            self._doc = new_doc()
            self._doc.apply_update(state)
        self._uncommitted = [*self._uncommitted]
        self.places, self.inserted = {**self.places}, {client: [*structs] for client, structs in self.inserted.items()}
        yield

    def named(self, dot: Dot, load: Load) -> Document:
        """The same, which had no name."""
        self.dot, self._load = dot, load
        return self

    def take_ahead(self, update: bytes, structs_max: int = EDIT_STRUCTS_MAX) -> Steps[None]:
        """:meth:`apply` an update in steps; of a document that is no other's yet.

        :raises InvalidValue: as :meth:`apply`.
        """
        try:
            judged = yield from judge_edit(update, self.outline(), structs_max, EDIT_LOOKED_AT_MAX)
        except InvalidUpdate as error:
            raise refused(error) from None
        if judged.parts > STEP_PARTS_MAX // 2:
            yield
        update = judged.joined or update
        parts = judged.parts // LIBRARY_PARTS + self._looked_at_parts(judged)
        if parts <= STEP_PARTS_MAX:
            self._library_takes(update)
        else:
            structs, ranges = _sizes_a_step(judged.competition)
            for group in (yield from in_pieces(update, self.outline(), structs, ranges)):
                for piece in group:
                    self._library_takes(piece)
                yield
        self._note_taken_in(update, judged)

    def parts_of_short(self, update: bytes) -> int | None:
        """To how many parts a short update comes, which the Yjs library takes in at once wherever it has to look; None:
        it is not known to be such a one.
        """
        if len(update) > SHORT_BYTES_MAX or not self._outline:
            return None
        parts, competition = len(update) // BYTES_A_PART, self._outline.competition
        looks = competition.items // LOOKED_AT_A_PART + competition.longest // MOVED_BYTES_A_PART
        return parts if parts * (1 + looks) <= STEP_PARTS_MAX else None

    def parts_at_once(self, update: bytes, *, is_next: bool) -> int:
        """To how many parts it comes at most to take an update in at once. ``is_next``: on top of what it holds now;
        else it is not known where the Yjs library has to look.

        :raises InvalidValue: as :meth:`check`.
        """
        parts, competition = parts_at_most(update, STEP_PARTS_MAX), self.outline().competition
        compared_parts = parts * SIBLINGS_MAX // COMPARED_A_PART
        is_light = parts + compared_parts <= STEP_PARTS_MAX and parts <= min(_sizes_a_step(competition))
        if parts > STEP_PARTS_MAX or is_light:
            return parts
        if not is_next:
            looks = competition.items // LOOKED_AT_A_PART + competition.longest // MOVED_BYTES_A_PART
            return parts * (1 + looks) + compared_parts
        try:
            summary = self.check(update, work_max=STEP_PARTS_MAX)
        except TooLarge:
            return STEP_PARTS_MAX + 1
        self._checked = update, summary
        return parts + self._looked_at_parts(summary) + summary.competition.compared // COMPARED_A_PART

    def _looked_at_parts(self, summary: UpdateSummary) -> int:
        """The parts that the Yjs library looks at and goes through for an update."""
        looked_at = summary.competition.looked_at - self.outline().competition.looked_at
        return looked_at // LOOKED_AT_A_PART + self.moved_bytes(summary) // MOVED_BYTES_A_PART

    def _library_takes(self, update: bytes) -> None:
        self._use(lambda doc: doc.apply_update(update), "the Yjs library refuses this update", InvalidValue)

    def _note_taken_in(self, update: bytes, summary: UpdateSummary) -> None:
        outline = self.outline()
        self._checked = self.placed = None
        advance(outline, summary)
        outline.competition.cut_at = []
        self._library_bytes += len(update) + 3 * _STRUCT_BYTES * summary.structs
        self.work_since_state += summary.parts + len(update) // _PART_TEXT_BYTES
        self._size_bytes += len(update)
        self._is_measured = False
        self._uncommitted.append(update)
        self.updates_since_state += 1

    def absorb(self, state: bytes, is_new: bool) -> bytes:
        """Take in the whole document of another replica; returns the whole document as it is then, to be stored.

        ``is_new``: nothing is held of it; then it is loaded at its first use.

        :raises InvalidValue: as :meth:`apply`; the document is as it was.
        """
        if is_new:
            self._reload()
            self._uncommitted.append(state)
            return state
        if state == self.state():
            return state  # nothing is new; to judge it anew takes 0.6 s for 1.8 MB
        outline, judged, self._judged = self.outline(), self._judged, None
        if judged is not None and judged[0] == state and judged[1] == outline:
            if isinstance(judged[2], InvalidValue):
                raise judged[2]
            summary = judged[2]
        else:
            summary = at_once(judge_state(state, outline))
        self._use(lambda doc: doc.apply_update(state), "the Yjs library refuses this state", InvalidValue)
        self._checked = self.placed = None
        advance(outline, summary)
        self._uncommitted.append(state)
        self._library_bytes += len(state) + 3 * _STRUCT_BYTES * summary.structs
        whole = self.state()
        self._size_bytes, self._is_measured = len(whole), True
        return whole

    def judge(self, state: bytes) -> Steps[None]:
        """The part of :meth:`absorb` that takes long, in steps. It is done anew then if edits have come meanwhile."""
        if state == self.state():
            return
        yield from self.make_ready()
        if self._outline is not None:
            outline = self._outline.copy()
            try:
                self._judged = state, outline, (yield from judge_state(state, outline))
            except InvalidValue as error:
                self._judged = state, outline, error

    def settle(self, whole: bytes) -> None:
        """Hold ``whole`` from now on, which is what this document and another replica's are together.

        The order of characters with forged neighbours is that in which they were taken in, and so may be another one on
        each node, until all load the same state.
        """
        doc = new_doc()
        doc.apply_update(whole)  # which has been loaded once, to compare it
        self._doc, self._loading, self._outline, self._checked, self.placed = doc, None, None, None, None
        self._uncommitted.append(whole)

    def undo(self) -> None:
        """Take back the update applied last, which was not committed."""
        self._uncommitted.pop()
        self._reload()

    def read(self) -> str:
        """The text."""
        return self._read(lambda doc: str(text_of(doc)))

    def text_bytes(self) -> int:
        """How long the text is in UTF-8, without putting it together."""
        return self._read(lambda doc: len(text_of(doc)))

    @property
    def size_bytes(self) -> int:
        """How large it is at most, of a loaded one."""
        return self._size_bytes

    def moved_bytes(self, summary: UpdateSummary) -> int:
        """The bytes that the Yjs library goes through at most where an edit cuts strings in two.

        To find the place it goes through the string up to there; what follows is moved, which takes a fortieth.
        """
        competition = summary.competition
        cuts = max(min(competition.added, summary.structs), sum(map(len, summary.deletes.values())))
        return competition.scanned + competition.longest * cuts // MOVES_A_SCAN

    def bytes_with(self, update: bytes, bytes_max: int) -> int:
        """At most how large it is with an update; more than ``bytes_max`` only if it is about that."""
        self._loaded()
        if self._size_bytes + len(update) > bytes_max and not self._is_measured:
            self._size_bytes, self._is_measured = len(self.state()), True
        return self._size_bytes + len(update)

    def text_bytes_with(self, update: bytes) -> int:
        """The same with an update that :meth:`check` has passed. To be called of a copy: it is not undone."""
        self._use(lambda doc: doc.apply_update(update), "the Yjs library refuses this update", InvalidValue)
        return self.text_bytes()

    def content(self) -> list[object]:
        """The content, in a form that does not depend on how it came about: who has inserted how much, and the text,
        which shows what has been deleted.
        """
        try:
            clocks = sorted(self.clocks().items())
            return [[part for pair in clocks for part in pair], self.read()] if clocks else []
        except CrdtSyncError:
            return ["unreadable"]

    def updates_after(self, state: bytes | None) -> bytes:
        """The updates that a replica with Yjs state vector ``state`` lacks; all of it for None.

        :raises InvalidValue: not a state vector.
        """
        if state is None:
            return self._read(lambda doc: doc.get_update())
        try:
            decode_state_vector(state)
        except InvalidUpdate as error:
            raise InvalidValue(f"not a Yjs state vector: {error}", path="$") from None
        return self._read(lambda doc: doc.get_update(state))

    def state(self) -> bytes:
        """The whole document as one update."""
        return self._read(lambda doc: doc.get_update())

    def edited(self, changes: Sequence[Edit]) -> bytes:
        """The Yjs update that makes ``changes`` (of code points, ascending) to the text; the document stays as it is.

        Its Yjs client id is a hash of what it does and of what it is made on top of. So two nodes that work out the
        same edit of the same document make the same bytes, which count once; and no id is ever used for two things.
        """
        return at_once(self.edited_slowly(changes))

    def edited_slowly(self, changes: Sequence[Edit], like: bytes | None = None) -> Steps[bytes]:
        """The same in steps: the library loads the whole document twice for it."""
        state = self.state()
        past = pack([list(self.dot), [part for pair in sorted(self.clocks().items()) for part in pair]])
        draft = edited_by(state, changes, client_of(past), like)
        yield
        return draft if draft == NO_CHANGE else edited_by(state, changes, client_of(past, draft), like)

    def roots(self) -> list[str]:
        """The names of what it holds: the text, a map, and what only editors know."""
        return self._read(lambda doc: [*doc.keys()])

    def check_plain(self) -> None:
        """Refuse a document that holds more than the characters of its text: formats, embedded objects, other roots.

        :raises InvalidValue: it does.
        """
        if self._outline is not None and self._outline.is_plain:
            return
        if not holds_only_text(self.state(), ROOT):
            raise InvalidValue(MORE_THAN_TEXT, path="$")

    def is_bulky(self, began_with: Mapping[int, int]) -> bool:
        """Whether it takes much more room than its text would, and enough was typed since it was made to change that.

        ``began_with``: its clocks when a compaction made it. A text that was in many pieces then will be so again.
        """
        size_bytes, text_bytes = len(self.state()), self.text_bytes()
        typed = sum(self.clocks().values()) - sum(began_with.values())
        overhead_bytes = size_bytes - text_bytes
        is_large = overhead_bytes > min((BULKY_FACTOR - 1) * text_bytes, BULKY_OVERHEAD_BYTES)
        return is_large and size_bytes > BULKY_BYTES_MIN and typed >= min(text_bytes, BULKY_OVERHEAD_BYTES)

    def committed(self) -> None:
        """All applied edits are on disk: a reload will find them there."""
        self._uncommitted.clear()

    def _reload(self) -> None:
        """Before it is used again."""
        self._doc = self._loading = self._outline = self._checked = self.placed = None
        self.inserted.clear()

    def _loaded(self) -> YjsText:
        if self._doc is None:
            at_once(self.load())
        return self._doc  # type: ignore[return-value]  # which that has done

    def load(self) -> Steps[None]:
        """Have it in memory, in steps: what came since it was stored as a whole may be much, in a state of the past."""
        if self._doc is not None:
            return
        state, updates = self._load(self.dot)
        self._outline = None
        doc, done = new_doc(), 0
        self._loading = doc
        parts = [*([state] if state else ()), *updates, *self._uncommitted]
        try:
            for part in parts:
                doc.apply_update(in_few(part) if part != state else part)
                done += len(part)
                if done > LOAD_STEP_BYTES:
                    done = 0
                    yield
                    if self._loading is not doc:
                        return  # somebody has used it meanwhile, and edited it perhaps
            state_bytes = len(parts[0]) if len(parts) == 1 else len(doc.get_update())
            text_bytes = len(text_of(doc))
        except GeneratorExit:  # nobody wants it any more
            raise
        except BaseException as error:  # noqa: BLE001  # raised again, or as an error of ours
            raise self._failed(error, "the text cannot be read", CrdtSyncError) from None
        self.updates_since_state = len(updates)
        self.work_since_state = sum(map(len, updates)) // _PART_BYTES
        overhead_bytes = max(0, state_bytes - text_bytes)
        self._library_bytes = _EMPTY_BYTES + state_bytes + overhead_bytes * _STRUCT_BYTES // _STRUCT_STATE_BYTES
        self.is_large = state_bytes > BULKY_BYTES_MIN
        self._size_bytes, self._is_measured = state_bytes, True
        self._doc, self._loading = doc, None

    def outline(self) -> Outline:
        """The outline that updates are judged by; made when the first one comes, since reads need none."""
        if self._outline is None:
            self._begin_outline(at_once(self._make_outline()))
        return self._outline  # type: ignore[return-value]

    @property
    def is_ready(self) -> bool:
        """Whether an edit can be judged at once; else :meth:`make_ready` is to come first."""
        if self._outline is None and not self._is_odd:
            try:
                self._loaded()
            except CrdtSyncError:
                self._is_odd = True
        return self._outline is not None or self._is_odd or self._size_bytes <= AT_ONCE_BYTES_MAX

    def make_ready(self) -> Steps[None]:
        """Find out what edits are judged by, in steps. If that fails, the next edit is told why."""
        try:
            doc = self._loaded()
            outline = yield from self._make_outline()
        except (CrdtSyncError, InvalidUpdate):
            self._is_odd = True
        else:
            if self._outline is None and self._doc is doc:
                self._begin_outline(outline)

    def _make_outline(self) -> Steps[Outline]:
        outline = Outline(ROOTS)
        summary = yield from validate_slowly(self.state(), outline, is_own_state=True)
        yield
        advance(outline, summary)
        return outline

    def _begin_outline(self, outline: Outline) -> None:
        outline.competition.looked_at = 0
        self._outline = outline
        self._steps_counted = 0
        self._know_items(outline.competition.placed, outline.competition.items)
        outline.competition.longest = outline.competition.largest
        outline.competition.cut_at = []

    def clocks(self) -> dict[int, int]:
        """For each Yjs client the clock that comes next."""
        return self._read(lambda doc: decode_state_vector(doc.get_state()))

    def _read(self, read: Callable[[YjsText], T]) -> T:
        """Read; once more after a reload if the replica in memory turns out to be broken."""
        try:
            return self._use(read, "the text cannot be read", CrdtSyncError)
        except CrdtSyncError:
            return self._use(read, "the text cannot be read", CrdtSyncError)

    def _use(self, work: Callable[[YjsText], T], failure: str, error_type: type[CrdtSyncError]) -> T:
        doc = self._loaded()
        try:
            return work(doc)
        except BaseException as error:  # noqa: BLE001  # as above
            raise self._failed(error, failure, error_type) from None

    def _failed(self, error: BaseException, failure: str, error_type: type[CrdtSyncError]) -> BaseException:
        """The library has raised something: the replica may be half changed, so it is never used again."""
        self._reload()
        if is_panic(error):
            return error_type(f"{failure}: the Yjs library failed: {error}")
        return error


def _sizes_a_step(competition: Competition) -> tuple[int, int]:
    """How many items, and how many ranges to be deleted, come to :data:`STEP_PARTS_MAX` at most for the Yjs library."""
    scan = competition.longest // MOVED_BYTES_A_PART
    looks = LIBRARY_PARTS * (competition.items // LOOKED_AT_A_PART + scan)
    items = STEP_PARTS_MAX * LIBRARY_PARTS // (1 + looks)
    ranges = (STEP_PARTS_MAX - scan) * MOVES_A_SCAN // (MOVES_A_SCAN + scan)
    return max(1, items), max(1, ranges)
