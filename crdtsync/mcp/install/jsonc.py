"""JSON with comments, as editors have it: members are put in and taken out, and no other byte changes.

A parser that gave values would lose comments, order and spaces. This one gives *places*: for an object, where each
member's name and value begin and end. Where comments were, it reads spaces; then the standard library's decoder says
where a value ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from crdtsync.errors import InvalidEncoding

_SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENT = re.compile(_STRING + r"|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)
_DECODER = json.JSONDecoder()


@dataclass(slots=True)
class MemberPlace:
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
    members: list[MemberPlace] = field(default_factory=list)

    def member(self, name: str) -> MemberPlace | None:
        """The last member of that name, which is the one that counts."""
        return next((one for one in reversed(self.members) if one.name == name), None)


def at(text: str, path: Sequence[str]) -> Place | None:
    """The value at ``path``, names of members from the outside in; None if there is none.

    :raises InvalidEncoding: the whole text is not one object.
    """
    plain = _plain(text)
    place = _place(plain, _skip(plain, 0))
    if not place.is_object or _skip(plain, place.end) != len(plain):
        raise InvalidEncoding("it does not hold one JSON object")
    for name in path:
        member = place.member(name)
        if member is None:
            return None
        place = _place(plain, member.value)
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


def _plain(text: str) -> str:
    """``text`` with spaces for its comments, and for commas behind which an object or a list ends."""
    for aside in (_COMMENT, _LAST_COMMA):
        text = aside.sub(lambda found: found[0] if found[0][0] == '"' else re.sub(r"\S", " ", found[0]), text)
    return text


def _place(plain: str, start: int) -> Place:
    place = Place(start, _decoded(plain, start)[1], plain[start] == "{", plain[start] == "[")
    at = _skip(plain, start + 1)
    while (place.is_object or place.is_list) and at < place.end - 1:
        name, value = str(len(place.members)), at
        if place.is_object:
            name, end = _decoded(plain, at)
            value = _skip(plain, plain.index(":", end) + 1)
        _, end = _decoded(plain, value)
        place.members.append(MemberPlace(name, at, value, end))
        at = _skip(plain, end)
        at = _skip(plain, at + 1) if plain[at] == "," else at
    return place


def _decoded(plain: str, start: int) -> tuple[Any, int]:
    """What begins there, and where it ends."""
    try:
        return _DECODER.raw_decode(plain, start)
    except (ValueError, RecursionError) as error:
        raise InvalidEncoding(f"it is no JSON: {error}") from error
