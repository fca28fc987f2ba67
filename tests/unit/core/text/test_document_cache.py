"""Documents in memory: loaded on demand, let go again, never used again after a failure of the Yjs library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pycrdt import Doc, Text, merge_updates

from crdtsync.causality import Dot, Writer
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.text import document_cache
from crdtsync.core.text.document import Document
from crdtsync.core.text.document_cache import Documents
from crdtsync.core.text.drafted_edits import DraftedEdits
from crdtsync.core.text.yjs_library import NO_CHANGE, fresh_updates
from crdtsync.errors import CrdtSyncError, InvalidValue
from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.yjs.competition import COMPARED_A_PART
from crdtsync.wire.yjs.encoding import parts_at_most
from fuzz.yjs_steps import Item, update_of

DOT = Dot(Writer(7), 1, 0)


class PanicException(BaseException):  # as pyo3 calls it
    """What the Yjs library raises when it panics."""


class Disk:
    """What is stored of documents."""

    def __init__(self) -> None:
        self.updates: dict[Dot, list[bytes]] = {}
        self.loads = 0

    def load(self, dot: Dot) -> tuple[bytes | None, list[bytes]]:
        self.loads += 1
        return None, self.updates.get(dot, [])

    def documents(self) -> Documents:
        return Documents(self.load, self.updates.__contains__)


def dot_of(number: int) -> Dot:
    return Dot(Writer(7), number, 0)


def text_update(text: str, seed: bytes = b"") -> bytes:
    (update,) = fresh_updates(text, seed, 1_000_000)
    return update


def appended(update: bytes, text: str) -> bytes:
    """An edit on top of a document with ``update``."""
    doc: Doc[Text] = Doc()
    doc.apply_update(update)
    found: list[bytes] = []
    subscription = doc.observe(lambda event: found.append(event.update))
    doc.get("text", type=Text).insert(0, text)
    doc.unobserve(subscription)
    return found[0]


def items_between(state: bytes, count: int) -> bytes:
    """An edit that puts so many characters into a text, each apart."""
    doc: Doc[Text] = Doc()
    doc.apply_update(state)
    found: list[bytes] = []
    subscription = doc.observe(lambda event: found.append(event.update))
    with doc.transaction():
        for number in range(count):
            doc.get("text", type=Text).insert(10 * number, "a")
    doc.unobserve(subscription)
    return found[0]


def filled(count: int) -> tuple[Disk, Documents]:
    disk = Disk()
    for number in range(1, count + 1):
        disk.updates[dot_of(number)] = [text_update(f"text {number}")]
    return disk, disk.documents()


def test_a_document_that_nobody_uses_is_let_go_after_a_while() -> None:
    disk, documents = filled(2)
    documents.now_s = 100.0
    assert documents.get(dot_of(1)).read() == "text 1"
    documents.unload()
    documents.now_s += 50
    assert documents.get(dot_of(2)).read() == "text 2"
    documents.unload()
    assert documents.unload_due_s() == 100.0 + document_cache.IDLE_S
    documents.now_s = 100.0 + document_cache.IDLE_S
    documents.unload()
    assert len(documents) == 1
    assert documents.get(dot_of(1)).read() == "text 1"
    assert disk.loads == 3


def test_a_state_that_is_held_already_is_not_judged_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, documents = filled(2)
    states = [documents.get(dot_of(number)).state() for number in (1, 2)]
    with monkeypatch.context() as patch:
        patch.delattr(Document, "outline")
        assert documents.absorb(dot_of(1), states[0]) == states[0]
        with pytest.raises(AttributeError):
            documents.absorb(dot_of(1), states[1])
    documents.committed()
    assert documents.get(dot_of(1)).read() == "text 1"
    edit = appended(disk.updates[dot_of(1)][0], "an edit of ")
    documents.apply(dot_of(1), edit)
    assert documents.absorb(dot_of(1), states[0]) == documents.get(dot_of(1)).state() != states[0]
    assert documents.get(dot_of(1)).read() == "an edit of text 1"


@pytest.mark.parametrize("take_in", [lambda document, state: document.absorb(state, is_new=False), Document.settle])
def test_what_was_found_about_an_edit_is_forgotten_with_another_state(
    take_in: Callable[[Document, bytes], object],
) -> None:
    disk, documents = filled(0)
    disk.updates[dot_of(1)] = [text_update("x" * 900_000)]  # where it takes long to find a place
    document = documents.get(dot_of(1))
    edits = items_between(document.state(), 100)
    document.parts_at_once(edits, is_next=True)
    take_in(document, merge_updates(document.state(), items_between(document.state(), 500)))
    document.apply(edits)  # as if nothing had come since would be to forget these items, by which edits are bounded
    assert document.outline().competition.items > 500


def test_siblings_that_a_peers_edit_is_compared_with_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crdtsync.core.text.document.STEP_PARTS_MAX", 60)
    disk, documents = filled(0)
    disk.updates[dot_of(1)] = [text_update("x" * 20)]
    document = documents.get(dot_of(1))
    first, second = (update_of([Item((of + n, 0), None, None) for n in range(30)]) for of in (1000, 2000))
    alone = parts_at_most(first, 60)
    assert alone + sum(range(1, 31)) // COMPARED_A_PART <= document.parts_at_once(first, is_next=True) < 60
    document.apply(first)
    assert document.parts_at_once(second, is_next=True) > 60
    assert document.parts_at_once(second, is_next=False) > 60
    short = update_of([Item((3000, 0), None, None)])
    assert document.parts_at_once(short, is_next=False) == parts_at_most(short, 60)
    document.apply(second)  # what is dear is refused to nobody


def test_an_edit_that_comes_while_a_document_is_loaded_in_steps_stays() -> None:
    disk, documents = filled(0)
    updates = disk.updates[dot_of(1)] = [text_update("x" * 20_000)]
    updates.append(appended(updates[0], "y"))
    document = documents.get(dot_of(1))
    loading = document.load()
    next(loading)
    edit = appended(merge_updates(*updates), "z")
    documents.apply(dot_of(1), edit)
    updates.append(edit)
    documents.committed()
    assert not [*loading]
    assert document.read().startswith("zyx")


def test_the_one_unused_for_longest_goes_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_cache, "OPEN_DOCUMENTS_MAX", 3)
    disk, documents = filled(4)
    for number in (1, 2, 3, 1, 4):
        documents.get(dot_of(number)).read()
    assert len(documents) == 3
    documents.get(dot_of(1)).read()
    assert disk.loads == 4
    documents.get(dot_of(2)).read()
    assert disk.loads == 5


def test_the_oldest_go_when_all_take_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_cache, "OPEN_BYTES_MAX", 3 * 5000)
    _, documents = filled(9)
    for number in range(1, 10):
        documents.get(dot_of(number)).read()
    documents.unload()
    assert 1 <= len(documents) <= 3
    assert documents.memory_bytes <= 3 * 5000


def test_those_that_could_not_go_before_they_were_on_disk_go_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot with more texts than may be open."""
    monkeypatch.setattr(document_cache, "OPEN_DOCUMENTS_MAX", 2)
    documents = Disk().documents()
    for number in range(5):
        documents.apply(dot_of(number), text_update("new"))
    assert len(documents) == 5
    documents.committed()
    assert len(documents) == 2


