"""How the map of a document is made to say what that of another says: a restore brings a document back by an edit.

What says the same stays, so that what others add there meanwhile is kept. The rest is made anew, in an order that two
hosts have alike.
"""

from __future__ import annotations

from typing import Any

from pycrdt import Array, Doc, Map, Text, XmlElement, XmlFragment, XmlText

from crdtsync.differences import common_prefix
from crdtsync.errors import InvalidRequest, TooLarge

WORK_MAX = 2000
"""Values that it looks at in one turn, each some 15 µs; one that it makes anew counts three times."""


class _Work:
    def __init__(self) -> None:
        self._left = WORK_MAX

    def take(self, count: int = 1) -> None:
        self._left -= count
        if self._left < 0:
            raise TooLarge("it takes too long to compare the document: take what you need from it (crdtsync doc --at)")


def make_like(doc: Doc[Any], then: Doc[Any], root: str) -> None:
    """Edit the map of that name in ``doc``.

    :raises InvalidRequest: it holds what cannot be made anew; the edit is then not to be used.
    """
    with then.transaction():  # without one, each look would be one of its own
        _edit_map(doc.get(root, type=Map), then.get(root, type=Map), _Work())


def _edit_map(now: Map[Any], then: Map[Any], work: _Work) -> None:
    wanted, held = {*then.keys()}, {*now.keys()}
    for name in sorted(held - wanted):
        del now[name]
    for name in sorted(wanted):
        value = then[name]
        if name not in held or not _is_made(now[name], value, work):
            now[name] = _copy(value, work)


def _edit_list(now: Array[Any], then: Array[Any], work: _Work) -> None:
    old, new = [_said(value, work) for value in now], [_said(value, work) for value in then]
    first = common_prefix(old, new)
    last = common_prefix(old[first:][::-1], new[first:][::-1])
    end, wanted = len(old) - last, [*then][first : len(new) - last]
    if end - first == len(wanted) and all(_is_made(now[first + at], value, work) for at, value in enumerate(wanted)):
        return
    if end > first:
        del now[first:end]
    for at, value in enumerate(wanted):
        now.insert(first + at, _copy(value, work))


def _is_made(now: Any, then: Any, work: _Work) -> bool:
    """Whether what is there says the same, if need be by now."""
    if isinstance(now, Map) and isinstance(then, Map):
        _edit_map(now, then, work)
    elif isinstance(now, Array) and isinstance(then, Array):
        _edit_list(now, then, work)
    else:
        return bool(_said(now, work) == _said(then, work))
    return True


def _said(node: Any, work: _Work) -> Any:
    """What a value says, to be compared."""
    work.take()
    if isinstance(node, Map | dict):
        return type(node), {name: _said(node[name], work) for name in node.keys()}  # noqa: SIM118  # pycrdt's Map
    if isinstance(node, Array | list):
        return type(node), [_said(child, work) for child in node]
    if isinstance(node, XmlElement):
        return type(node), node.tag, _attributes(node), [_said(child, work) for child in node.children]
    if isinstance(node, XmlFragment):
        return type(node), [_said(child, work) for child in node.children]
    return type(node), node.diff() if isinstance(node, Text | XmlText) else repr(node)


def _copy(node: Any, work: _Work) -> Any:
    work.take(3)
    if isinstance(node, Map):
        return Map({name: _copy(node[name], work) for name in sorted(node.keys())})
    if isinstance(node, Array):
        return Array([_copy(child, work) for child in node])
    if isinstance(node, Text | XmlText):
        if any(type(text) is not str or formats for text, formats in node.diff()):
            raise InvalidRequest("it has a text with formats, which only its editor can bring back")
        return type(node)(str(node))
    if isinstance(node, XmlElement):
        attributes = _attributes(node)
        _check_alike([*attributes.values()])
        return XmlElement(node.tag, attributes, [_copy(child, work) for child in node.children])
    if isinstance(node, XmlFragment):
        return XmlFragment([_copy(child, work) for child in node.children])
    if isinstance(node, Doc):
        raise InvalidRequest("it has a document within it, which only its editor can bring back")
    _check_alike(node)
    return _plain(node)


def _plain(value: Any) -> Any:
    """As the Yjs library takes it: what it makes of bytes it refuses."""
    if isinstance(value, dict):
        return {name: _plain(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_plain(child) for child in value]
    return bytes(value) if isinstance(value, bytearray) else value


def _check_alike(value: Any) -> None:
    """Refuse a plain value that the Yjs library writes in another order each time: two hosts would make it twice."""
    if isinstance(value, dict) and len(value) > 1:
        raise InvalidRequest("it has a plain object of several names, which only its editor can bring back")
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_alike(child)


def _attributes(node: XmlElement) -> dict[str, Any]:
    return dict(sorted(node.attributes.__iter__()))  # which is no iterator to the type checker
