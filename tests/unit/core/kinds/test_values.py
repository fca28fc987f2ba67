"""From entries to what a reader sees."""

# Writers are plain numbers here.
# mypy: disable-error-code="arg-type,dict-item,operator,var-annotated"

from __future__ import annotations

import pytest

from crdtsync.causality import Dot
from crdtsync.core.crdt.entries import Entries
from crdtsync.core.kinds.values import siblings, version_of
from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind, kind_name
from crdtsync.wire.limits import NAMED_DOTS_MAX
from tests.unit.core.crdt.test_entries import entry


def groups(*entries):
    store = Entries()
    for each in entries:
        store.add(each)
    return [[tuple(e.dot) for e in group] for group in siblings(store, store.held("k"))]


def test_registers_are_siblings_the_latest_first_then_the_higher_writer():
    assert groups(entry((1, 1, 0), hlc=5), entry((3, 1, 0), hlc=7), entry((2, 1, 0), hlc=7)) == [
        [(3, 1, 0)],
        [(2, 1, 0)],
        [(1, 1, 0)],
    ]


def test_the_elements_of_a_log_are_one_value():
    log = [entry((writer, 1, 0), kind=int(Kind.LOG), hlc=writer) for writer in (1, 2, 3)]
    assert groups(*log) == [[(1, 1, 0), (2, 1, 0), (3, 1, 0)]]


def test_a_log_and_a_register_are_siblings_and_the_newest_entry_decides():
    log = [entry((writer, 1, 0), kind=int(Kind.LOG), hlc=writer) for writer in (1, 9)]
    register = entry((5, 1, 0), hlc=5)
    assert groups(*log, register) == [[(1, 1, 0), (9, 1, 0)], [(5, 1, 0)]]
    late = entry((5, 1, 0), hlc=50)
    assert groups(*log, late) == [[(5, 1, 0)], [(1, 1, 0), (9, 1, 0)]]


def test_markers_of_one_document_are_one_value_and_of_two_documents_siblings():
    first, second = pack([1, 1, 0]), pack([2, 1, 0])
    texts = [
        entry((1, 1, 0), kind=int(Kind.TEXT), value=first, hlc=1),
        entry((2, 1, 0), kind=int(Kind.TEXT), value=second, hlc=2),
        entry((3, 1, 0), kind=int(Kind.TEXT), value=first, hlc=3),
    ]
    assert groups(*texts) == [[(1, 1, 0), (3, 1, 0)], [(2, 1, 0)]]


def test_nothing_has_no_values():
    assert groups() == []


@pytest.mark.parametrize("kind, name", [(0, "register"), (4, "log"), (5, "text"), (77, "kind-77")])
def test_kinds_have_names_also_unknown_ones(kind, name):
    assert kind_name(kind) == name


def test_a_version_names_what_was_handed_over_and_what_else_was_alive():
    shown, others = [entry((2, 1, 0), hlc=9)], [entry((1, 1, 0), hlc=5)]
    version = version_of(shown, others)
    assert (version.dots, version.others, version.vector, version.hlc) == ((Dot(2, 1, 0),), (Dot(1, 1, 0),), None, 9)


def test_a_version_of_very_much_is_a_vector_only_if_all_of_it_was_handed_over():
    many = [entry((1 + n % 3, 1 + n, 0), hlc=n) for n in range(NAMED_DOTS_MAX + 1)]
    assert version_of(many).vector == {1: 64, 2: 65, 3: 63}
    version = version_of(many[-1:], many[:-1])
    assert version.vector is None
    assert version.dots == (many[-1].dot,)
    assert {*version.others} == {e.dot for e in many[:-1]}


def test_a_version_of_very_much_beside_too_much_to_name_covers_no_more_than_it_names():
    many = [entry((1, 1 + n, 0), hlc=n) for n in range(NAMED_DOTS_MAX + 1)]
    others = [entry((1, 2000 + n, 0), hlc=n) for n in range(1000)]
    assert version_of(many, others).vector == {1: NAMED_DOTS_MAX + 1}
    assert len(version_of(many, others).others) == 1000
    version = version_of(many, [*others, entry((1, 1, 1))])
    assert version.vector is None
    assert {*version.dots} == {e.dot for e in many}


def test_a_version_of_nothing():
    assert version_of([]).dots == ()
