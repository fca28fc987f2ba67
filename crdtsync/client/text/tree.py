"""The map of a Yjs document as a tree of JSON, read and edited by paths.

A text's document has a second part beside its text: a shared map named ``doc``. For example, in a page::

    doc.getMap("doc").set("columns", Y.Array.from([new Y.Map([["title", "todo"]])]))

and here ``columns/0/title`` is ``"todo"``. What is edited at two places of the tree at once is merged. Numbers are
JavaScript's: 1.0 is 1.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from crdtsync.client.text.yjs import Array, Doc, Map, Text, TransactionEvent, merge_updates
from crdtsync.client.values.encoding import encode
from crdtsync.errors import InvalidRequest, InvalidValue, TooLarge
from crdtsync.wire.limits import WORK_PARTS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = "doc"
END = "-"
"""As the last part of a path: behind the last element of a list, as JSON Pointer has it (RFC 6901)."""

WHOLE_MAX = 2**53
"""JavaScript counts no further."""

RUN_ELEMENTS = 128
"""Of a list that is set, so many elements are one part: the Yjs library looks through all that it has put there since
its last transaction, for each one more.
"""

Path = str | Sequence[str | int]
"""Names and indexes, or as one str with ``/`` between them; ``""`` is the whole."""

_ABSENT = object()


class DocumentTree:
    """The map of one document, as it was fetched."""

    def __init__(self, update: bytes | None) -> None:
        # A client id of its own each time: the Yjs library would number forked processes alike.
        self._doc: Doc[Any] = Doc(client_id=int.from_bytes(os.urandom(7), "big") >> 3)
        self._root: Map[Any] = self._doc.get(ROOT, type=Map)
        if update is not None:
            self._doc.apply_update(update)

    def get(self, path: Path, default: Any = None) -> Any:
        """What stands there, as plain values."""
        node: Any = self._root
        for part in _parts(path):
            node = _child(node, part)
            if node is _ABSENT:
                return default
        return _plain(node)

    def edited(self, edit: Callable[[DocumentTree], None]) -> bytes | None:
        """The Yjs update of an edit; None if it changes nothing."""
        updates: list[bytes] = []

        def note(event: TransactionEvent) -> None:
            updates.append(event.update)

        subscription = self._doc.observe(note)
        edit(self)
        self._doc.unobserve(subscription)
        return merge_updates(*updates) if updates else None

    def set(self, path: Path, value: Any) -> None:
        """Put a value there, and maps where parts before it are missing."""
        before, last = _place(path)
        node: Any = self._root
        for part in before:
            child = _child(node, part)
            if child is _ABSENT and isinstance(node, Map):
                node[str(part)] = Map({})
                child = node[str(part)]
            node = child
        old = _child(node, last)
        if old is not _ABSENT and _typed(_plain(old)) == _typed(_plain(value)):
            return
        if isinstance(node, Map):
            node[str(last)] = _beginning(value)
            _complete(node[str(last)], value)
        elif isinstance(node, Array):
            at = _index(node, last)
            if at < len(node):
                del node[at]
            _insert(node, at, value)
        else:
            raise _closed(before)

    def insert(self, path: Path, value: Any) -> None:
        """Put a value into a list, before the element that is there."""
        before, last = _place(path)
        node = self._node(before)
        if isinstance(node, Text):
            raise _closed(before)
        if not isinstance(node, Array):
            raise InvalidRequest(f"{_shown(before)} is no list")
        _insert(node, _index(node, last), value)

    def delete(self, path: Path) -> None:
        """Take out what is there, if anything."""
        before, last = _place(path)
        node = self._node(before)
        if isinstance(node, Text):
            raise _closed(before)
        if node is _ABSENT or _child(node, last) is _ABSENT:
            return
        if isinstance(node, Map):
            del node[str(last)]
        elif isinstance(node, Array):
            del node[int(last)]
        else:
            raise _closed(before)

    def _node(self, parts: Sequence[str | int]) -> Any:
        node: Any = self._root
        for part in parts:
            node = _child(node, part)
        return node


def _parts(path: Path) -> list[str | int]:
    if isinstance(path, str):
        return [*path.split("/")] if path else []
    if not _is_list_of_parts(path):
        raise InvalidRequest(f"a path is names and indexes, as a list or as a str with / between, not {path!r:.80}")
    return [*path]


def _is_list_of_parts(given: Any) -> bool:
    if not isinstance(given, Sequence) or isinstance(given, bytes | bytearray | memoryview):
        return False
    return all(isinstance(part, str | int) and not isinstance(part, bool) for part in given)


def _place(path: Path) -> tuple[list[str | int], str | int]:
    """What a place is in, and its name or index there."""
    *before, last = _parts(path) or [""]
    if not before and last == "":
        raise InvalidRequest("the whole is a map: name a place in it, or delete the key")
    return before, last


def _child(node: Any, part: str | int) -> Any:
    if isinstance(node, Map | dict):
        return node.get(str(part), _ABSENT)
    if isinstance(node, Array | list):
        return node[int(part)] if _is_number(part) and int(part) < len(node) else _ABSENT
    return _ABSENT


def _index(node: Any, part: str | int) -> int:
    """A place to put something into a list."""
    if part == END:
        return len(node)
    if not _is_number(part) or int(part) > len(node):
        raise InvalidRequest(f"{part!r} is no place in a list of {len(node)}: give an index, or {END!r} for its end")
    return int(part)


def _is_number(part: str | int) -> bool:
    return part >= 0 if isinstance(part, int) else part.isascii() and part.isdecimal()


def _plain(node: Any) -> Any:
    """Plain values, the names of each map in order: the Yjs library gives them in another order each time."""
    if isinstance(node, Map | dict):
        return {name: _plain(node[name]) for name in sorted(node.keys())}
    if isinstance(node, Array | list | tuple):
        return [_plain(child) for child in node]
    if isinstance(node, float):
        return int(node) if node.is_integer() and abs(node) <= WHOLE_MAX else node
    if isinstance(node, bytearray):  # which the Yjs library makes of bytes
        return bytes(node)
    return node if node is None or isinstance(node, bool | int | str | bytes) else str(node)


def _typed(plain: Any) -> Any:
    """What is equal only to what has the same types: to Python, True is 1."""
    if isinstance(plain, dict):
        return {name: _typed(child) for name, child in plain.items()}
    if isinstance(plain, list):
        return [_typed(child) for child in plain]
    return type(plain), plain


def _beginning(value: Any) -> Any:
    """A value as the document holds it, maps and lists that can be edited in parts: of each list the first run."""
    if isinstance(value, dict):
        return Map({name: _beginning(child) for name, child in value.items()})
    if isinstance(value, list | tuple):
        return Array([_beginning(child) for child in value[:RUN_ELEMENTS]])
    return value


def _complete(node: Any, value: Any) -> None:
    """The further runs of the lists of a value."""
    if isinstance(value, list | tuple):
        for first in range(RUN_ELEMENTS, len(value), RUN_ELEMENTS):
            node.extend([_beginning(child) for child in value[first : first + RUN_ELEMENTS]])
    if isinstance(value, dict | list | tuple):
        for place, child in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(child, dict | list | tuple):
                _complete(node[place], child)


def _insert(array: Array[Any], at: int, value: Any) -> None:
    array.insert(at, _beginning(value))
    _complete(array[at], value)


def check(value: Any) -> None:
    """Refuse what a document cannot hold.

    :raises InvalidValue: as every value, and whole numbers beyond 2**53.
    :raises TooLarge: as every value, and more parts than one edit may have.
    """
    encode(value)
    _check_numbers(value)
    parts = _parts_of(value)
    if parts > WORK_PARTS_MAX:
        raise TooLarge(
            f"the value comes to {parts:,} parts: each map, each list, each field and {RUN_ELEMENTS} plain elements of "
            f"a list are one; one edit may have at most {WORK_PARTS_MAX:,}: split the edit"
        )


def _check_numbers(value: Any) -> None:
    if isinstance(value, dict | list | tuple):
        for child in value.values() if isinstance(value, dict) else value:
            _check_numbers(child)
    elif isinstance(value, int) and abs(value) > WHOLE_MAX:
        raise InvalidValue(f"{value} is beyond 2**53, where numbers of a document are no longer exact", path="$")


def _parts_of(value: Any) -> int:
    """What a value comes to in an edit, as a field or an element."""
    if isinstance(value, dict):
        return 1 + sum(map(_parts_of, value.values()))
    if isinstance(value, list | tuple):
        inner = [_parts_of(child) for child in value if isinstance(child, dict | list | tuple)]
        return 1 + sum(inner) + -(-(len(value) - len(inner)) // RUN_ELEMENTS)
    return 1


def _shown(parts: Sequence[str | int]) -> str:
    return repr("/".join(map(str, parts)))


def _closed(parts: Sequence[str | int]) -> InvalidRequest:
    return InvalidRequest(f"{_shown(parts)} is no map and no list: set it as a whole")
