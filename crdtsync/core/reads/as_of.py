"""Reads of the past: any read of a space, with ``at``, answered as of an older cut.

Example: ``get {"key": "plan/goal", "at": "c1.…"}``. The read finds out which cut the token names, collects the entries
of ``plan/goal`` that are in it (:mod:`crdtsync.core.reads.cuts`), and hands them to the same function that answers a
``get`` of today. So the past is shown as the present is: kinds, siblings and read policies have one set of rules.

All of that may be much to look at, so it goes by slices, with other requests between. Rights are those of now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from itertools import islice, takewhile
from math import inf
from typing import Any

from crdtsync.causality import HLC_MAX, Dot, covers
from crdtsync.core.access.rules import Grant
from crdtsync.core.crdt.entries import Entries
from crdtsync.core.crdt.entry import Entry, inside
from crdtsync.core.crdt.key_entries import covered_by
from crdtsync.core.history.checkpoints import AT_CHECKPOINT, check_name
from crdtsync.core.kinds.values import ConflictingKeys
from crdtsync.core.reads.cuts import Closing, Cut, check_told, cut_at_time, cut_of_checkpoint, is_told, too_old
from crdtsync.core.reads.listing import ENTRY_ROWS_MAX, behind
from crdtsync.core.reads.operations import PAGED_READS, READS, Reader
from crdtsync.core.reads.pages import PAGE_BYTES_MAX, page_limit
from crdtsync.core.replica.asleep import RESERVED_PREFIX
from crdtsync.core.replica.replica import Replica
from crdtsync.core.replica.restore import KEYS_MAX, TEXTS_MAX, UNDO_KEYS_MAX, Past, TextEdits, note_text_edits
from crdtsync.core.replica.text_edits import TAKEN_IN
from crdtsync.core.storage.interface import Storage
from crdtsync.core.storage.rows import DeadMark, DeadPlace, PastRow
from crdtsync.core.text.document_cache import Documents
from crdtsync.core.text.family import families
from crdtsync.core.text.marker import UNKNOWN_WRITER
from crdtsync.core.waiting.session_points import vector_in
from crdtsync.errors import CrdtSyncError, InvalidRequest, TooLarge
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.change import RemoveRange, removes_of
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import archive_of, check_agent_name, check_prefix, shown
from crdtsync.wire.requests import Right
from crdtsync.wire.tokens import TOKEN_PREFIX
from crdtsync.wire.yjs.encoding import Steps

SLICE_ROWS = 1000
"""Rows looked at in one turn."""
SLICE_ENTRIES = 5000
"""Living entries of keys that have many, likewise."""
SLICE_ADDED = 2000
"""Entries that were found and are put in order, likewise: 5 µs each."""
PAST_BYTES_MAX = 64 * 1024 * 1024
"""So many bytes of values that are gone by now may one read hold."""
IDS_AT_ONCE_MAX = 16
"""Dead entries that are read in one turn, each with a value that may be 1 MiB."""
BARE_IDS_AT_ONCE_MAX = 256
"""The same without their values."""
WINDOW_ROWS = 50
"""The same of keys by prefix, where few are wanted, or their values, of which each may be 1 MiB."""
KEPT_ENTRIES_MAX = 100_000
"""So many entries that were collected for a page of a key are kept for the next one, with at most so many bytes of
values that are gone by now:"""
KEPT_BYTES_MAX = 4 * 1024 * 1024
KEPT_S = 5.0
"""For so long."""
EDITS_MAX = 100_000
"""Edits of one text that are looked at for one read."""
BEHIND_ALL = b"\xff" * 9
"""A time behind all times of a key."""


class PastRead:
    """Collects what is wanted of the past, for those who make something of it."""

    def __init__(
        self, replica: Replica, storage: Storage, args: Mapping[str, Any], wanted: KeySelection, rights: Grant | None
    ) -> None:
        self.rights = rights
        self._storage = storage
        self._args = args
        self._at = check_at(args.get("at"))
        self._wanted = wanted
        self.begin(replica)

    def begin(self, replica: Replica) -> None:
        """Begin, or begin again with a replica that was read anew."""
        if archive_of(replica.name) is not None:
            raise InvalidRequest("an archive is shown as it was when its space was dropped: leave out at")
        self.replica = replica
        self.cut: Cut | None = None
        self._closing: Closing | None = None
        self._collected: Collecting | None = None
        self._unadded: Iterator[Entry] | None = None
        self._texts: Steps[None] | None = None
        self._entries = Entries()
        self._entries.policy_of = replica.entries.policy_of

    def advance(self) -> bool:
        """Look at one slice more; True: that was all."""
        if self._storage.has_backlog:
            return False  # not all that is dead can be found yet
        if self.cut is None:
            self.cut = self._find_cut()
        if self.cut is None:
            return False
        self._check_told(self.cut)  # each time: it may be trimmed while it is read
        if self._collected is None and self._goes_on():
            return True
        if self._collected is None:
            self._collected = Collecting(self.replica, self._storage, self.cut, self._wanted)
        if self._unadded is None:
            if not self._collected.advance():
                return False
            self._unadded = self._collected.found()
        some = [*islice(self._unadded, SLICE_ADDED)]
        for entry in some:
            self._entries.put(entry)  # nobody asks for the digest
        if len(some) == SLICE_ADDED:
            return False
        if self._texts is None:
            self._shown = past_replica(self.replica, self._storage, self.cut, self._entries)
            self._texts = self._load_texts(self._shown)
        return next(self._texts, True) is True

    def _goes_on(self) -> bool:
        """Whether another read has collected the same, which is taken over."""
        return False

    def _load_texts(self, past: Replica) -> Steps[None]:
        """Load those that were asked for by name: a scan tells short ones. If one cannot be loaded, reading it says
        why.
        """
        for key in self._wanted.keys or ():
            for family in families(past.entries.held(key)):
                with suppress(CrdtSyncError):
                    yield from past.documents.get(family.current).load()

    def _find_cut(self) -> Cut | None:
        replica, at = self.replica, self._at
        if isinstance(at, int):
            return cut_at_time(replica, at)
        if self._closing is None:
            if at.startswith(AT_CHECKPOINT):
                record = replica.checkpoints.get(check_name(at.removeprefix(AT_CHECKPOINT)))
                if not covers(replica.durable_vector(), record.vector):
                    return None
                return cut_of_checkpoint(replica, record)
            named = vector_in(replica, at)
            if not covers(replica.durable_vector(), named):
                return None  # it is on its way to the disk
            self._closing = Closing(replica, named)
        return self._closing.advance()

    def _check_told(self, cut: Cut) -> None:
        if self._wanted.keys is None:
            check_told(self.replica, cut, None, self._wanted.prefix)
        for key in self._wanted.keys or ():
            check_told(self.replica, cut, key)

    def answer(self, now_ms: int) -> object:
        """The reply."""
        raise NotImplementedError

    def _past(self, now_ms: int) -> tuple[Replica, Cut, str | None]:
        """The found entries, as a replica that shows them, and up to which key it is complete."""
        if isinstance(self._at, int) and self._at > now_ms:
            raise InvalidRequest("this time has not come yet: nobody knows what will be there")
        assert self.cut is not None
        assert self._collected is not None
        self._check_told(self.cut)
        return self._shown, self.cut, self._collected.complete_to


class AsOfRead(PastRead):
    """The request ``name``, answered as of a point of the past."""

    def __init__(
        self,
        replica: Replica,
        storage: Storage,
        name: str,
        args: Mapping[str, Any],
        rights: Grant | None,
        pages: PastPages,
    ) -> None:
        self._name = name
        self._pages = pages
        wanted = _wanted_by(name, args)
        if rights is not None:
            wanted = wanted._replace(may_read=rights.may_read)
        super().__init__(replica, storage, args, wanted, rights)

    def _goes_on(self) -> bool:
        before = self._pages.take()
        if before is None or self._name not in PAGED_READS or not before.is_of(self.replica, self._wanted, self.cut):
            return False
        self._collected, self._shown = before._collected, before._shown  # noqa: SLF001  # of the same class
        return True

    def is_of(self, replica: Replica, wanted: KeySelection, cut: Cut | None) -> bool:
        """Whether this is about the same key as of the same cut: what is in that is said by its vector alone."""
        return (
            self.replica is replica
            and self._shown.past is replica.past  # else it has slept, and was read anew
            and self._wanted.keys == wanted.keys
            and self.cut is not None
            and cut is not None
            and (self.cut.vector, self.cut.time_ms) == (cut.vector, cut.time_ms)
        )

    def answer(self, now_ms: int) -> object:
        """The reply."""
        past, cut, end = self._past(now_ms)
        reader = Reader(past, self._storage, min(cut.time_ms, now_ms), past.node_of, self.rights)
        answer = READS[self._name](reader, self._args)
        assert self._collected is not None
        if self._name in PAGED_READS and self._collected.is_little:
            self._pages.keep(self)
        if end is not None and isinstance(answer, dict) and not answer["more"]:
            last = (answer.get("prefixes") or [None])[-1]
            is_amid = last is not None and end.startswith(last)
            answer |= {"more": True, "next": behind(last) if is_amid else end}
        return answer


class RestoreRead(PastRead):
    """Collects what some keys were, for a restore, and hands it to ``then``, whose result is the reply."""

    def __init__(
        self,
        replica: Replica,
        storage: Storage,
        args: Mapping[str, Any],
        right_on: Callable[[str], Right],
        then: Callable[[Replica, Past], object],
    ) -> None:
        self._right_on = right_on
        self._then = then
        start, self._undoes = args.get("start", ""), args.get("undo")
        if type(start) is not str:
            raise InvalidRequest("start must be a string")
        if self._undoes is not None:
            check_agent_name(self._undoes)
        enough = 1 + (KEYS_MAX if self._undoes is None else UNDO_KEYS_MAX)
        prefix = check_prefix(args.get("prefix", ""))
        wanted = KeySelection(None, prefix, start, enough, may_read=self._may_read, has_living=True)
        super().__init__(replica, storage, args, wanted, None)

    def _may_read(self, key: str) -> bool:
        return key[0] != RESERVED_PREFIX and self._right_on(key) >= Right.READ

    def begin(self, replica: Replica) -> None:
        """Begin, or begin again with a replica that was read anew."""
        super().begin(replica)
        seen = self._args.get("seen")
        self._seen = dict(replica.vector) if seen is None else vector_in(replica, seen)

    def _load_texts(self, past: Replica) -> Steps[None]:
        """Load as many as one request restores, and make what restores them."""
        keys = {entry.key for entry in self._entries.all() if entry.kind == Kind.TEXT}
        changed = [key for key in sorted(keys) if self._entries.held(key) != self.replica.entries.held(key)]
        self._text_edits: TextEdits = {}
        for key in changed[:TEXTS_MAX]:
            with suppress(CrdtSyncError):
                yield from note_text_edits(self._text_edits, self.replica, past, key)

    def _check_told(self, cut: Cut) -> None:
        """Keys of which less is known are left alone, one by one."""
        if cut.kept is None and not covers(cut.vector, self.replica.past.floor):
            raise too_old(self.replica, "this point")

    def answer(self, now_ms: int) -> object:
        """Restore, and reply."""
        replica, (past, cut, end) = self.replica, self._past(now_ms)

        def is_known(key: str) -> bool:
            return is_told(replica, cut, key)

        assert self._collected is not None
        keys = self._collected.keys()
        return self._then(
            replica,
            Past(past, keys, end, self._seen, self._right_on, is_known, self._undoes, self._text_edits),
        )


def check_at(at: object) -> int | str:
    """A point of the past as a request names it.

    :raises InvalidRequest: it is none.
    """
    if type(at) is int and 0 <= at <= HLC_MAX >> 16:
        return at
    if type(at) is str and at.startswith((TOKEN_PREFIX, AT_CHECKPOINT)):
        return at
    raise InvalidRequest(
        f"{shown(at)} is no point of the past: give a token, {AT_CHECKPOINT}NAME, or a time in ms since 1970"
    )


class PastPages:
    """What was collected for a page of a key of the past, kept for some seconds for the next page of it: to collect a
    log of 20,000 elements anew for each page of 1,000 took twenty times as long.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._kept: AsOfRead | None = None
        self.due_s = inf
        """When :meth:`let_go` is to be called."""

    def keep(self, read: AsOfRead) -> None:
        """A page was answered."""
        self._kept, self.due_s = read, self._now_s() + KEPT_S

    def take(self) -> AsOfRead | None:
        """The read of the page before, to be kept anew with the next one."""
        kept = self._kept
        self.forget()
        return kept

    def forget(self) -> None:
        """Keep nothing: what it was read from has been read anew."""
        self._kept, self.due_s = None, inf

    def let_go(self) -> None:
        """Nobody has asked for long enough."""
        if self._now_s() >= self.due_s:
            self.forget()


