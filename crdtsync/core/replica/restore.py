"""Restoring keys: a new write that makes of what is there now what was there at a point of the past.

Ann's checkpoint holds ``plan`` = 1 and the log ``findings`` = [x]. Since then an agent has set ``plan`` to 2, appended
y, and made ``draft``. The restore writes 1 over 2, removes y, and deletes ``draft``. It is a write like any other: it
stands in history, has an author, and can be undone by restoring a later point.

The rules:

- It supersedes what was there when it began (``seen``), and nothing newer: what others write meanwhile stays beside it.
- What says the same already is left as it is. So a restore that was cut off is simply done again.
- A key that its author may not read is passed over, and one that it may only read is left alone and told.
- A log keeps its order: from the first element on that differs, what follows is written anew.
- Counters count on under their names, with one reset that takes off what was counted beyond the value then. So two
  restores at once of 10 to 7 give 7, and not 4.
- A text is edited to what it was, by an edit that two hosts make alike, and so is the map of a document. One that is
  gone is made anew. A document that one edit cannot bring back is left alone and told.
- Values whose time to live is over are not brought back; others live as long as they would have.
- Of a blob that is gone the bytes have to be put anew. That is too much for one change, so the client does it, which
  is told which ones these are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from crdtsync.causality import Dot, VersionVector
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.crdt.key_entries import summary_of
from crdtsync.core.kinds.arguments import Arguments, Result
from crdtsync.core.kinds.base import Copied
from crdtsync.core.kinds.counter import RESET, Tally, name_of
from crdtsync.core.kinds.operations import RESOLVED_ATTR
from crdtsync.core.kinds.text_join import text_op
from crdtsync.core.text.document_cache import NotReady
from crdtsync.core.text.family import LINEAGE, families
from crdtsync.core.text.like_then import fresh, made_like, map_bytes, says
from crdtsync.core.text.yjs_library import NO_CHANGE
from crdtsync.errors import CrdtSyncError, InvalidRequest, TooLarge
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.blobs import manifest_of
from crdtsync.wire.change import Op, value_hash
from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import CHANGE_BYTES_MAX, CHANGE_OPS_MAX, NAMED_DOTS_MAX
from crdtsync.wire.requests import Right
from crdtsync.wire.tokens import encode_token
from crdtsync.wire.yjs.encoding import Steps, at_once

if TYPE_CHECKING:
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.replica.space_draft import SpaceDraft
    from crdtsync.core.text.document import Document

KEYS_MAX = 1000
"""Keys that one request looks at."""
UNDO_KEYS_MAX = 100
"""The same where only one agent's writes are to be taken back: those to one key may be many, and are all collected."""
ENTRIES_MAX = 50_000
"""Entries of keys that it compares, then and now, and one key's. Each value that went since, and is read from disk,
counts as :data:`ROW_ENTRIES` of them, and a look for such values as :data:`LOOK_ROWS` more values.
"""
ROW_ENTRIES = 40
LOOK_ROWS = 3
TEXTS_MAX = 16
"""Texts that it compares: each may have to be read from disk. Each so many bytes of a document with a map count as
one more, for to look through it takes 2 ms:"""
MAP_BYTES = 1024
ROWS_MAX = 500
"""Values of a key that were written since, where only one agent's are to be taken back."""
BYTES_MAX = CHANGE_BYTES_MAX // 8
"""So many bytes of values it writes, and one key's: 2 MiB of values of 4 kB took 150 ms."""


TextEdits = dict[tuple[Dot, Dot], tuple[bytes, bytes]]
"""By two documents: a state of the first, and the edit that makes the text of the second of it."""


class Past(NamedTuple):
    """A past state of a space: ``replica`` shows it, in all keys up to ``complete_to`` (None: in all that were asked
    for).

    ``keys``: those that are there or were, and that its author may read, in order. ``seen``: what there was when the
    restore began. ``right_on`` says what its author may do with a key, ``is_known`` of which the past is told.
    ``text_edits``: see :func:`note_text_edits`.
    """

    replica: Replica
    keys: list[str]
    complete_to: str | None
    seen: VersionVector
    right_on: Callable[[str], Right]
    is_known: Callable[[str], bool]
    undoes: str | None
    """Only what this agent has done since, where nobody else has written since."""
    text_edits: TextEdits