def test_what_is_not_on_disk_is_never_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_cache, "OPEN_DOCUMENTS_MAX", 2)
    monkeypatch.setattr(document_cache, "OPEN_BYTES_MAX", 1)
    _, documents = filled(3)
    documents.apply(dot_of(9), text_update("not yet on disk"))
    for number in (1, 2, 3):
        documents.get(dot_of(number)).read()
    documents.now_s = 1e6
    documents.unload()
    assert documents.exists(dot_of(9))
    assert documents.get(dot_of(9)).read() == "not yet on disk"
    documents.committed()
    documents.now_s = 2e6
    documents.unload()
    assert len(documents) <= 1


def test_asking_whether_a_document_exists_makes_none() -> None:
    _, documents = filled(1)
    assert documents.exists(dot_of(1))
    assert not documents.exists(dot_of(2))
    assert len(documents) == 0
    documents.get(dot_of(2)).read()
    assert not documents.exists(dot_of(2))


# -- failures of the Yjs library ----------------------------------------------------------------------------------


class Faulty:
    """A Yjs document whose next call of one method fails, after it has done half of its work."""

    def __init__(self, doc: Any, method: str, error: BaseException) -> None:
        self._doc = doc
        self._method = method
        self._error = error

    def __getattr__(self, name: str) -> Any:
        if name != self._method:
            return getattr(self._doc, name)

        def fail(*_args: object, **_named: object) -> None:
            self._doc.get("text", type=Text).insert(0, "garbage ")
            raise self._error

        return fail


READS: dict[str, tuple[str, Callable[[Document], object]]] = {
    "read": ("get", lambda document: document.read()),
    "state": ("get_update", lambda document: document.state()),
    "updates_after": ("get_update", lambda document: document.updates_after(b"\0")),
    "is_empty": ("get_state", lambda document: document.is_empty),
}


@pytest.mark.parametrize("name", READS)
def test_a_read_that_fails_is_answered_from_a_document_built_anew(name: str) -> None:
    method, read = READS[name]
    disk, documents = filled(1)
    document = documents.get(dot_of(1))
    right = read(document)
    document._doc = Faulty(document._doc, method, PanicException("boom"))  # type: ignore[assignment]
    assert read(document) == right
    assert document.read() == "text 1"
    assert disk.loads == 2


