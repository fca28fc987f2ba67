"""The texts of a space as Yjs documents in memory.

Documents are loaded at their first use and unloaded when nobody has used them for a while, or when there are too many;
never one of which something is not yet on disk.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, KeysView, Mapping, Sequence
from hashlib import blake2b
from itertools import islice

from crdtsync.causality import Dot
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.text.document import AT_ONCE_BYTES_MAX, Document, Load
from crdtsync.core.text.family import LINEAGE
from crdtsync.core.text.forgetting import CHUNK_CHARS_MAX, Forgotten, forget
from crdtsync.core.text.judging import EDIT_STRUCTS_MAX
from crdtsync.core.text.marker import named_document
from crdtsync.core.text.word_merge import union_slowly, word_edits
from crdtsync.errors import CrdtSyncError, TooLarge
from crdtsync.wire.codec import pack
from crdtsync.wire.limits import shown
from crdtsync.wire.yjs.encoding import Steps, at_once
from crdtsync.wire.yjs.validator import UpdateSummary

STATE_EVERY_UPDATES = 1000
"""How many edits are stored one by one before the whole document is stored again."""

STATE_EVERY_PARTS = 2000
"""The same, in parts of these edits: loading the document makes them all anew, in one turn."""

STATES_BYTES_MAX = 2 * 1024 * 1024
"""Documents that one commit stores as a whole, with the edits that it stores, and one document more; the others that
are due wait for their next edits. A commit of longer edits stores none, and of several such commits every second one
stores one document.
"""

OPEN_DOCUMENTS_MAX = 1000
"""Documents in memory; beyond it the one unused for longest goes."""

OPEN_BYTES_MAX = 64 * 1024 * 1024
"""Documents in memory, as estimated."""

IDLE_S = 60.0
"""How long an unused document stays in memory; and how long one has to be unedited to be looked at for compaction."""


class NotReady(Exception):  # not an error: what needs it waits
    """This document has to be made ready for edits first: see :meth:`Documents.is_ready`. Or it has to be made anew
    for a compaction: see :meth:`Documents.made_anew`.
    """

    def __init__(self, document: Dot, *, is_compaction: bool = False) -> None:
        super().__init__()
        self._document = document
        self._is_compaction = is_compaction

    def is_over(self, documents: Documents) -> bool:
        """Whether that has been done."""
        if self._is_compaction:
            return self._document not in documents.to_compact
        return documents.is_ready(self._document)


class Documents:
    """The documents of one space, by the dot of the marker that created them.

    ``now_s`` (monotonic) is set from outside, by ``wake`` too, which is called with the first use since :meth:`unload`
    has looked at what was used. ``load`` and ``is_stored`` look at what is on disk. ``opened_total``: how many were not
    in memory when they were wanted.
    """

    __slots__ = (
        "_dirty", "_edited", "_has_new", "_is_behind", "_is_stored", "_load", "_markers", "_open", "_shrink_due_s",
        "_used", "awaited", "compacted", "contested", "hashes", "joins", "made", "now_s", "opened_total", "to_compact",
        "unchanged", "unready", "wake",
    )  # fmt: skip

    def __init__(self, load: Load, is_stored: Callable[[Dot], bool]) -> None:
        self.now_s = 0.0
        self.opened_total = 0
        self.wake: Callable[[], None] = _nobody
        self._load = load
        self._is_stored = is_stored
        self._open: OrderedDict[Dot, Document] = OrderedDict()
        self._used: dict[Dot, None] = {}
        self._has_new = False
        self._is_behind = False  # whether the last commit had room for no state, though one was due
        self._shrink_due_s = 0.0
        self._dirty: dict[Dot, None] = {}
        self._edited: OrderedDict[Dot, float] = OrderedDict()
        self.contested: dict[Dot, None] = {}  # whose steps are to be counted
        self.unready: dict[Dot, Steps[None]] = {}  # of which edits wait until they are made ready, by these steps
        self.awaited: dict[Dot, None] = {}  # which an edit needs that waits for another one
        self.unchanged: set[Dot] = set()  # of those that a change was last taken in ahead of
        self.to_compact: dict[Dot, None] = {}  # which somebody waits for
        self.made: dict[Dot, Forgotten | CrdtSyncError] = {}  # and what has come of it
        # edits that unite documents of these states, or why there is none
        self.joins: dict[Dot, tuple[Mapping[Dot, bytes], bytes | CrdtSyncError]] = {}
        self._markers: dict[bytes, tuple[int, str]] = {}
        self.compacted: dict[str, int] = {}  # keys of texts of which a live marker tells the family, and how many do
        self.hashes: dict[bytes, int] = {}  # of what the documents hold, as far as known: by name, as in a marker

    def __len__(self) -> int:
        """How many are in memory."""
        return len(self._open)

    @property
    def is_idle(self) -> bool:
        """Whether nothing of them is in memory that cannot be read from disk."""
        return not (self._open or self._used or self._dirty or self._edited or self.contested or self.unready)

    @property
    def memory_bytes(self) -> int:
        """About how much memory they take."""
        return sum(document.memory_bytes for document in self._open.values())

    def get(self, dot: Dot, *, is_use: bool = True) -> Document:
        """The document of that name; an empty one if nothing is known of it. ``is_use``: it stays for a while."""
        document = self._open.get(dot)
        if document is None or not self._used:
            self.wake()
        if document is None:
            self._make_room(OPEN_DOCUMENTS_MAX - 1)
            self._has_new = True
            self.opened_total += 1
            document = self._open[dot] = Document(dot, self._load)
        else:
            self._open.move_to_end(dot)
        if is_use:
            self._used[dot] = None
        return document

    def held(self, dot: Dot, key: str) -> Document:
        """The document that is the text of a key.

        :raises TooLarge: this node does not hold it.
        """
        if not self.exists(dot):
            raise TooLarge(
                f"this node does not hold the text {shown(key)}: nobody could give it the beginning, or it would take "
                "long to load; an alarm names such texts. Compact it where it can be read, or delete it"
            )
        return self.get(dot)

    def exists(self, dot: Dot) -> bool:
        """Whether any edit of that document was ever applied here and is still held. Creates nothing."""
        document = self._open.get(dot)
        if document is not None and document.is_begun:
            return True
        return self._is_stored(dot)  # an edit that changes nothing made it, maybe

    def parts_of_short(self, dot: Dot, update: bytes) -> int | None:
        """To how many parts an edit comes that is short; None: it is not, or is not of a document that is in memory and
        ready for it.
        """
        document = self._open.get(dot)
        return None if document is None else document.parts_of_short(update)

    def is_ready(self, dot: Dot) -> bool:
        """Whether an edit of that document can be judged at once. If not, it is made ready in the turns that follow;
        no later edit of it may be taken in before those that wait.
        """
        if dot not in self.unready and self.get(dot).is_ready:
            return True
        self.unready.setdefault(dot, self._make_ready(dot))
        return False

    def _make_ready(self, dot: Dot) -> Steps[None]:
        yield from self.get(dot).make_ready()

    def twin(self, dot: Dot) -> Steps[Document]:
        """One that takes edits in ahead: a twin of the one in memory, or what is on disk if there is none."""
        if dot in self._open:
            return (yield from self._open[dot].twin())
        document = self.from_disk(dot)
        yield from document.make_ready()
        return document

    def is_open(self, dot: Dot) -> bool:
        """Whether it is in memory."""
        return dot in self._open

    def from_disk(self, dot: Dot) -> Document:
        """One that is nobody else's, as it is on disk."""
        return Document(dot, self._load)

    def prepare(self, dot: Dot, steps: Steps[None]) -> NotReady:
        """Do these in the turns that follow; who waits for that waits for ``dot``."""
        self.unready[dot] = steps
        self.wake()
        return NotReady(dot)

    def made_anew(self, dot: Dot) -> Forgotten:
        """The document that a compaction makes of another one.

        :raises NotReady: that takes a while, and is done in the turns that follow.
        :raises CrdtSyncError: nothing.
        """
        if len(self.get(dot).state()) <= AT_ONCE_BYTES_MAX:
            return at_once(self.make_anew(dot))
        made = self.made.get(dot)
        if made is None:
            self.to_compact[dot] = None
            raise NotReady(dot, is_compaction=True)
        if isinstance(made, CrdtSyncError):
            raise made
        return made

    def make_anew(self, dot: Dot) -> Steps[Forgotten]:
        """Find that out, in steps."""
        return forget(self.get(dot, is_use=False).state(), EDIT_STRUCTS_MAX, CHUNK_CHARS_MAX)

    def joined(self, winner: Dot, others: Sequence[Dot]) -> bytes:
        """The edit of one document that makes it the union of itself and others.

        :raises CrdtSyncError: one of them holds more than text, or cannot be read.
        :raises NotReady: that takes a while, and is done in the turns that follow.
        """
        states = {dot: self.get(dot).state() for dot in (winner, *others)}
        found = self.joins.get(winner)
        if found is not None and found[0] == states:
            if isinstance(found[1], CrdtSyncError):
                raise found[1]
            return found[1]
        for dot in states:
            if not self.is_ready(dot):
                raise NotReady(dot)
            self.get(dot).check_plain()
        if sum(map(len, states.values())) <= AT_ONCE_BYTES_MAX:
            return at_once(self._join(winner, states))
        raise self.prepare(winner, self._note_joined(winner, states))

    def _note_joined(self, winner: Dot, states: Mapping[Dot, bytes]) -> Steps[None]:
        try:
            self.joins[winner] = states, (yield from self._join(winner, states))
        except CrdtSyncError as error:
            self.joins[winner] = states, error

    def _join(self, winner: Dot, dots: Iterable[Dot]) -> Steps[bytes]:
        # in order of their names, so that all nodes join the same texts to the same text
        whole = yield from union_slowly([self.get(dot).read() for dot in sorted(dots)])
        changes = word_edits(self.get(winner).read(), whole)
        yield
        return (yield from self.get(winner).edited_slowly(changes))

    def put_made(self, dot: Dot, made: Forgotten) -> None:
        """A new document is what a compaction has made, which is nobody else's from then on."""
        self.made = {old: other for old, other in self.made.items() if other is not made}
        self.put(dot, made.document)

    def put(self, dot: Dot, document: Document) -> None:
        """Have this one in the place of a document, of which it is a twin that was edited, or as a new one."""
        self.get(dot)
        self._open[dot] = document.named(dot, self._load)
        self._note_edit(document)

    def is_dirty(self, dot: Dot) -> bool:
        """Whether it has edits that are not yet on disk."""
        return dot in self._dirty

    def apply(
        self, dot: Dot, update: bytes, structs_max: int = EDIT_STRUCTS_MAX, judged: UpdateSummary | None = None
    ) -> None:
        """Take in an edit; see :meth:`Document.apply`."""
        document = self.get(dot)
        document.apply(update, structs_max, judged)
        self._note_edit(document)

    def _note_edit(self, document: Document) -> None:
        dot = document.dot
        if self.joins:
            self.joins.pop(dot, None)
        self._changed(dot)
        self._note_edited(dot)
        if document.is_to_be_counted and len(self.contested) < OPEN_DOCUMENTS_MAX:
            self.contested[dot] = None

    def absorb(self, dot: Dot, state: bytes) -> bytes:
        """Take in the whole document of another replica, after :func:`check_state`; see :meth:`Document.absorb`."""
        is_new = not self.exists(dot)
        whole = self.get(dot).absorb(state, is_new)
        self._changed(dot)
        return whole

    def settle(self, dot: Dot, whole: bytes) -> bytes:
        """See :meth:`Document.settle`."""
        self.get(dot).settle(whole)
        self._changed(dot)
        return whole

    def _changed(self, dot: Dot) -> None:
        self._dirty[dot] = None
        if self.unchanged:
            self.unchanged.discard(dot)
        if self.hashes:
            self.hashes.pop(pack(list(dot)), None)

    def undo(self, dot: Dot) -> None:
        """See :meth:`Document.undo`."""
        document = self.get(dot)
        document.undo()
        self.hashes.pop(pack(list(dot)), None)
        if not document.is_uncommitted:
            self._dirty.pop(dot, None)

    def states_due(self, edits: Iterable[bytes]) -> Iterable[Document]:
        """Documents edited since the last commit that are due to be stored as a whole: those with the most edits first,
        as far as they fit into one commit, which stores these edits.
        """
        if not self._dirty:
            return
        due = [
            document
            for document in (self._open[dot] for dot in sorted(self._dirty))
            if document.updates_since_state >= STATE_EVERY_UPDATES or document.work_since_state >= STATE_EVERY_PARTS
        ]
        if not due:
            return
        left_bytes = max(STATES_BYTES_MAX - sum(map(len, edits)), int(self._is_behind))
        self._is_behind = left_bytes <= 0
        for document in sorted(due, key=lambda each: -each.work_since_state):
            if left_bytes <= 0:
                return
            yield document
            left_bytes -= document.size_bytes

    def committed(self) -> None:
        """The batch is on disk."""
        for dot in self._dirty:
            self._open[dot].committed()
        self._dirty.clear()
        self._make_room(OPEN_DOCUMENTS_MAX)  # none could go before it was on disk

    # -- unloading -----------------------------------------------------------------------------------------

    def unload(self) -> None:
        """Let go of documents that nobody has used for a while, and of the oldest ones if all are too large."""
        if self.awaited and not self.unready:
            self.awaited.clear()
            self._has_new = True  # they may be too many
        used = [dot for dot in self._used if dot in self._open]
        for dot in used:
            self._open[dot].used_s = self.now_s
            self._note_large(self._open[dot])
        self._used.clear()
        while self._open:
            dot, document = next(iter(self._open.items()))
            if dot in self._dirty or document.used_s + IDLE_S > self.now_s:
                break
            del self._open[dot]
        if used and (self._has_new or self.now_s >= self._shrink_due_s):
            self._has_new, self._shrink_due_s = False, self.now_s + 1.0  # sizes are summed up: not at every turn
            self._shrink()

    def unload_due_s(self) -> float | None:
        """When :meth:`unload` or :meth:`take_unedited` has something to do; None: nothing is in memory."""
        due = [next(iter(self._open.values())).used_s] if self._open else []
        due += [next(iter(self._edited.values()))] if self._edited else []
        return min(due) + IDLE_S if due else None

    def drop(self, dot: Dot) -> None:
        """Forget a document that is dropped from disk."""
        self._open.pop(dot, None)
        self._edited.pop(dot, None)
        self.contested.pop(dot, None)
        self.unchanged.discard(dot)
        self.unready.pop(dot, None)
        self.to_compact.pop(dot, None)

    def _make_room(self, count_max: int) -> None:
        excess = min(len(self._open) - count_max, len(self._open) - len(self._dirty))
        if excess > 0:
            for victim in [*islice((dot for dot in self._open if dot not in self._dirty), excess)]:
                del self._open[victim]

    def _shrink(self) -> None:
        excess_bytes = self.memory_bytes - OPEN_BYTES_MAX
        prepared = {steps: dot for dot, steps in reversed(self.unready.items())}.values()  # the first one by each steps
        used = {*self._dirty, *self.awaited, *prepared}
        clean = [dot for dot in self._open if dot not in used] if excess_bytes > 0 else []
        for dot in clean[:-1]:  # not the one in use, however large
            if excess_bytes <= 0:
                return
            excess_bytes -= self._open.pop(dot).memory_bytes

    # -- compaction --------------------------------------------------------------------------------------------

    def take_unedited(self) -> Dot | None:
        """One document that was edited, or loaded while it was large, and has not been edited for a while since."""
        if self._edited:
            dot, edited_s = next(iter(self._edited.items()))
            if edited_s + IDLE_S <= self.now_s and dot not in self._dirty:
                del self._edited[dot]
                return dot
        return None

    def _note_large(self, document: Document) -> None:
        if document.is_large and document.dot not in self._edited:
            self._note_edited(document.dot)
        document.is_large = False

    def _note_edited(self, dot: Dot) -> None:
        if dot in self._edited:
            self._edited.move_to_end(dot)
        elif len(self._edited) >= OPEN_DOCUMENTS_MAX:
            self._edited.popitem(last=False)
        self._edited[dot] = self.now_s

    # -- which documents are named by a live marker --------------------------------------------------------

    def named(self, marker: Entry) -> None:
        """A marker has been added to the live entries."""
        name = marker.value or b""
        count, _ = self._markers.get(name, (0, ""))
        self._markers[name] = (count + 1, marker.key)
        if marker.sub == LINEAGE:
            self.compacted[marker.key] = self.compacted.get(marker.key, 0) + 1

    def unnamed(self, marker: Entry) -> Dot | None:
        """One has been removed. Returns its document if that was the last one."""
        name = marker.value or b""
        if marker.sub == LINEAGE:
            others = self.compacted.pop(marker.key, 0) - 1
            if others > 0:
                self.compacted[marker.key] = others
        count, key = self._markers.get(name, (0, ""))
        if count > 1:
            self._markers[name] = (count - 1, key)
            return None
        self._markers.pop(name, None)
        return named_document(marker.value)

    def names(self) -> KeysView[bytes]:
        """The documents that live markers name, as these name them."""
        return self._markers.keys()

    def content_hash(self, dot: Dot) -> int:
        """A hash of what a document holds: equal on all nodes that have taken in the same edits. Loads it for that."""
        is_open = dot in self._open
        parts: list[object] = [list(dot)]
        if self.exists(dot):
            parts += self.get(dot, is_use=False).content()
        if not is_open and dot not in self._dirty:
            self._open.pop(dot, None)
        return int.from_bytes(blake2b(pack(parts), digest_size=16, person=b"crdtsync-text").digest(), "big")

    def is_named(self, dot: Dot) -> bool:
        """Whether a live marker names the document."""
        return pack(list(dot)) in self._markers

    def key_of(self, dot: Dot) -> str | None:
        """A key with a live marker of the document."""
        found = self._markers.get(pack(list(dot)))
        return found and found[1]


def _nobody() -> None:
    """Nobody needs to be woken."""