class KeySelection(NamedTuple):
    """The keys that are to be collected: the ``keys`` with these names, or those with a prefix that sort after
    ``start``, and then at least ``enough`` of them, of those that somebody ``may_read``; ``has_values``: with their
    values; ``has_living``: those that live now are named too, whether they are in the cut or not.
    """

    keys: list[str] | None = None
    prefix: str = ""
    start: str = ""
    enough: float = inf
    has_values: bool = True
    may_read: Callable[[str], bool] = bool  # no key is empty: everybody
    has_living: bool = False

    def is_of(self, key: str) -> bool:
        """Whether a key is one of them, or was."""
        return key in self.keys if self.keys is not None else key.startswith(self.prefix) and self.may_read(key)


def _wanted_by(name: str, args: Mapping[str, Any]) -> KeySelection:
    """The keys that a request needs."""
    if name != "scan":
        keys = args.get("keys") if name == "get_many" else [args.get("key")]
        return KeySelection(sorted({key for key in keys if type(key) is str}) if type(keys) is list else [])
    start = args.get("start", "")
    if args.get("reverse") or type(start) is not str:
        return KeySelection(None, check_prefix(args.get("prefix", "")), has_values=bool(args.get("values")))
    enough = (page_limit(args) if not args.get("entries") else min(page_limit(args), ENTRY_ROWS_MAX)) + 1
    return KeySelection(None, check_prefix(args.get("prefix", "")), start, enough, bool(args.get("values")))