def restore(draft: SpaceDraft, args: Arguments) -> Result:
    """The request ``restore``: some keys, as one change; ``next`` is where the next request begins."""
    past = draft.past
    if past is None:
        raise InvalidRequest("a restore cannot be part of a batch: it is one change, or several, by itself")
    items: list[list[str]] = []
    left: list[list[str]] = []
    blobs: list[str] = []
    texts = size_bytes = looked_at = 0
    last: str | None = None
    is_cut = len(past.keys) > KEYS_MAX or past.complete_to is not None
    for key in past.keys[:KEYS_MAX]:
        is_full = len(draft.ops) == CHANGE_OPS_MAX or size_bytes > BYTES_MAX
        if is_full or texts >= TEXTS_MAX or looked_at > ENTRIES_MAX:
            is_cut = True
            break
        found, count = _compared(draft, past, key)
        looked_at += count
        if found is None:
            last = key
            continue
        try:
            texts += _texts(past, found)
            ops = _ops(draft, past, key, found)
        except CrdtSyncError as error:
            left.append([key, error.message])
            blobs += [key] if isinstance(error, _PutAnew) else []
            last = key
            continue
        if len(draft.ops) + len(ops) > CHANGE_OPS_MAX:
            if draft.ops:
                is_cut = True
                break
            left.append([key, _too_many(len(ops)).message])
            last = key
            continue
        for op in ops:
            draft.ops.append(op)
            size_bytes += len(op.value or b"")
        if ops:
            stays = "changed" if found.was else "removed"
            items.append([key, "restored" if any(op.value is not None for op in ops) else stays])
        last = key
    else:
        last = past.complete_to if len(past.keys) <= KEYS_MAX else last
    if args.get("dry_run"):
        draft.ops.clear()
    seen = encode_token([(draft.replica.name, draft.replica.epoch, past.seen)])
    return {"items": items, "left": left, "blobs": blobs, "next": last if is_cut else None, "seen": seen}


