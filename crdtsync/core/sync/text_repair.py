"""Texts that two replicas hold differently for good, and how they become one again.

Yjs unites whatever honest editors make. It cannot where one name of an edit (client and clock) stands for two things:
each replica keeps what came first. That takes a program that uses one Yjs client id twice, or a member that forges
edits; the judge of edits (:mod:`crdtsync.wire.yjs.validator`) then decides by what it holds too, and may skip on one
node what another one takes. So both versions are written anew, as two documents in conflict, for somebody to settle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.core.identity import OWN_AGENT
from crdtsync.core.kinds.draft import Draft
from crdtsync.core.kinds.text_join import begin
from crdtsync.core.text.document import Document
from crdtsync.core.text.family import family_of
from crdtsync.core.text.forgetting import CHUNK_CHARS_MAX
from crdtsync.core.text.yjs_library import fresh_updates
from crdtsync.errors import CrdtSyncError, InvalidValue
from crdtsync.wire.codec import pack
from crdtsync.wire.yjs.encoding import Steps

if TYPE_CHECKING:
    from crdtsync.causality import Dot
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.space import Applied

LOADS_MAX = 8
"""How often a text is stored and loaded until it reads the same as the time before."""


def held_elsewhere(document: Dot, state: bytes) -> Document:
    """A document as another replica holds it."""
    return Document(document, lambda _: (state, []))


def united(document: Dot, ours: bytes, theirs: bytes) -> Steps[Document | None]:
    """The document that follows from two states of it, as every node will load it; None: they differ also when each has
    taken in the other.
    """
    if ours == theirs:
        return (yield from _lasting(document, ours))
    both: list[Document] = []
    for mine, other in ((ours, theirs), (theirs, ours)):
        held = held_elsewhere(document, mine)
        try:
            yield from held.judge(other)
            yield
            state = held.absorb(other, is_new=False)
            yield
            whole = yield from _lasting(document, state)
        except CrdtSyncError:
            return None
        if whole is None:
            return None
        both.append(whole)
        yield
    return both[0] if both[0].content() == both[1].content() else None


def _lasting(document: Dot, state: bytes) -> Steps[Document | None]:
    """A document that reads the same when it was stored and loaded again; None: it never does.

    With forged neighbours the order may be another one each time.
    """
    held = held_elsewhere(document, state)
    content = held.content()
    for _ in range(LOADS_MAX):
        yield
        again = held_elsewhere(document, held.state())
        before, content = content, again.content()
        if content == before:
            return held
        held = again
    return None


def write_anew(replica: Replica, document: Dot, theirs: bytes, now_ms: int) -> list[Applied]:
    """Replace a torn document of which another replica holds ``theirs``; returns the changes that came of it.

    :raises InvalidValue: it is too large for one edit, and holds more than text.
    """
    key = replica.documents.key_of(document)
    family = None if key is None else family_of(replica.entries.live(key, now_ms), document)
    if key is None or family is None:
        return []  # somebody has replaced it meanwhile
    draft = Draft(replica, now_ms)
    gone = [entry.dot for entry in family.entries]
    for state in dict.fromkeys((replica.documents.get(document, is_use=False).state(), theirs)):
        begin(draft, key, _afresh(document, state), gone)
        gone = []
    return [replica.commit(draft.ops, OWN_AGENT, None, now_ms)]


def _afresh(document: Dot, state: bytes) -> list[bytes]:
    """The updates of a new document that reads like this one.

    :raises InvalidValue: it is too large for one edit, and holds more than text.
    """
    held = held_elsewhere(document, state)
    try:
        held.check_plain()
    except InvalidValue:
        Document(document, lambda _: (None, [])).check(state)
        return [state]
    return fresh_updates(held.read(), pack([list(document), "torn", state]), CHUNK_CHARS_MAX)