class Collecting:
    """Collects the entries of a cut into ``entries``: of keys that begin with ``prefix`` and sort after ``start``, or
    of ``keys``. It stops before the end when it has ``enough`` keys; ``complete_to`` is then the last of them: a reader
    is told it as the place where to go on.
    """

    def __init__(self, replica: Replica, storage: Storage, cut: Cut, wanted: KeySelection) -> None:
        self.complete_to: str | None = None
        self._replica, self._storage, self._cut, self._wanted = replica, storage, cut, wanted
        self._found: dict[str, dict[Dot, Entry]] = {}
        self._untaken: list[Entry] = []
        self._unread: list[int] = []
        self._living: dict[str, None] = {}
        self._is_over = False
        self._size_bytes = self._dead_bytes = self._room = 0
        self._removed: dict[str, list[tuple[Dot, ...] | RemoveRange]] = {}
        self._removals_after: tuple[int, int] | None = None if cut.is_prefix else (cut.after + 1, -1)
        self._keys = wanted.keys
        first = wanted.keys[0] if wanted.keys else max(wanted.prefix, wanted.start)
        self._live_after = wanted.start
        self._place = DeadPlace(first, BEHIND_ALL if first == wanted.start else b"", 0)

    def advance(self) -> bool:
        """Look at one slice more; True: that was all."""
        self._room = SLICE_ENTRIES // 5
        self._replica.past.let_go()  # of what each window looks at in memory: no backlog hides it on disk
        if self._untaken:
            self._take(self._untaken[:SLICE_ENTRIES])
            del self._untaken[:SLICE_ENTRIES]
        elif self._unread:
            self._read_dead()
        elif self._removals_after is not None:
            self._look_at_removals(self._removals_after)
        else:
            self._is_over = self._look_at_key() if self._keys is not None else self._look_at_window()
        return self._is_over and not (self._untaken or self._unread)

    @property
    def is_little(self) -> bool:
        """Whether what was found may be kept for a while."""
        return sum(map(len, self._found.values())) <= KEPT_ENTRIES_MAX and self._dead_bytes <= KEPT_BYTES_MAX

    def found(self) -> Iterator[Entry]:
        """The found entries, in keys that were looked at as a whole, in the order in which they were found."""
        end = self.complete_to
        return (entry for key, held in self._found.items() if end is None or key <= end for entry in held.values())

    def keys(self) -> list[str]:
        """The keys that were found as a whole, in order."""
        end = self.complete_to
        return sorted(key for key in {**self._living, **self._found} if end is None or key <= end)

    def _look_at_removals(self, after: tuple[int, int]) -> None:
        """Those that may have removed an entry before the removal by which this node marked it."""
        rows = self._storage.removals(after, self._cut.to, SLICE_ROWS)
        for row in rows:
            is_in_cut = row.space == self._replica.id and self._cut.has(row.writer, row.seq)
            if is_in_cut and self._wanted.is_of(row.key):
                self._removed.setdefault(row.key, []).append(removes_of(row.removes))
        self._removals_after = (rows[-1].position, rows[-1].n) if len(rows) == SLICE_ROWS else None

    # -- keys by name ------------------------------------------------------------------------------------------

    def _look_at_key(self) -> bool:
        """A slice of the first of the keys that are left."""
        assert self._keys is not None
        if not self._keys:
            return True
        key = self._keys[0]
        if key not in self._found:
            self._take_living(key)
        cut = self._cut
        marks, last = self._storage.dead_marks(
            self._replica.id, self._place, cut.after, SLICE_ROWS, key, recalled=cut.recalled
        )
        self._take_dead(marks)
        if last is not None:
            self._place = last
            return False
        self._keys = self._keys[1:]
        self._place = DeadPlace(self._keys[0], b"", 0) if self._keys else self._place
        return not self._keys

    # -- keys by prefix ----------------------------------------------------------------------------------------

    def _look_at_window(self) -> bool:
        """All that there is, alive and dead, from where the last window ended to where this one does."""
        replica, prefix = self._replica, self._wanted.prefix
        missing = 0 if self._wanted.has_values else self._wanted.enough - len(self._found)
        rows_max = int(min(SLICE_ROWS, max(WINDOW_ROWS, missing)))
        cut = self._cut
        marks, last = self._storage.dead_marks(replica.id, self._place, cut.after, rows_max, recalled=cut.recalled)
        if last is not None and not last.key.startswith(prefix):
            last = None
        keys = replica.entries.keys(prefix, self._live_after, hidden=True)
        living: list[str] = []
        ends: list[str] = []
        for number, key in enumerate(keys if last is None else takewhile(last.key.__ge__, keys), 1):
            if self._wanted.may_read(key):
                living.append(key)
            if len(living) == rows_max or number == SLICE_ROWS:
                ends.append(key)
                break
        ends += [] if last is None else [last.key]
        end = min(ends, default=None)
        for key in living:
            self._take_living(key)
            if self._wanted.has_living and key not in replica.entries.keys_all_hidden:
                self._living[key] = None
        self._take_unsaved(end)
        self._take_dead([mark for mark in marks if self._wanted.is_of(mark.key) and (end is None or mark.key <= end)])
        if end is None:
            self.complete_to = None
            return True
        is_within_key = last is not None and last.key == end
        self._live_after = end
        self._place = last if last is not None and is_within_key else DeadPlace(end, BEHIND_ALL, 0)
        if self._wanted.enough == inf:
            return False
        whole = {**self._living, **self._found}.keys() - ({end} if is_within_key else ())
        if not whole or (len(whole) < self._wanted.enough and self._size_bytes < 2 * PAGE_BYTES_MAX):
            return False
        self.complete_to = max(whole)
        return True

    def _take_unsaved(self, end: str | None) -> None:
        """Take the entries that are dead in memory and not yet on disk, of the keys of a window."""
        for key in self._replica.past.unsaved:
            if self._wanted.is_of(key) and (end is None or key <= end):
                self._take_recent(key)

    # -- what is in the cut ------------------------------------------------------------------------------------

    def _take_living(self, key: str) -> None:
        held = self._replica.entries.held(key)
        if len(held) > self._room:  # what dies meanwhile is found once more, and changes nothing
            self._untaken += held
        else:
            self._room -= len(held)
            self._take(held)
        self._take_recent(key)

    def _take_recent(self, key: str) -> None:
        rows = self._replica.past.unsaved_of(key)
        self._take([row.entry for row in rows if row.position > self._cut.after and self._cut.has(*row.entry.dot[:2])])

    def _take_dead(self, marks: list[DeadMark]) -> None:
        """Those that are in the cut, of entries that died behind it."""
        self._unread += [mark.id for mark in marks if self._cut.has(mark.writer, mark.seq)]

    def _read_dead(self) -> None:
        has_values = self._wanted.has_values
        count = IDS_AT_ONCE_MAX if has_values else BARE_IDS_AT_ONCE_MAX
        rows = self._storage.dead_by_id(self._unread[:count], PAST_BYTES_MAX if has_values else 0)
        del self._unread[:count]
        self._dead_bytes += sum([row.entry.size_bytes for row in rows])
        if has_values:
            for row in rows:  # what the disk has spoilt is looked for as a value of now is
                self._replica.values.doubt(row.entry)
        self._take(self._known(rows))
        if has_values and self._size_bytes > PAST_BYTES_MAX:
            raise TooLarge(
                f"what is gone since takes more than {PAST_BYTES_MAX:,} bytes: read less at once, by a longer "
                "prefix, or key by key"
            )

    def _known(self, rows: list[PastRow]) -> list[Entry]:
        """A snapshot does not tell what removed an entry. It is in each cut that can be told, and in no checkpoint that
        this node had before.
        """
        is_kept, has_removals = self._cut.kept is not None, self._storage.has_removals
        return [row.entry for row in rows if is_kept or row.removal or has_removals(row.position)]

    def _take(self, entries: list[Entry]) -> None:
        for entry in inside(entries, self._cut.vector):
            key, dot = entry.key, entry.dot
            held = self._found.get(key, {})
            removed = self._removed.get(key, ())
            if dot in held or (removed and any(covered_by([entry], removes) for removes in removed)):
                continue
            self._found.setdefault(key, held)[dot] = entry
            self._size_bytes += entry.size_bytes


