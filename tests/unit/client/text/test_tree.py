"""A document's map as a tree: paths, edits, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycrdt import Array, Doc, Map, Text

from crdtsync.causality import Dot, Writer
from crdtsync.client.text.tree import RUN_ELEMENTS, DocumentTree, check
from crdtsync.core.text.document import Document
from crdtsync.core.text.yjs_library import ROOTS
from crdtsync.errors import InvalidRequest, InvalidValue, TooLarge
from crdtsync.wire.limits import WORK_PARTS_MAX
from crdtsync.wire.yjs.encoding import parts_at_most
from crdtsync.wire.yjs.validator import Outline, advance, validate_update

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary(),
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
    board.do("set", "n", [1, {"a": None, "b": b"x"}])
    assert board.tree.edited(lambda tree: tree.set("n", (1.0, {"b": b"x", "a": None}))) is None


@pytest.mark.parametrize("old, new", [(True, 1), (0, False), ([1], [True]), ({"a": False}, {"a": 0}), (b"1", "1")])
def test_a_value_of_another_type_is_an_edit(board: Board, old: Any, new: Any) -> None:
    for value in (old, new):
        board.do("set", "v", value)
        assert repr(board.tree.get("v")) == repr(value)


def test_names_are_in_order(board: Board) -> None:
    names = [f"name {number}" for number in range(20)]
    for name in reversed(names):
        board.do("set", ["all", name], dict.fromkeys(reversed(names), 1))
    assert [*board.tree.get("all")] == [*board.tree.get("all/name 7")] == sorted(names)


def test_a_long_list_is_set_in_runs() -> None:
    """As one edit of few parts: the Yjs library looks through all elements that it has put into its transaction."""
    board = Board()
    numbers = [*range(20_000)]
    for place, value in (
        ("plain", numbers), ("in/a/map", {"list": numbers}), ("in/a/list", [1, [numbers], numbers[: RUN_ELEMENTS + 1]]),
        ("plain", [*numbers, "more"]),
    ):  # fmt: skip
        update = board.tree.edited(lambda tree, place=place, value=value: tree.set(place, value))  # type: ignore[misc]
        assert update is not None
        assert parts_at_most(update, WORK_PARTS_MAX) < len(numbers) // RUN_ELEMENTS + 40
        board.document.apply(update)
        assert board.tree.get(place) == value
    board.do("insert", "plain/1", numbers)
    assert board.tree.get("plain") == [0, numbers, *numbers[1:], "more"]


def test_more_parts_than_an_edit_may_have_are_refused() -> None:
    fields = {f"{number}": number for number in range(WORK_PARTS_MAX - 1)}
    within: list[Any] = [fields, [[]] * (WORK_PARTS_MAX - 1), [*range(RUN_ELEMENTS * (WORK_PARTS_MAX - 1))]]
    beyond: list[Any] = [{**fields, "more": 1}, [fields], [*within[1], []], [*within[2], 1]]
    for value in within:
        check(value)
    for value in beyond:
        with pytest.raises(TooLarge, match=r"parts: .* at most 1,300: split the edit"):
            check(value)
    Board().do("set", "fields", fields)


@pytest.mark.parametrize("path", [None, 1, b"ab", ["x", 1.5], ["x", None], [True], {"x"}])
def test_what_is_no_path_is_refused(board: Board, path: Any) -> None:
    for edit in (board.tree.get, board.tree.delete, lambda path: board.tree.set(path, 1)):
        with pytest.raises(InvalidRequest, match="a path is names and indexes"):
            edit(path)


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


@pytest.mark.parametrize(
    "name, arguments", [("insert", ("note/0", 1)), ("delete", ("note/0",)), ("set", ("note/0", 1))]
)
def test_a_shared_text_within_a_document_is_edited_by_its_editor_or_set_as_a_whole(name, arguments):
    page: Doc[Any] = Doc()
    page.get("doc", type=Map)["note"] = Text("hello")
    tree = DocumentTree(page.get_update())
    with pytest.raises(InvalidRequest, match="'note' is no map and no list: set it as a whole"):
        tree.edited(lambda tree: getattr(tree, name)(*arguments))
