"""JSON with comments, as editors have it: members are put in and taken out, and no other byte changes.

A parser that gave values would lose comments, order and spaces. This one gives *places*: for an object, where each
member's name and value begin and end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from crdtsync.errors import InvalidEncoding

_SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_PLAIN = re.compile(r"[^\s,\]}/]+")
_DEPTH_MAX = 200


@dataclass(slots=True)
class Member:
    """One member of an object: its name, where it begins, and where its value begins and ends. Of a list, an element,
    whose name is its number.
    """

    name: str
    start: int
    value: int
    end: int


@dataclass(slots=True)
class Place:
    """A value from ``start`` to ``end``; of an object or a list, its members."""

    start: int
    end: int
    is_object: bool = False
    is_list: bool = False
    members: list[Member] = field(default_factory=list)

    def member(self, name: str) -> Member | None:
        """The last member of that name, which is the one that counts."""
        return next((one for one in reversed(self.members) if one.name == name), None)


def root(text: str) -> Place:
    """The object that the whole text is; :class:`~crdtsync.errors.InvalidEncoding` if it is none."""
    start = _skip(text, 0)
    place = _value(text, start, 0)
    if not place.is_object or _skip(text, place.end) != len(text):
        raise InvalidEncoding("it does not hold one JSON object")
    return place


def at(text: str, path: Sequence[str]) -> Place | None:
    """The value at ``path``, names of members from the outside in; None if there is none."""
    place = root(text)
    for name in path:
        member = place.member(name)
        if member is None:
            return None
        place = _value(text, member.value, 0)
    return place


def put_at(text: str, path: Sequence[str], value: object) -> str:
    """``text`` with ``value`` at ``path``; objects that are missing on the way are made."""
    for depth in range(1, len(path)):
        if at(text, path[:depth]) is None:
            for name in reversed(path[depth:]):
                value = {name: value}
            return put_at(text, path[:depth], value)
    place = at(text, path[:-1])
    if place is None or not place.is_object:
        raise InvalidEncoding(f"{path[-2]!r} is no object")
    return put(text, place, path[-1], value)


def take_at(text: str, path: Sequence[str]) -> str:
    """``text`` without the value at ``path``, and without what would be empty then around it, unless that was there
    before: there, and only there, :func:`put` leaves no space before a member. "" if that is the whole text.
    """
    place = at(text, path[:-1])
    if place is None:
        return text
    is_alone = len(place.members) == 1 and place.members[0].start > place.start + 1
    if is_alone and len(path) > 1:
        return take_at(text, path[:-1])
    left = take(text, place, path[-1])
    return "" if is_alone and left.strip() == "{}" else left


def put(text: str, place: Place, name: str, value: object) -> str:
    """``text`` with the member ``name`` in the object or list at ``place``: last, or where it was."""
    old = place.member(name)
    step, outer = _step(text), _indent(text, place.start)
    shown = json.dumps(value, indent=step).replace("\n", "\n" + outer + step)
    if old is not None:
        is_same = _parsed(text[old.value : old.end]) == value
        return text if is_same else text[: old.value] + shown + text[old.end :]
    line = f"\n{outer}{step}{shown if place.is_list else f'{json.dumps(name)}: {shown}'}"
    if place.members:
        end = place.members[-1].end
        comma = _skip(text, end)
        if text[comma] == ",":  # one stands there already, before the end: editors allow that
            return text[: comma + 1] + line + "," + text[comma + 1 :]
        behind = _comment_end(text, end)
        return text[:end] + "," + text[end:behind] + line + text[behind:]
    return text[: place.start + 1] + line.lstrip() + text[place.start + 1 :]  # not in a line of its own: see take_at


def take(text: str, place: Place, name: str) -> str:
    """``text`` without the member ``name`` of the object at ``place``, and without the comma and line it had."""
    at = next((i for i, one in enumerate(place.members) if one.name == name), None)
    if at is None:
        return text
    member = place.members[at]
    if len(place.members) == 1:
        between = text[place.start + 1 : member.start] + text[member.end : place.end - 1]
        rest = between if between.strip() or member.start == place.start + 1 else ""
        return text[: place.start + 1] + rest + text[place.end - 1 :]
    if at:
        before = place.members[at - 1].end
        start = text.index(",", before)
        return text[:start] + text[start + 1 : _line(text, member.start)] + text[member.end :]
    after = text.index(",", member.end) + 1
    return text[: _line(text, member.start)] + text[after:]


def _parsed(text: str) -> object:
    """What ``text`` says; it itself if that has comments, which ours has not."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _comment_end(text: str, end: int) -> int:
    """``end``, or the end of a comment that stands behind it in its line."""
    found = re.compile(r"[ \t]*(//[^\n]*|/\*[^\n]*\*/)[ \t]*(?=\n)").match(text, end)
    return found.end() if found else end


def _line(text: str, start: int) -> int:
    """``start``, or the line break before it if only spaces stand between."""
    before = text.rfind("\n", 0, start)
    return before if before >= 0 and not text[before:start].strip() else start


def _step(text: str) -> str:
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _indent(text: str, place: int) -> str:
    """What the line of ``place`` is indented by."""
    start = text.rfind("\n", 0, place) + 1
    found = re.match(r"[ \t]*", text[start:place])
    return found[0] if found else ""


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, start: int, depth: int) -> Place:
    if depth > _DEPTH_MAX or start >= len(text):
        raise InvalidEncoding("it ends in the middle, or is nested too deep")
    if text[start] == "{":
        return _object(text, start, depth)
    if text[start] == "[":
        return _list(text, start, depth)
    found = (_STRING if text[start] == '"' else _PLAIN).match(text, start)
    if found is None:
        raise InvalidEncoding(f"character {start} is no JSON")
    return Place(start, found.end())


def _list(text: str, start: int, depth: int) -> Place:
    place, at = Place(start, start, is_list=True), _skip(text, start + 1)
    while at < len(text) and text[at] != "]":
        value = _value(text, at, depth + 1)
        place.members.append(Member(str(len(place.members)), at, value.start, value.end))
        at = _skip(text, value.end)
        if at < len(text) and text[at] == ",":
            at = _skip(text, at + 1)
    if at >= len(text):
        raise InvalidEncoding("a list does not end")
    place.end = at + 1
    return place


def _object(text: str, start: int, depth: int) -> Place:
    place, at = Place(start, start, is_object=True), _skip(text, start + 1)
    while at < len(text) and text[at] != "}":
        name = _STRING.match(text, at)
        colon = _skip(text, name.end()) if name else len(text)
        if name is None or colon >= len(text) or text[colon] != ":":
            raise InvalidEncoding(f"character {at} is no name of a member")
        value = _value(text, _skip(text, colon + 1), depth + 1)
        place.members.append(Member(json.loads(name[0]), at, value.start, value.end))
        at = _skip(text, value.end)
        if at < len(text) and text[at] == ",":
            at = _skip(text, at + 1)
    if at >= len(text):
        raise InvalidEncoding("an object does not end")
    place.end = at + 1
    return place