# -- the past as a replica ---------------------------------------------------------------------------------------


def past_replica(replica: Replica, storage: Storage, cut: Cut, entries: Entries) -> Replica:
    """A replica as its readers see it as of a cut. Nothing may be written to it."""
    past = copy(replica)
    past.entries = entries
    past.conflicting = ConflictingKeys(entries)
    past.vector, past.token = cut.vector, None
    texts = TextsOfCut(replica, storage, cut)
    past.documents = Documents(texts.load, texts.exists)
    return past


class TextsOfCut:
    """The documents of texts as of a cut: of a state from before it, or from the beginning on, by the edits in it."""

    def __init__(self, replica: Replica, storage: Storage, cut: Cut) -> None:
        self._replica, self._storage, self._cut = replica, storage, cut

    def exists(self, document: Dot) -> bool:
        """Whether something of it is here."""
        storage, recalled = self._storage, self._cut.recalled
        is_recalled = bool(recalled) and storage.document_exists(recalled, document)
        return is_recalled or storage.document_exists(self._replica.id, document)

    def load(self, document: Dot) -> tuple[bytes | None, list[bytes]]:
        """:raises TooOld: of the edits that are in the cut not all are kept one by one."""
        storage, space, cut = self._storage, self._replica.id, self._cut
        if cut.recalled and storage.document_exists(cut.recalled, document):
            state, _ = storage.document(cut.recalled, document)
            if not state:
                raise too_old(self._replica, "this state of a text")
            return state, []
        state, updates = storage.document_as_of(space, document, cut.after)
        later = storage.document_updates(space, document, cut.after, EDITS_MAX, cut.to)
        if state is None:
            first = storage.document_updates(space, document, 0, 1)
            if not first or first[0].dot != document:
                raise too_old(self._replica, "this state of a text")
        inside = [row for row in later if row.dot.writer != UNKNOWN_WRITER and cut.has(row.dot.writer, row.dot.seq)]
        if len(later) == EDITS_MAX or any(row.dot.n >= TAKEN_IN for row in inside):
            raise too_old(self._replica, "this state of a text")
        return state, [*updates, *(row.update for row in inside)]
