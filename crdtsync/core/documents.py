"""Texts as Yjs documents: the only door to pycrdt in the core.

pycrdt can panic (a ``BaseException``) or kill the process on hostile bytes, so every update passes the structural
validation of :mod:`crdtsync.wire.yjs` first. After any exception from the library the replica in memory is never used
again: it is rebuilt from disk.

Documents are loaded at their first use and unloaded when nobody has used them for a while, or when there are too many;
never one of which something is not yet on disk.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, KeysView, Sequence
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from crdtsync.causality import Dot, Writer
from crdtsync.core.entries import Entry
from crdtsync.differences import Edit
from crdtsync.errors import CrdtSyncError, InvalidEncoding, InvalidValue
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.state_vector import decode_state_vector
from crdtsync.wire.yjs import InvalidUpdate, Outline, UpdateSummary, advance, holds_only_text, validate_update

if TYPE_CHECKING:
    from pycrdt import Doc, Text

ROOT = "text"
NO_CHANGE = b"\0\0"
"""The Yjs update with neither insertions nor deletions."""

UNKNOWN_WRITER = Writer(0)
"""By whom an edit on disk is that came with others, in a snapshot."""

STATE_EVERY_UPDATES = 1000
"""How many edits are stored one by one before the whole document is stored again."""

EDIT_STRUCTS_MAX = 2000
"""Parts of one edit: hostile ones cost the Yjs library quadratic time, about 0.7 s for so many."""

OPEN_DOCUMENTS_MAX = 1000
"""Documents in memory; beyond it the one unused for longest goes."""

OPEN_BYTES_MAX = 64 * 1024 * 1024
"""The same in bytes, as estimated."""

IDLE_S = 60.0
"""How long an unused document stays in memory; and how long one has to be unedited to be looked at for compaction."""

BULKY_BYTES_MIN = 64 * 1024
"""A document that takes less is never compacted by itself."""

BULKY_FACTOR = 4
"""Nor one that takes less than so many times the bytes of its text."""

# Measured with pycrdt 0.14.13: memory of an empty document, and of each of its parts.
_EMPTY_BYTES = 4096
_STRUCT_BYTES = 220
_STRUCT_STATE_BYTES = 7  # what a part takes in a state, beside its text

Load = Callable[[Dot], tuple[bytes | None, list[bytes]]]
T = TypeVar("T")


class Document:
    """One Yjs document, loaded from disk at its first use."""

    __slots__ = (
        "_doc", "_load", "_outline", "_uncommitted", "dot", "is_large", "memory_bytes", "updates_since_state", "used_s"
    )  # fmt: skip

    def __init__(self, dot: Dot, load: Load) -> None:
        self.dot = dot
        self.memory_bytes = _EMPTY_BYTES
        self.updates_since_state = 0
        self.used_s = 0.0
        self.is_large = False
        self._load = load
        self._doc: Doc[Text] | None = None
        self._outline: Outline | None = None
        self._uncommitted: list[bytes] = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever applied to it."""
        return not self._clocks()

    @property
    def is_uncommitted(self) -> bool:
        """Whether it has edits that are not yet on disk."""
        return bool(self._uncommitted)

    def check(self, update: bytes, before: Sequence[bytes] = ()) -> UpdateSummary:
        """Refuse an update that is not acceptable on top of what the document holds, and of the updates ``before``.

        :raises InvalidValue: malformed, or it refers to edits that the document does not hold.
        """
        self._loaded()
        try:
            outline = self._judged_by()
            if before:
                outline = outline.copy()
                for earlier in before:
                    advance(outline, validate_update(earlier, outline))
            summary = validate_update(update, outline)
        except InvalidUpdate as error:
            raise InvalidValue(f"not an acceptable Yjs update: {error}", path="$") from None
        if summary.structs > EDIT_STRUCTS_MAX:
            raise InvalidValue(
                f"an edit of {summary.structs:,} parts; at most {EDIT_STRUCTS_MAX:,} fit: split it", path="$"
            )
        return summary

    def apply(self, update: bytes) -> None:
        """Take in an update; the document is as it was if this raises.

        :raises InvalidValue: see :meth:`check`; or the Yjs library could not take it.
        """
        summary = self.check(update)
        outline = self._judged_by()
        self._use(lambda doc: doc.apply_update(update), "the Yjs library refuses this update", InvalidValue)
        advance(outline, summary)
        self._uncommitted.append(update)
        self.updates_since_state += 1
        self.memory_bytes += len(update) + 3 * _STRUCT_BYTES * summary.structs

    def absorb(self, state: bytes, is_new: bool) -> bytes:
        """Take in the whole document of another replica; returns the whole document as it is then, to be stored.

        ``is_new``: nothing is held of it; then it is loaded at its first use.

        :raises InvalidValue: as :meth:`apply`; the document is as it was.
        """
        if is_new:
            self._doc = self._outline = None
            self._uncommitted.append(state)
            return state
        outline = self._judged_by()
        summary = _judge_state(state, outline)
        self._use(lambda doc: doc.apply_update(state), "the Yjs library refuses this state", InvalidValue)
        advance(outline, summary)
        self._uncommitted.append(state)
        self.memory_bytes += len(state) + 3 * _STRUCT_BYTES * summary.structs
        return self.state()

    def undo(self) -> None:
        """Take back the update applied last, which was not committed."""
        self._uncommitted.pop()
        self._doc = self._outline = None

    def read(self) -> str:
        """The text."""
        return self._read(lambda doc: str(_root(doc)))

    def text_bytes(self) -> int:
        """How long the text is in UTF-8, without putting it together."""
        return self._read(lambda doc: len(_root(doc)))

    def content(self) -> list[object]:
        """What it holds, in a form that does not depend on how it came about: who has inserted how much, and the text,
        which shows what has been deleted.
        """
        try:
            clocks = sorted(self._clocks().items())
            return [[part for pair in clocks for part in pair], self.read()] if clocks else []
        except CrdtSyncError:
            return ["unreadable"]

    def updates_after(self, state: bytes | None) -> bytes:
        """What a replica with Yjs state vector ``state`` lacks; all of it for None.

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
        state = self.state()
        past = pack([list(self.dot), [part for pair in sorted(self._clocks().items()) for part in pair]])
        draft = _make_edit(state, changes, _client_of(past))
        return draft if draft == NO_CHANGE else _make_edit(state, changes, _client_of(past, draft))

    def check_plain(self) -> None:
        """Refuse a document that holds more than the characters of its text: formats, embedded objects, other roots.

        :raises InvalidValue: it does.
        """
        if not holds_only_text(self.state(), ROOT):
            raise InvalidValue(
                "this text holds more than characters (formats, embedded objects, or other shared types beside it), "
                "which a new document would lose",
                path="$",
            )

    def is_bulky(self) -> bool:
        """Whether it takes much more room than a fresh document with its text would."""
        size_bytes = len(self.state())
        return size_bytes > BULKY_BYTES_MIN and size_bytes > BULKY_FACTOR * len(self.read().encode())

    def committed(self) -> None:
        """What was applied is on disk: a reload will find it there."""
        self._uncommitted.clear()

    def _loaded(self) -> Doc[Text]:
        if self._doc is None:
            state, updates = self._load(self.dot)
            self._outline = None
            doc = _new()
            try:
                for update in (*([state] if state else ()), *updates, *self._uncommitted):
                    doc.apply_update(update)
                state_bytes = len(doc.get_update())
                text_bytes = len(str(_root(doc)).encode())
            except BaseException as error:  # noqa: BLE001  # raised again, or as an error of ours
                raise self._failed(error, "the text cannot be read", CrdtSyncError) from None
            self.updates_since_state = len(updates)
            overhead_bytes = max(0, state_bytes - text_bytes)
            self.memory_bytes = _EMPTY_BYTES + state_bytes + overhead_bytes * _STRUCT_BYTES // _STRUCT_STATE_BYTES
            self.is_large = state_bytes > BULKY_BYTES_MIN
            self._doc = doc
        return self._doc

    def _judged_by(self) -> Outline:
        """What updates are judged by; made when the first one comes, for reads need none."""
        if self._outline is None:
            outline = Outline({ROOT: "text"})
            advance(outline, validate_update(self.state(), outline, is_own_state=True))
            self._outline = outline
        return self._outline

    def _clocks(self) -> dict[int, int]:
        return self._read(lambda doc: decode_state_vector(doc.get_state()))

    def _read(self, read: Callable[[Doc[Text]], T]) -> T:
        """Read; once more after a reload if the replica in memory turns out to be broken."""
        try:
            return self._use(read, "the text cannot be read", CrdtSyncError)
        except CrdtSyncError:
            return self._use(read, "the text cannot be read", CrdtSyncError)

    def _use(self, work: Callable[[Doc[Text]], T], failure: str, error_type: type[CrdtSyncError]) -> T:
        doc = self._loaded()
        try:
            return work(doc)
        except BaseException as error:  # noqa: BLE001  # as above
            raise self._failed(error, failure, error_type) from None

    def _failed(self, error: BaseException, failure: str, error_type: type[CrdtSyncError]) -> BaseException:
        """Whatever the library raises: the replica may be half changed, so it is never used again."""
        self._doc = None
        self._outline = None
        if _is_panic(error):
            return error_type(f"{failure}: the Yjs library failed: {error}")
        return error


def _is_panic(error: BaseException) -> bool:
    """pyo3's PanicException is a BaseException, and cannot be imported."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