def test_an_apply_that_fails_leaves_the_document_as_it_was() -> None:
    disk, documents = filled(1)
    documents.apply(dot_of(1), appended(disk.updates[dot_of(1)][0], "kept "))
    document = documents.get(dot_of(1))
    edit = appended(document.state(), "more ")
    document._doc = Faulty(document._doc, "apply_update", PanicException("boom"))  # type: ignore[assignment]
    with pytest.raises(InvalidValue, match="refuses this update"):
        document.apply(edit)
    assert document.read() == "kept text 1"
    document.apply(edit)
    assert document.read() == "more kept text 1"


def test_a_document_that_cannot_be_read_at_all_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    _, documents = filled(1)

    def panic(*_: object) -> None:
        raise PanicException("boom")

    monkeypatch.setattr(Doc, "apply_update", panic)
    with pytest.raises(CrdtSyncError, match="the text cannot be read"):
        documents.get(dot_of(1)).read()


def test_an_interrupt_is_no_failure_of_the_document_and_goes_on_up() -> None:
    _, documents = filled(1)
    document = documents.get(dot_of(1))
    document.read()
    document._doc = Faulty(document._doc, "get", KeyboardInterrupt())  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        document.read()
    assert document.read() == "text 1"


# -- edits that a daemon makes -----------------------------------------------------------------------------------


def document_with(*updates: bytes) -> Document:
    return Document(DOT, lambda _: (None, list(updates)))


def test_an_edit_counts_in_characters() -> None:
    document = document_with(text_update("añ😀b"))
    document.apply(document.edited([(1, 2, "Ñ"), (3, 4, "")]))
    assert document.read() == "aÑ😀"


def test_two_nodes_that_make_the_same_edit_make_the_same_bytes() -> None:
    base = text_update("one two")
    first, second = document_with(base), document_with(base)
    update = first.edited([(4, 4, "and ")])
    assert update == second.edited([(4, 4, "and ")])
    first.apply(update)
    first.apply(update)
    assert first.read() == "one and two"


def test_the_same_edit_later_is_another_one() -> None:
    document = document_with(text_update("one two"))
    document.apply(document.edited([(4, 4, "and ")]))
    document.apply(document.edited([(4, 8, "")]))
    document.apply(document.edited([(4, 4, "and ")]))
    assert document.read() == "one and two"


def test_no_edit_makes_no_change() -> None:
    assert document_with(text_update("x")).edited([]) == NO_CHANGE


def test_only_plain_texts_can_be_replaced() -> None:
    document_with(text_update("plain")).check_plain()
    formatted: Doc[Text] = Doc()
    formatted.get("text", type=Text).insert(0, "bold", {"bold": True})
    with pytest.raises(InvalidValue, match="more than characters"):
        document_with(formatted.get_update()).check_plain()


def test_dependent_edits_are_judged_one_after_the_other() -> None:
    base = text_update("one")
    second = appended(base, "two ")
    document = document_with()
    with pytest.raises(InvalidValue):
        document.check(second)
    edits = DraftedEdits()
    edits.add(base)
    document.check(second, edits)
    edits.add(second)
    third = appended(merge_updates(base, second), "three ")
    document.check(third, edits)
    with pytest.raises(InvalidValue):
        document.check(appended(merge_updates(base, second, third), "four "), edits)
    assert document.is_empty


# -- which documents are named ------------------------------------------------------------------------------------


def marker(number: int, document: Dot, key: str = "t") -> Entry:
    return Entry(number, dot_of(number), key, None, Kind.TEXT, 0, "", pack(list(document)), b"", None)


def test_markers_are_counted() -> None:
    documents = Disk().documents()
    documents.named(marker(1, DOT))
    documents.named(marker(2, DOT))
    assert documents.unnamed(marker(1, DOT)) is None
    assert documents.is_named(DOT)
    assert documents.key_of(DOT) == "t"
    assert documents.unnamed(marker(2, DOT)) == DOT
    assert not documents.is_named(DOT)


def test_a_text_that_was_made_empty_is_there():
    """Or its first edit would look like one of a document whose past is lacking, and call for a snapshot."""
    disk = Disk()
    documents = disk.documents()
    assert not documents.exists(DOT)
    documents.apply(DOT, NO_CHANGE)
    assert documents.exists(DOT)
    disk.updates[DOT] = [NO_CHANGE]
    documents.committed()
    assert documents.exists(DOT)
    documents.get(dot_of(2))  # looked at, and nothing is known of it
    assert not documents.exists(dot_of(2))
