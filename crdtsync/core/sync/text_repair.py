"""Texts that two replicas hold differently for good, and how they become one again.

Yjs unites whatever honest editors make. It cannot where one name of an edit (client and clock) stands for two things:
each replica keeps what came first. That takes a program that uses one Yjs client id twice, or a member that forges
edits; the judge of edits (:mod:`crdtsync.wire.yjs.validator`) then decides by what it holds too, and may skip on one
node what another one takes. So the text is written anew, as a compaction does it: with the words of both where it is
plain, else as two documents in conflict, for people to decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.core.identity import OWN_AGENT
from crdtsync.core.replica.change_draft import Draft
from crdtsync.core.text.document import Document
from crdtsync.core.text.join import CHUNK_CHARS_MAX, begin_anew, text_op
from crdtsync.core.text.lineage import by_document
from crdtsync.core.text.word_merge import union
from crdtsync.core.text.yjs_library import fresh_updates
from crdtsync.errors import CrdtSyncError, InvalidValue
from crdtsync.wire.codec import pack

if TYPE_CHECKING:
    from crdtsync.causality import Dot
    from crdtsync.core.replica.replica import Applied, Replica


def held_elsewhere(document: Dot, state: bytes) -> Document:
    """A document as another replica holds it."""
    return Document(document, lambda _: (state, []))


def united(document: Dot, ours: bytes, theirs: bytes) -> Document | None:
    """What becomes of two states of a document, as every node will load it; None: they differ also when each has taken
    in the other.
    """
    if ours == theirs:
        return held_elsewhere(document, ours)
    both: list[Document] = []
    for mine, other in ((ours, theirs), (theirs, ours)):
        try:
            whole = held_elsewhere(document, mine).absorb(other, is_new=False)
        except CrdtSyncError:
            return None
        both.append(held_elsewhere(document, whole))
    return both[0] if both[0].content() == both[1].content() else None


def write_anew(replica: Replica, document: Dot, theirs: bytes, now_ms: int) -> list[Applied]:
    """Replace a torn document of which another replica holds ``theirs``; returns the changes that came of it.

    :raises InvalidValue: it is too large for one edit, and holds more than text.
    """
    key = replica.documents.key_of(document)
    groups = {} if key is None else by_document(replica.entries.live(key, now_ms))
    if key is None or document not in groups:
        return []  # somebody has replaced it meanwhile
    here, there = replica.documents.get(document, is_use=False), held_elsewhere(document, theirs)
    draft = Draft(replica, now_ms, replica.node_of)
    try:
        here.check_plain()
        there.check_plain()
    except InvalidValue:
        begin_anew(draft, key, groups[document], [_as_edit(document, here.state())])
        draft.add(text_op(key, None, None, _as_edit(document, theirs), ()))
    else:
        whole = union(sorted((here.read(), there.read())))  # in an order that does not depend on who does it
        seed = pack([list(document), "torn"])
        begin_anew(draft, key, groups[document], fresh_updates(whole, seed, CHUNK_CHARS_MAX))
    return [replica.commit(draft.ops, OWN_AGENT, None, now_ms)]


def _as_edit(document: Dot, state: bytes) -> bytes:
    """A whole state, if it may be an edit of a new document.

    :raises InvalidValue: it may not.
    """
    Document(document, lambda _: (None, [])).check(state)
    return state