class Documents:
    """The documents of one space, by the dot of the marker that created them.

    ``now_s`` (monotonic) is set from outside, by ``wake`` too, which is called when one is used. ``load`` and
    ``is_stored`` look at what is on disk. ``opened_total``: how many were not in memory when they were wanted.
    """

    def __init__(self, load: Load, is_stored: Callable[[Dot], bool]) -> None:
        self.now_s = 0.0
        self.opened_total = 0
        self.wake: Callable[[], None] = _nobody
        self._load = load
        self._is_stored = is_stored
        self._open: OrderedDict[Dot, Document] = OrderedDict()
        self._used: dict[Dot, None] = {}
        self._has_new = False
        self._shrink_due_s = 0.0
        self._dirty: dict[Dot, None] = {}
        self._edited: OrderedDict[Dot, float] = OrderedDict()
        self._markers: dict[bytes, tuple[int, str]] = {}
        self.hashes: dict[bytes, int] = {}  # of what the documents hold, as far as known: by name, as in a marker

    def __len__(self) -> int:
        """How many are in memory."""
        return len(self._open)

    @property
    def memory_bytes(self) -> int:
        """About how much memory they take."""
        return sum(document.memory_bytes for document in self._open.values())

    def get(self, dot: Dot, *, is_use: bool = True) -> Document:
        """The document of that name; an empty one if nothing is known of it. ``is_use``: it stays for a while."""
        self.wake()
        document = self._open.get(dot)
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

    def exists(self, dot: Dot) -> bool:
        """Whether any edit of that document was ever applied here and is still held. Creates nothing."""
        document = self._open.get(dot)
        return self._is_stored(dot) if document is None else not document.is_empty

    def is_dirty(self, dot: Dot) -> bool:
        """Whether it has edits that are not yet on disk."""
        return dot in self._dirty

    def apply(self, dot: Dot, update: bytes) -> None:
        """Take in an edit; see :meth:`Document.apply`."""
        self.get(dot).apply(update)
        self._changed(dot)
        self._note_edited(dot)

    def absorb(self, dot: Dot, state: bytes) -> bytes:
        """Take in the whole document of another replica, after :func:`check_state`; see :meth:`Document.absorb`."""
        is_new = not self.exists(dot)
        whole = self.get(dot).absorb(state, is_new)
        self._changed(dot)
        return whole

    def _changed(self, dot: Dot) -> None:
        self._dirty[dot] = None
        if self.hashes:
            self.hashes.pop(pack(list(dot)), None)

    def undo(self, dot: Dot) -> None:
        """See :meth:`Document.undo`."""
        document = self.get(dot)
        document.undo()
        self.hashes.pop(pack(list(dot)), None)
        if not document.is_uncommitted:
            self._dirty.pop(dot, None)

    def states_due(self) -> Iterable[Document]:
        """Documents edited since the last commit that are due to be stored as a whole."""
        return [d for dot in sorted(self._dirty) if (d := self._open[dot]).updates_since_state >= STATE_EVERY_UPDATES]

    def committed(self) -> None:
        """The batch is on disk."""
        for dot in self._dirty:
            self._open[dot].committed()
        self._dirty.clear()
        self._make_room(OPEN_DOCUMENTS_MAX)  # none could go before it was on disk

    # -- unloading -----------------------------------------------------------------------------------------

    def unload(self) -> None:
        """Let go of documents that nobody has used for a while, and of the oldest ones if all are too large."""
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

    def _make_room(self, count_max: int) -> None:
        excess = min(len(self._open) - count_max, len(self._open) - len(self._dirty))
        if excess > 0:
            for victim in [*islice((dot for dot in self._open if dot not in self._dirty), excess)]:
                del self._open[victim]

    def _shrink(self) -> None:
        excess_bytes = self.memory_bytes - OPEN_BYTES_MAX
        clean = [dot for dot in self._open if dot not in self._dirty] if excess_bytes > 0 else []
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
        self._edited[dot] = self.now_s
        self._edited.move_to_end(dot)
        if len(self._edited) > OPEN_DOCUMENTS_MAX:
            self._edited.popitem(last=False)

    # -- which documents are named by a live marker --------------------------------------------------------

    def named(self, marker: Entry) -> None:
        """A marker has been added to the live entries."""
        name = marker.value or b""
        count, _ = self._markers.get(name, (0, ""))
        self._markers[name] = (count + 1, marker.key)

    def unnamed(self, marker: Entry) -> Dot | None:
        """One has been removed. Returns its document if that was the last one."""
        name = marker.value or b""
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


