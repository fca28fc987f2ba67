"""A document's map as a tree: paths, edits, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycrdt import Array, Doc, Map, Text

from crdtsync.causality import Dot, Writer
from crdtsync.client.text.tree import DocumentTree, check
from crdtsync.core.text.document import Document
from crdtsync.core.text.yjs_library import ROOTS
from crdtsync.errors import InvalidRequest, InvalidValue
from crdtsync.wire.yjs.validator import Outline, advance, validate_update

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


class Board:
    """A document to which each edit's update is applied, as the daemon judges it."""

    def __init__(self) -> None:
        self.document = Document(Dot(Writer(1), 1, 0), lambda _: (None, []))

    @property
    def tree(self) -> DocumentTree:
        return DocumentTree(None if self.document.is_empty else self.document.state())

    def do(self, name: str, *given: Any) -> None:
        update = self.tree.edited(lambda tree: getattr(tree, name)(*given))
        if update is not None:
            self.document.apply(update)


@pytest.fixture
def board() -> Board:
    board = Board()
    board.do("set", "columns", [{"title": "todo", "cards": ["a", "b"]}])
    return board


@given(values)
def test_what_is_set_is_read_back(value: Any) -> None:
    board = Board()
    board.do("set", ["a/b", "c"], value)
    assert board.tree.get(["a/b", "c"]) == value
    assert board.tree.get("") == {"a/b": {"c": value}}


def test_paths_lead_to_places(board: Board) -> None:
    get = board.tree.get
    assert get("columns/0/title") == get(["columns", 0, "title"]) == "todo"
    assert get("columns/0/cards") == ["a", "b"]
    assert [get(path) for path in ("columns/1", "nothing/there", "columns/0/title/x", "columns/-")] == [None] * 4
    assert get("nothing", "default") == "default"


def test_a_list_is_edited_in_place(board: Board) -> None:
    for name, path, value in (
        ("insert", "columns/0/cards/1", "between"), ("insert", "columns/0/cards/-", "last"),
        ("set", "columns/0/cards/0", "A"), ("set", "columns/-", {"title": "done"}),
    ):  # fmt: skip
        board.do(name, path, value)
    board.do("delete", "columns/0/cards/2")
    assert board.tree.get("") == {"columns": [{"title": "todo", "cards": ["A", "between", "last"]}, {"title": "done"}]}
    board.do("delete", "columns/0/cards")
    board.do("delete", "nothing/at/all")
    assert board.tree.get("columns/0") == {"title": "todo"}


def test_edits_of_two_places_are_merged(board: Board) -> None:
    ann, bob = board.tree, board.tree
    updates = [
        ann.edited(lambda tree: tree.set("columns/0/title", "now")),
        bob.edited(lambda tree: tree.insert("columns/0/cards/0", "new")),
    ]
    for update in updates:
        assert update is not None
        board.document.apply(update)
    assert board.tree.get("columns/0") == {"title": "now", "cards": ["new", "a", "b"]}


def test_what_changes_nothing_is_no_edit(board: Board) -> None:
    assert board.tree.edited(lambda tree: tree.set("columns/0/title", "todo")) is None
    assert board.tree.edited(lambda tree: tree.delete("columns/5/x")) is None


@pytest.mark.parametrize(
    "name, path",
    [
        ("set", ""), ("insert", "columns"), ("insert", "columns/0/title"), ("set", "columns/5"), ("set", "columns/x"),
        ("set", "columns/0/title/x"), ("insert", "nothing/0"), ("delete", ""),
    ],
)  # fmt: skip
def test_what_leads_nowhere_is_refused(board: Board, name: str, path: str) -> None:
    before = board.tree.get("")
    with pytest.raises(InvalidRequest):
        board.do(name, path, *(["x"] if name != "delete" else []))
    assert board.tree.get("") == before


def test_values_that_a_document_cannot_hold_are_refused() -> None:
    for value in (2**53 + 1, [{"a": -(2**60)}], float("nan"), {1: 2}, "\ud800", object()):
        with pytest.raises(InvalidValue):
            check(value)


def test_what_pages_make_is_read() -> None:
    doc: Doc[Any] = Doc()
    root = doc.get("doc", type=Map)
    root["notes"] = Text("hello")
    root["plain"] = {"n": [1, 2.5]}
    root["list"] = Array([Map({"a": 1})])
    tree = DocumentTree(doc.get_update())
    assert tree.get("") == {"notes": "hello", "plain": {"n": [1, 2.5]}, "list": [{"a": 1}]}
    with pytest.raises(InvalidRequest, match="as a whole"):
        tree.edited(lambda tree: tree.set("plain/n", 1))


def test_the_daemon_refuses_what_is_no_map_under_that_name() -> None:
    doc: Doc[Any] = Doc()
    doc.get("doc", type=Array).append("x")
    with pytest.raises(InvalidValue):
        Document(Dot(Writer(1), 1, 0), lambda _: (None, [])).apply(doc.get_update())
    outline = Outline(ROOTS)
    doc = Doc()
    doc.get("other", type=Array).append("x")
    advance(outline, validate_update(doc.get_update(), outline))