def _texts(past: Past, found: _Compared) -> int:
    """To how many texts comes what is to be compared."""
    if Kind.TEXT not in found.kinds:
        return 0
    then = [past.replica.documents.get(family.current) for family in families(found.was)]
    return 1 + sum(map_bytes(each) // MAP_BYTES for each in then)


def _too_many(ops: int) -> TooLarge:
    return TooLarge(f"it takes {ops:,} operations; at most {CHANGE_OPS_MAX:,} fit into one change")


class _Compared(NamedTuple):
    """A key that is not as it was: its entries then, and those of now that had been seen; of which kinds they are.

    ``since``: who has written it, where only one agent's writes are to be taken back; see :func:`_since`.
    """

    was: list[Entry]
    held: list[Entry]
    kinds: set[int]
    since: list[str | None] | None


def _compared(draft: SpaceDraft, past: Past, key: str) -> tuple[_Compared | None, int]:
    """None: it is as it was, or nothing of it is to be taken back. And how many entries were looked at for that."""
    was = past.replica.entries.live(key, draft.now_ms)
    then = {*was}
    held = [entry for entry in draft.held(key) if entry in then or entry.is_in(past.seen)]
    now, count = {*held}, len(was) + len(held)
    if then == now or {e.dot for e in was if e not in now} == {e.dot for e in held if e not in then}:
        return None, count
    since: list[str | None] | None = []
    if past.undoes is not None:
        since, rows = _since(draft, past, key, was)
        count += ROW_ENTRIES * (LOOK_ROWS + rows)
        if since is not None and past.undoes not in since:
            return None, count
    return _Compared(was, held, {entry.kind for entry in (*was, *held)}, since), count


def _ops(draft: SpaceDraft, past: Past, key: str, found: _Compared) -> list[Op]:
    """The operations that turn the present entries into the past ones; none if they say the same."""
    if not past.is_known(key):
        raise InvalidRequest("less of it is kept than that, by a purge or its schema")
    if past.right_on(key) < Right.WRITE:
        raise InvalidRequest("who restores may not write it")
    if past.undoes is not None:
        _check_alone(found.since, past.undoes)
    made: list[Op] = []
    gone: list[Entry] = []
    for kind in sorted(found.kinds):
        make = _OF_KIND.get(kind, _of_values)
        sides = ([e for e in side if e.kind == kind] if len(found.kinds) > 1 else side for side in found[:2])
        here = make(draft, past, *sides)
        made += here.ops
        gone += here.gone
    dots = [entry.dot for entry in gone]
    removals = [
        Op(key, None, gone[0].kind, None, None, tuple(dots[start : start + NAMED_DOTS_MAX]), None)
        for start in range(0, len(dots), NAMED_DOTS_MAX)
    ]
    if len(removals) == 1 and made and not made[0].removes:
        return [made[0]._replace(removes=removals[0].removes), *made[1:]]
    return [*removals, *made]


# -- undoing what one agent did ----------------------------------------------------------------------------------


def _since(draft: SpaceDraft, past: Past, key: str, was: list[Entry]) -> tuple[list[str | None] | None, int]:
    """The authors that have written or removed something of a key since then, and how many rows say so. None among
    them: somebody, but nobody knows who; in their place: it is so much that it cannot be looked through.
    """
    replica, cut = draft.replica, past.replica.vector
    rows = replica.storage.dead(replica.id, key, None, is_lost=False, rows_max=ROWS_MAX)
    if len(rows) == ROWS_MAX:
        return None, len(rows)
    gone = {row.entry.dot: row for row in (*rows, *replica.past.unsaved_of(key))}
    held = replica.entries.held(key)
    then, now = {*was}, {*held}
    written = [*(row.entry for row in gone.values()), *(entry for entry in held if entry not in then)]
    found: list[str | None] = [entry.agent for entry in written if not entry.is_in(cut)]
    for entry in was:
        row = gone.get(entry.dot) if entry not in now else None
        if row is not None:
            found.append(row.removal.agent if row.removal else None)
    return found, len(rows)


def _check_alone(since: list[str | None] | None, agent: str) -> None:
    if since is None:
        raise TooLarge("too much has been written to it since")
    others = sorted({other or "somebody" for other in since} - {agent})
    if others:
        raise InvalidRequest(f"{' and '.join(others)} wrote it too since then")


class _KeyRestore(NamedTuple):
    """Operations that write, and entries that go."""

    ops: list[Op]
    gone: list[Entry]


def _content(entry: Entry) -> tuple[str | None, bytes, bytes]:
    """Equal for two entries that say the same."""
    attrs = entry.attrs or {}
    return entry.sub, entry.value_hash, pack([attrs.get("confidence"), attrs.get("meta")])


def _of_values(draft: SpaceDraft, _past: Past, was: Sequence[Entry], held: Sequence[Entry]) -> _KeyRestore:
    """Registers, fields of maps, elements of sets: each stands for itself."""
    then, now = {*was}, {*held}
    left: dict[object, list[Entry]] = {}
    for entry in held:
        if entry not in then:
            left.setdefault(_content(entry), []).append(entry)
    missing: list[Entry] = []
    for entry in was:
        if entry not in now:
            same = left.get(_content(entry))
            if same:
                del same[0]
            else:
                missing.append(entry)
    if len(missing) > CHANGE_OPS_MAX:  # to make them only to count them would take long
        raise _too_many(len(missing))
    return _KeyRestore(_written(draft, missing), [entry for some in left.values() for entry in some])


class _PutAnew(InvalidRequest):
    """The bytes of a blob have to be stored again, under a new upload."""


def _shows(entry: Entry) -> tuple[object, ...]:
    """Equal for two entries of blobs that say the same, whatever upload they name."""
    manifest = manifest_of(entry.value)
    return (*_content(entry)[::2], None if manifest is None else manifest._replace(upload=""))


def _of_blobs(_draft: SpaceDraft, _past: Past, was: Sequence[Entry], held: Sequence[Entry]) -> _KeyRestore:
    """Blobs that came later go. One that is gone needs its parts anew, for its own may go with who removed it."""
    left = [*held]
    for entry in was:
        same = next((other for other in left if _shows(other) == _shows(entry)), None)
        if same is None:
            raise _PutAnew(
                "this client brings no blobs back: upgrade it, or read it there (blob get --at), and put it again"
            )
        left.remove(same)
    return _KeyRestore([], left)


def _of_log(draft: SpaceDraft, _past: Past, was: Sequence[Entry], held: Sequence[Entry]) -> _KeyRestore:
    """The elements up to the first that differs stay."""
    same = 0
    while same < min(len(was), len(held)) and (was[same] is held[same] or _content(was[same]) == _content(held[same])):
        same += 1
    if len(was) - same > CHANGE_OPS_MAX:
        raise _too_many(len(was) - same)
    return _KeyRestore(_written(draft, was[same:]), [*held[same:]])


def _of_counter(_draft: SpaceDraft, _past: Past, was: Sequence[Entry], held: Sequence[Entry]) -> _KeyRestore:
    """Names that are gone come back, and one reset takes off what was counted beyond the value then."""
    if not was:
        return _KeyRestore([], [*held])
    then, now = summary_of(Tally, was), summary_of(Tally, held)
    if held and then.value == now.value:
        return _KeyRestore([], [])
    key = was[0].key
    names = {name_of(entry) for entry in held if entry.sub != RESET}
    back = [entry for entry in was if entry.sub != RESET and name_of(entry) not in names]
    ops = [_op(key, entry.kind, Copied(name_of(entry), entry.value or b"", None)) for entry in back]
    record: dict[str, list[int]] = {}
    for name in sorted(names | {name_of(entry) for entry in back}):
        totals = [max(pair) for pair in zip(now.total(name), then.total(name), strict=True)]
        taken = [total - net for total, net in zip(totals, then.net(name), strict=True)]
        if any(taken):
            record[name] = taken
    resets = [entry for entry in held if entry.sub == RESET]
    if record:
        ops.append(_op(key, Kind.COUNTER, Copied(RESET, pack(record), None)))
    return _KeyRestore(ops, resets)


def _of_text(draft: SpaceDraft, past: Past, was: Sequence[Entry], held: Sequence[Entry]) -> _KeyRestore:
    """A text that is still there is edited; one that is gone is made anew.

    :raises NotReady: one has to be made ready for its edit first.
    """
    ops: list[Op] = []
    here = families(held)
    lost: list[Document] = []
    for family in families(was):
        same = next((other for other in here if family.current in other.members), None)
        if same is not None and not draft.replica.documents.is_ready(same.current):
            raise NotReady(same.current)
        then = past.replica.documents.get(family.current)
        if same is None:
            lost.append(then)
            continue
        here.remove(same)
        document = draft.replica.documents.get(same.current)
        state, update = past.text_edits.get((document.dot, family.current), (b"", b""))
        if state != document.state():
            update = at_once(made_like(document, then))
        if update != NO_CHANGE:
            markers = [entry.dot for entry in same.entries if entry.sub != LINEAGE]
            ops.append(text_op(was[0].key, None, document.dot, update, markers))
    for then in lost:
        same = next((other for other in here if says(draft.replica.documents.get(other.current), then)), None)
        if same is None:
            ops.append(text_op(was[0].key, None, None, fresh(was[0].key, then), ()))
        else:
            here.remove(same)
    return _KeyRestore(ops, [entry for family in here for entry in family.entries])


def note_text_edits(found: TextEdits, here: Replica, past: Replica, key: str) -> Steps[None]:
    """Add what restores a text, as far as it is ready for edits, in steps: a long one takes too long for one turn."""
    held = families(here.entries.held(key))
    for family in families(past.entries.held(key)):
        then = past.documents.get(family.current)
        yield from then.load()
        same = next((other for other in held if family.current in other.members), None)
        if same is None:
            continue
        document = here.documents.get(same.current)
        yield from document.load()
        if not here.documents.is_ready(same.current):
            continue
        state = document.state()
        update = yield from made_like(document, then)
        if document.state() == state:
            found[same.current, family.current] = state, update


def _written(draft: SpaceDraft, entries: Sequence[Entry]) -> list[Op]:
    return [_op(entry.key, entry.kind, _copied(entry, draft.now_ms)) for entry in entries]


def _copied(entry: Entry, now_ms: int) -> Copied:
    if entry.value is None:
        raise InvalidRequest("a value of it was purged, or cannot be read on this node any more")
    attrs = {name: value for name, value in (entry.attrs or {}).items() if name != RESOLVED_ATTR}
    expires_ms = entry.expires_ms()
    if expires_ms is not None:
        attrs["ttl"] = expires_ms - now_ms
    return Copied(entry.sub, entry.value, attrs or None)


def _op(key: str, kind: int, copied: Copied) -> Op:
    return Op(key, copied.sub, kind, copied.value, value_hash(copied.value), (), copied.attrs)


_Make = Callable[["SpaceDraft", Past, Sequence[Entry], Sequence[Entry]], _KeyRestore]
_OF_KIND: dict[int, _Make] = {
    Kind.LOG: _of_log,
    Kind.COUNTER: _of_counter,
    Kind.TEXT: _of_text,
    Kind.BLOB: _of_blobs,
}
