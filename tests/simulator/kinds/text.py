"""Texts: markers of documents, of which no word is lost."""

from __future__ import annotations

from crdtsync.causality import Dot
from crdtsync.wire.kinds import Kind
from tests.simulator.cases import Case, Sub, named
from tests.simulator.kinds.base import UNKNOWN, Chooser, Learns, Operation, SimulatedKind
from tests.simulator.model import current, family_of, groups, require

KEYS = ("text/1", "text/2")
LINEAGE = "lineage"
"""The name of entries that tell which documents are one text."""


def _text(case: Case) -> None:
    """An edit of a document, in place of the markers of its text."""
    sub = case.sub
    document = sub.document
    if document is None and case.live:  # who saw no text edits the one that there is by now
        document = current(groups(case.live, case.schema(sub.key).policy)[0])
    family = family_of(case.held.values(), document)
    if len(family) > 1:  # it is made in the newest one that is held, whichever it names
        newest = max(family, key=lambda each: (family[each], each))
        document = newest if newest in case.draft.texts.of(sub.key) else document
    markers = frozenset(v.dot for v in case.held.values() if v.document in family and v.sub != LINEAGE)
    dot, op = case.take_op()
    actual = named(case.held, op.removes)
    case.check_removes(actual, markers if document is not None else frozenset())
    value = case.add_text(dot, op)
    require(value.document == (document or dot), case, "edits the document", value.document)
    case.done(actual, value)
    assert value.document is not None
    words = case.draft.texts.words(value.document)
    require(sub.word is None or sub.word in words, case, "makes the text", words)


def rewrite(case: Case) -> None:
    """Documents become fewer, or smaller: whatever was written into any of them is in those that are left."""
    texts, key = case.draft.texts, case.sub.key
    before = {document: texts.words(document) for document in sorted(texts.of(key))}
    live_before = _documents(case)
    while case.has_op:
        dot, op = case.take_op()
        gone = named(case.held, op.removes)
        require(op.kind == Kind.TEXT and op.value_hash is not None, case, "does not go on with the text")
        strange = [dot for dot in gone if case.held[dot].kind != Kind.TEXT]
        require(not strange, case, "replaces what is no text:", strange)
        case.done(gone, case.add_text(dot, op), by="rewrite")
    live = _documents(case)
    after = {document: texts.words(document) for document in live}
    kept: set[str] = set().union(*after.values())
    wanted: set[str] = set().union(*(before[document] for document in live_before)) - case.cuts
    require(wanted <= kept, case, "loses the words", wanted - kept)
    for document, words in after.items():
        others = set().union(*(held for name, held in before.items() if name != document))
        require(words - before.get(document, set()) <= others, case, "invents words:", words, before)
        lost = before.get(document, set()) - words - case.cuts
        require(not lost, case, "loses words of", document, lost)


def _documents(case: Case) -> set[Dot]:
    return {value.document for value in case.held.values() if value.document is not None}


def _compact(case: Case) -> None:
    if case.has_op:
        rewrite(case)


def draw(chooser: Chooser, key: str) -> Sub:
    """What is done to a text beside edits, which an agent makes from what it has read."""
    return Sub(chooser.pick(("delete", "compact")), key)


EDIT = Operation(_text, learns=Learns.VALUE, told=lambda content, value: UNKNOWN)
COMPACT = Operation(_compact, may_do_nothing=True, has_context=False)
TEXT = SimulatedKind(Kind.TEXT, KEYS, draw, {"text": EDIT, "compact": COMPACT})