def _new(client: int | None = None) -> Doc[Text]:
    """An empty document."""
    from pycrdt import Doc  # noqa: PLC0415  # with the first text: many daemons hold none, and it takes 5 MB and a while

    return Doc() if client is None else Doc(client_id=client)


def _root(doc: Doc[Text]) -> Text:
    from pycrdt import Text  # noqa: PLC0415  # as above

    return doc.get(ROOT, type=Text)


def fresh_updates(text: str, seed: bytes, chunk_chars_max: int) -> list[bytes]:
    """Yjs updates that make ``text`` in an empty document, in parts of about so many characters."""
    doc = _new(_client_of(seed, text.encode()))
    root = _root(doc)
    updates: list[bytes] = []
    subscription = doc.observe(lambda event: updates.append(event.update))
    for start in range(0, len(text), chunk_chars_max):
        root += text[start : start + chunk_chars_max]
    doc.unobserve(subscription)
    return updates or [NO_CHANGE]


def _make_edit(state: bytes, changes: Sequence[Edit], client: int) -> bytes:
    doc = _new(client)
    doc.apply_update(state)
    root = _root(doc)
    content = str(root)
    updates: list[bytes] = []
    subscription = doc.observe(lambda event: updates.append(event.update))
    with doc.transaction():
        for start, end, replacement in reversed(changes):
            first = len(content[:start].encode())  # pycrdt counts positions in UTF-8 bytes
            last = first + len(content[start:end].encode())
            if last > first:
                del root[first:last]
            if replacement:
                root.insert(first, replacement)
    doc.unobserve(subscription)
    return b"".join(updates) or NO_CHANGE  # one transaction makes at most one update


