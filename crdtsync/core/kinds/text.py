"""Text: a Yjs document that every edit changes. The key's entries are markers that name the document.

Ann's first edit makes a document; its name is the dot of that edit. Bob's edit names the document and takes the place
of Ann's marker, so that the key mostly holds one entry, however long the text is. The edits themselves are rows of the
document (:mod:`crdtsync.core.text`), and Yjs merges them.

If Ann and Bob both make the text ``notes`` at once, on two hosts, there are two documents, and their markers are
siblings. ``resolve`` with ``merge`` makes one document of them (:mod:`crdtsync.core.kinds.text_join`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from crdtsync.causality import Dot, hlc_ms
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.crdt.read_context import NotYet
from crdtsync.core.kinds.arguments import Arguments, Result
from crdtsync.core.kinds.base import INLINE_BYTES_MAX, Copied, Rules, Sibling
from crdtsync.core.kinds.operations import Fields, Operation, Tells, no_value
from crdtsync.core.kinds.text_join import compact, merge_siblings, text_op
from crdtsync.core.text.document import STEP_PARTS_MAX
from crdtsync.core.text.document_cache import NotReady
from crdtsync.core.text.family import LINEAGE, Family, attributes_of, current, families, members_of, of_document
from crdtsync.core.text.marker import check_marker, named_document
from crdtsync.core.text.passing import Unplaced, find_out_after, found, placed
from crdtsync.core.text.yjs_library import NO_CHANGE
from crdtsync.errors import CrdtSyncError, InvalidEncoding, InvalidRequest, TooLarge
from crdtsync.wire.change import Change, Op
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX, VALUE_BYTES_MAX, check_key, shown
from crdtsync.wire.tokens import decode_dot, encode_dot, encode_version
from crdtsync.wire.yjs.encoding import parts_at_most

if TYPE_CHECKING:
    from crdtsync.core.kinds.draft import Draft
    from crdtsync.core.space import SpaceState
    from crdtsync.core.text.document import Document
    from crdtsync.wire.yjs.encoding import Steps

READ_BYTES_MAX = AGENT_FRAME_BYTES_MAX - 64 * 1024
"""A text that is read: it must fit into a frame with all that is told beside it."""


def _apply(draft: Draft, args: Arguments) -> Result:
    key = check_key(args.get("key"))
    update = args.get("update")
    if type(update) is not bytes:
        raise InvalidRequest("update must be the bytes of a Yjs update")
    if len(update) > VALUE_BYTES_MAX:
        raise TooLarge(
            f"this edit of {shown(key)} has {len(update):,} bytes; at most {VALUE_BYTES_MAX:,} fit into one: make it "
            "in several, which may be one batch"
        )
    live = draft.live(key)
    draft.check_conditions(key, live, args)
    draft.check_kind(key, live, Kind.TEXT, "text")
    texts, held = families(live), draft.held(key)
    document = _document(draft, live, texts, args.get("document"))
    target = document or draft.own_dot()
    family = of_document(target, texts if len(held) == len(live) else families(held))
    newest = target if family is None else family.current
    if newest != target and draft.space.documents.exists(newest):  # else it would be made in each since then
        document = target = newest
    if family is not None and family.before(target):
        update = _placed(draft, family, target, update)
    summary = draft.check_edit(target, update)
    if family is not None:
        _find_out_after(draft, family, target, update)
    draft.space.documents.get(target).check_author(update, summary, draft.edits_of(target).repeated(summary))
    draft.check_length(key, target, update, summary)
    markers = [entry.dot for entry in family.entries if entry.sub != LINEAGE] if family else []
    draft.add(text_op(key, None, document, update, markers))
    result: Result = {"document": encode_dot(target)}
    draft.promise_version(result)
    return result


def _placed(draft: Draft, family: Family, document: Dot, update: bytes) -> bytes:
    """The edit of an author who has read older documents of the text, too, as it is to be made in this one."""
    documents = draft.space.documents
    if not documents.is_ready(document):
        raise NotReady(document)
    before, newer, member = draft.edits_of(document), documents.get(document), family.members[document]
    if newer.placed is not None and newer.placed[0] == update and not before.updates:
        if isinstance(newer.placed[1], CrdtSyncError):
            raise newer.placed[1]
        return newer.placed[1]

    def get(older: Dot) -> Document | None:
        return documents.get(older) if documents.exists(older) else None

    olders = family.before(document)[::-1]
    attempt = partial(placed, update, newer, member, olders, get, before=before, may_wait=True)

    def place_ahead(steps: Steps[None] | None) -> Steps[None]:
        made: bytes | CrdtSyncError
        try:
            made = yield from found(attempt, steps)
        except CrdtSyncError as error:
            made = error
        if not before.updates:
            newer.placed = update, made
        yield  # to judge the edit takes as long: that is done in another turn

    if not before.updates and parts_at_most(update, STEP_PARTS_MAX) > STEP_PARTS_MAX:
        raise documents.prepare(document, place_ahead(None))
    try:
        return attempt()
    except Unplaced as unplaced:
        raise documents.prepare(document, place_ahead(unplaced.steps)) from None


def _find_out_after(draft: Draft, family: Family, document: Dot, update: bytes) -> None:
    steps = find_out_after(draft.space.documents, family, document, update)
    for _ in steps:
        raise draft.space.documents.prepare(document, steps)


def _compact(draft: Draft, args: Arguments) -> Result:
    key = check_key(args.get("key"))
    live = draft.live(key)
    draft.check_conditions(key, live, args)
    draft.check_kind(key, live, Kind.TEXT, "text_compact")
    if not live:
        raise InvalidRequest(f"there is no text {shown(key)}")
    seen, _ = draft.seen(args)
    ops_before = len(draft.ops)
    done = compact(draft, key, draft.winner(live))
    result: Result = {
        "document": encode_dot(done.document),
        "bytes_before": done.bytes_before,
        "bytes_after": done.bytes_after,
    }
    if seen is not None and len(draft.ops) == ops_before:
        result["version"] = encode_version(seen)
    elif seen is not None and len(draft.covered(live, seen, others=True)) == len(live):
        draft.promise_key_version(result, key, seen)
    return result


def _document(draft: Draft, live: list[Entry], texts: list[Family], named: object) -> Dot | None:
    """Which document an edit is for. An author who saw no text edits the one that there is by now, if any."""
    if named is not None:
        document = decode_dot(named)
        # The document of another key must not be had by naming it: it would be read under this one then.
        if (draft.is_limited or not draft.space.documents.exists(document)) and of_document(document, texts) is None:
            if document.seq <= draft.space.vector.get(document.writer, 0):
                raise InvalidRequest(
                    f"this node does not hold a text {shown(named)}, or no longer: read the text again"
                )
            raise NotYet({document.writer: document.seq})
        return document
    if not live:
        return None
    is_alone = len(texts[0].entries) == len(live)
    document = texts[0].current if is_alone else current(draft.winner(live))
    if not draft.has_edits(document):
        draft.space.documents.held(document, live[-1].key)
    return document


def _split(live: list[Entry]) -> list[Sibling]:
    return [family.entries for family in families(live)]


def _copy(group: Sibling) -> list[Copied]:
    """One marker is enough, with an edit that changes nothing; and what tells of which family its document is."""
    (family,) = families(group)
    value = pack([list(family.current), NO_CHANGE])
    attrs = attributes_of(family.members)
    return [Copied(LINEAGE, value, attrs) if attrs else Copied(None, value, group[-1].attrs)]


def _read(space: SpaceState, group: Sibling) -> bytes:
    document = space.documents.held(current(group), group[-1].key)
    size_bytes = document.text_bytes()
    if size_bytes > READ_BYTES_MAX:
        raise TooLarge(
            f"the text {shown(group[-1].key)} has {size_bytes:,} bytes; at most {READ_BYTES_MAX:,} fit into one reply: "
            "it can only be deleted; keep what is so long in several keys"
        )
    return pack(document.read())


def _is_short(space: SpaceState, group: Sibling) -> bool:
    """Whether a scan shows the text; one that cannot be read must not take the other keys of the scan with it."""
    try:
        return space.documents.held(current(group), group[-1].key).text_bytes() <= INLINE_BYTES_MAX
    except CrdtSyncError:
        return False


# -- what is told --------------------------------------------------------------------------------------------


def _update(ops: Sequence[Op]) -> bytes | None:
    try:
        return pack(check_marker(unpack(ops[-1].value or b""))[1])
    except InvalidEncoding:
        return None


def _edited_document(change: Change, first: int, ops: Sequence[Op]) -> Fields:
    """Which document an edit is of: its update says nothing of any other."""
    try:
        named = check_marker(unpack(ops[-1].value or b""))[0]
    except InvalidEncoding:
        return {}
    return {"document": encode_dot(named or Dot(change.writer, change.seq, first + len(ops) - 1))}


EDIT = Operation("text", Tells.PART, _update, _edited_document, is_edit=True)
COMPACT = Operation("compact", Tells.REWRITE, no_value)


def _kept(change: Change, op: Op, removed: Sequence[Entry]) -> Collection[Dot]:
    """A marker lives on if the change writes another of its document, or of one made of that."""
    documents = _written_documents(change, op.key)
    return {entry.dot for entry in removed if entry.kind == Kind.TEXT and named_document(entry.value) in documents}


def _written_documents(change: Change, key: str) -> set[Dot]:
    """The documents that a change writes of a text, and those that these are made of."""
    found: set[Dot] = set()
    for n, op in enumerate(change.ops):
        if op.kind != Kind.TEXT or op.key != key or op.value_hash is None:
            continue
        try:
            named, _ = check_marker(unpack(op.value or b""))
        except InvalidEncoding:
            continue
        dot = Dot(change.writer, change.seq, n)
        value = pack(list(dot if named is None else named))
        found.update(members_of(Entry(0, dot, op.key, op.sub, int(op.kind), 0, "", value, b"", op.attrs)))
    return found


def _history_value(_entry: Entry) -> None:
    """An edit is no value of its own."""


def _history_fields(entry: Entry) -> Fields:
    """Which document was edited; and how often, and since when, as far as edits of one author are told as one."""
    return {"document": encode_dot(named_document(entry.value)), "edits": 1, "began": hlc_ms(entry.hlc)}


RULES: Rules = Rules(
    _split,
    _read,
    is_inline=_is_short,
    writes={"text_apply": _apply, "text_compact": _compact},
    copy=_copy,
    merge=merge_siblings,
    written=EDIT,
    written_to={LINEAGE: COMPACT},
    kept=_kept,
    history_value=_history_value,
    history_fields=_history_fields,
)