def _client_of(*parts: bytes) -> int:
    """A Yjs client id that stands for this content: 53 bits of its hash."""
    state = blake2b(digest_size=8, person=b"crdtsync-client")
    for part in parts:
        state.update(len(part).to_bytes(8, "big") + part)
    return max(1, int.from_bytes(state.digest(), "big") >> 11)


def check_state(state: bytes) -> None:
    """Refuse what cannot be a whole document of another replica.

    :raises InvalidValue: malformed, or it refers to what it does not hold.
    """
    _judge_state(state, Outline({ROOT: "text"}))


def _judge_state(state: bytes, outline: Outline) -> UpdateSummary:
    try:
        return validate_update(state, outline, is_own_state=True)
    except InvalidUpdate as error:
        raise InvalidValue(f"not an acceptable state of a Yjs document: {error}", path="$") from None


def whole_state(state: bytes | None, updates: list[bytes]) -> bytes:
    """A stored document as one update; empty if there is none."""
    if not updates:
        return state or b""
    doc = _new()
    for update in (*([state] if state else ()), *updates):
        doc.apply_update(update)
    return doc.get_update()


def check_marker(plain: object) -> tuple[Dot | None, bytes]:
    """``(document, update)`` of a text operation's value; document None: this operation creates it.

    :raises InvalidEncoding: another shape.
    """
    match plain:
        case [None, bytes(update)]:
            return None, update
        case [[int(writer), int(seq), int(n)], bytes(update)]:
            return Dot(writer, seq, n), update  # type: ignore[arg-type]
    raise InvalidEncoding("a text operation's value is [document, update]")


def named_document(value: bytes | None) -> Dot:
    """The document that the stored value of a marker names."""
    writer, seq, n = unpack(value or b"")
    return Dot(writer, seq, n)
