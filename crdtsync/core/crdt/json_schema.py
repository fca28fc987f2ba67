"""JSON Schemas of values: whether a value fits, found out in bounded time.

The problem. A schema of 500 bytes can ask for more work than there is time: ``anyOf`` of two ``$ref`` to one place,
twenty deep, looks a million times at one number. A regular expression can do the same to one string. The daemon checks
in the turn of its loop in which it writes, where everybody waits. So the work is counted before it is done:

- *Steps* are what a schema does at one place of a value at most: a keyword is a step, and those that look at more cost
  more. :func:`steps_of` counts them, level by level, over all ways by which references lead there. A schema with over
  ``STEPS_MAX`` is refused.
- A value of n bytes has n places at most, so checking it takes n times as many steps. Over ``WORK_MAX`` for all values
  of a change, it is refused.
- Regular expressions are matched in linear time (no lookaround, no back references) and are of bounded size.
- Nothing is fetched: a ``$ref`` leads to a place within the schema itself.

A step is about 20 ns, measured with schemas made to be slow; of ordinary ones it is 2.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from crdtsync.errors import InvalidEncoding, InvalidRequest
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.limits import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jsonschema_rs import Draft202012Validator

DIALECT = "https://json-schema.org/draft/2020-12/schema"
JSON_SCHEMA_BYTES_MAX = 16 * 1024
"""A JSON Schema, as msgpack"""
SUBSCHEMAS_MAX = 500
"""Schemas in a JSON Schema"""
STEPS_MAX = 1000
"""Steps of a JSON Schema at one place of a value"""
WORK_MAX = 1_000_000
"""Steps of checking all values of a change, times their bytes: some 20 ms"""
REGEX_BYTES_MAX = 100_000
"""A compiled regular expression."""
COMPILED_MAX = 128
"""JSON Schemas that are kept ready for use"""
STEPS_A_BYTE = 20
"""Steps for each byte of a schema that has to be made ready first."""

_ALL_OF = ("allOf", "anyOf", "oneOf")  # at the same place, each of a list
_ONE_OF = ("not", "if", "then", "else")  # at the same place
_BRANCHES = ("anyOf", "oneOf")
_REFUSED = {
    **dict.fromkeys(("$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$vocabulary"), "use $ref and $defs"),
    "$id": "leave it out",
    **dict.fromkeys(("dependencies",), "use dependentRequired or dependentSchemas"),
    **dict.fromkeys(("additionalItems",), "use items after prefixItems"),
    **dict.fromkeys(("unevaluatedItems",), "use items"),
    **dict.fromkeys(("unevaluatedProperties",), "use additionalProperties"),
}
_HEAVY = {"pattern": 30, "multipleOf": 5}
_LISTING = ("enum", "const", "required", "dependentRequired")  # the longer, the more they compare

Plain = dict[str, Any]


class Misfit(NamedTuple):
    """Why a value does not fit: the keyword, where in the value, and what the keyword says."""

    rule: str
    path: tuple[str | int, ...]
    why: str


class JsonSchema:
    """One schema, ready to check values. Make it with :func:`compiled`."""

    def __init__(self, plain: object) -> None:
        import jsonschema_rs  # noqa: PLC0415  # with the first of them: many daemons have none, and it takes 10 MB

        checked = _checked(plain)
        self.steps = steps_of(checked)
        options = jsonschema_rs.RegexOptions(size_limit=REGEX_BYTES_MAX)
        try:
            self._validator: Draft202012Validator = jsonschema_rs.Draft202012Validator(
                _blunted(checked), pattern_options=options, offline=True, validate_formats=False, mask="it"
            )
        except (ValueError, OverflowError) as error:
            where = (
                f"{path_text(tuple(error.instance_path))}: " if isinstance(error, jsonschema_rs.ValidationError) else ""
            )
            raise InvalidRequest(f"this is no JSON Schema: {where}{str(error).splitlines()[0][:300]}") from None
        self._error = jsonschema_rs.ValidationError

    def misfit(self, value: object) -> Misfit | None:
        """The first fault of a value; None: it fits."""
        try:
            self._validator.validate(value)
        except self._error as error:
            return _misfit(error.message, list(error.schema_path), tuple(error.instance_path))
        except (ValueError, OverflowError) as error:  # bytes where it says a type
            return Misfit("type", (), f"JSON has no such value ({error})")
        return None


@lru_cache(maxsize=COMPILED_MAX)
def compiled(packed: bytes) -> JsonSchema | InvalidRequest:
    """The schema with this msgpack, or why it is none."""
    try:
        if len(packed) > JSON_SCHEMA_BYTES_MAX:
            raise InvalidRequest(
                f"a JSON Schema of {len(packed):,} bytes; at most {JSON_SCHEMA_BYTES_MAX:,}: leave out descriptions"
            )
        return JsonSchema(unpack(packed))
    except InvalidRequest as error:
        return error
    except InvalidEncoding as error:
        return InvalidRequest(f"this is no JSON Schema: {error.message}")


def path_text(path: tuple[str | int, ...]) -> str:
    """A path as people read it: ``$.steps[3].when``."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{shown(part)[1:-1]}" for part in path)


def _misfit(message: str, keywords: list[str | int], path: tuple[str | int, ...]) -> Misfit:
    """The validator's message about a blunted schema, turned into one about the declared schema."""
    for branches in _BRANCHES:
        if message.startswith(f'{{"not":{{"{branches}":'):
            return Misfit(branches, path, f"fits none of the schemas in {branches}, or too many")
    if message.startswith("False schema"):
        return Misfit("false", path, "is not to be there")
    return Misfit(str(keywords[-1]), path, message.removeprefix("it ").splitlines()[0][:300])


# -- what a schema costs --------------------------------------------------------------------------------------


def steps_of(root: object) -> int:
    """The steps that a schema takes at one place of a value, at most.

    :raises InvalidRequest: more than ``STEPS_MAX``, or without an end: it refers to itself at one place.
    """
    graph = _Graph(root)
    below = [0] * len(graph.order)  # by number: the steps at one place so many levels below
    most, level = 0, 0
    while True:
        here = [0] * len(graph.order)
        for number in graph.order:  # those that it refers to at the same place come first
            node = graph.nodes[number]
            steps = node.always + sum(here[other] for other in node.here) + sum(below[other] for other in node.each)
            steps += max((below[other] for other in node.one), default=0)
            if level == 0:
                steps += node.once
            here[number] = steps
        most = max(most, here[0])
        if max(here) > STEPS_MAX:
            raise InvalidRequest(
                f"this JSON Schema may look over {STEPS_MAX:,} times at one place of a value: "
                "have fewer alternatives, and fewer regular expressions"
            )
        level += 1
        if level > 1 and (here == below or level > _LEVELS_MAX):
            return most
        below = here


_LEVELS_MAX = 64
"""A value has no more (``VALUE_DEPTH_MAX``)."""


class _Node:
    __slots__ = ("always", "each", "here", "once", "one")

    def __init__(self) -> None:
        self.once = 1  # steps at the place itself
        self.always = 0  # steps at the place and at each one below
        self.here: list[int] = []  # that look at the same place
        self.each: list[int] = []  # that look at each place below
        self.one: list[int] = []  # of which one looks at a place below


class _Graph:
    """The subschemas of a schema by number, 0 first, and which looks at what."""

    def __init__(self, root: object) -> None:
        self.root = root
        self.nodes: list[_Node] = []
        self.order: list[int] = []
        self._numbers: dict[int, int] = {}
        self._waiting: list[tuple[int, Plain]] = []
        self._number(root)
        while self._waiting:
            self._look(*self._waiting.pop())
        self._sort()

    def _number(self, schema: object) -> int:
        known = self._numbers.get(id(schema)) if isinstance(schema, dict) else None
        if known is not None:
            return known
        if len(self.nodes) >= SUBSCHEMAS_MAX:
            raise InvalidRequest(f"a JSON Schema of over {SUBSCHEMAS_MAX:,} parts")
        number = len(self.nodes)
        self.nodes.append(_Node())
        if isinstance(schema, dict):
            self._numbers[id(schema)] = number
            self._waiting.append((number, schema))
        return number

    def _look(self, number: int, schema: Plain) -> None:
        node = self.nodes[number]
        for word, told in schema.items():
            if word in _REFUSED:
                raise InvalidRequest(f"a JSON Schema here may not have {word}: {_REFUSED[word]}")
            node.once += _HEAVY.get(word, 1)
            if word == "uniqueItems" and told is not False:
                node.always += 20
            elif word in _LISTING:
                node.once += len(pack(told)) // 8
            elif word == "$ref":
                node.here.append(self._number(self._found(told)))
        node.here += [self._number(part) for part in _parts(schema, lists=_ALL_OF, singles=_ONE_OF)]
        node.here += [self._number(part) for part in _values(schema, "dependentSchemas")]
        node.one += [self._number(part) for part in _values(schema, "properties")]
        node.one += [self._number(part) for part in _parts(schema, ("prefixItems",), ("additionalProperties", "items"))]
        node.each += [self._number(part) for part in _parts(schema, (), ("contains", "propertyNames"))]
        patterns = [*_values(schema, "patternProperties")]
        node.each += [self._number(part) for part in patterns]
        if patterns:  # each name is matched against each
            matched = _Node()
            matched.once = _HEAVY["pattern"] * len(patterns)
            node.each.append(len(self.nodes))
            self.nodes.append(matched)

    def _found(self, reference: object) -> object:
        """The subschema that a reference names."""
        if reference == "#":
            return self.root
        match reference.split("/") if isinstance(reference, str) else None:
            case ["#", ("$defs" | "definitions") as where, name] if isinstance(self.root, dict):
                named = self.root.get(where)
                name = name.replace("~1", "/").replace("~0", "~")
                if isinstance(named, dict) and name in named:
                    found: object = named[name]
                    return found
        raise InvalidRequest(f"$ref must be # or #/$defs/NAME with a name that is there, not {shown(reference)}")

    def _sort(self) -> None:
        """Have each after all that look at the same place for it."""
        begun: set[int] = set()
        done: set[int] = set()
        for start in range(len(self.nodes)):
            stack = [start]
            while stack:
                number = stack[-1]
                if number in done:
                    stack.pop()
                    continue
                left = [other for other in self.nodes[number].here if other not in done]
                if not left:
                    done.add(stack.pop())
                    self.order.append(number)
                    continue
                begun.add(number)
                if begun.intersection(left):
                    raise InvalidRequest("this JSON Schema refers to itself without going into the value")
                stack += left


def _values(schema: Plain, word: str) -> Iterator[object]:
    told = schema.get(word)
    if isinstance(told, dict):
        yield from told.values()


def _parts(schema: Plain, lists: tuple[str, ...], singles: tuple[str, ...]) -> Iterator[object]:
    for word in lists:
        told = schema.get(word)
        if isinstance(told, list):
            yield from told
    for word in singles:
        if word in schema:
            yield schema[word]


# -- what is handed to the validator --------------------------------------------------------------------------

_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = (*_ALL_OF, "prefixItems")
_SINGLES = (*_ONE_OF, "additionalProperties", "items", "contains", "propertyNames")


def _checked(plain: object) -> Plain:
    if type(plain) is not dict:
        raise InvalidRequest(f"a JSON Schema is a map, such as {{'type': 'string'}}, not {shown(plain)}")
    if plain.get("$schema", DIALECT) != DIALECT:
        raise InvalidRequest(f"$schema must be {DIALECT}, or be left out")
    return plain


def _blunted(schema: Any) -> Any:  # Any: a map, true or false, or what the validator refuses
    """The same schema with each ``anyOf`` and ``oneOf`` under two ``not``.

    The validator collects all that is wrong in each branch, for its message: 90 ms, where 10,000 numbers should be
    strings. It collects nothing under ``not``.
    """
    if not isinstance(schema, dict):
        return schema
    made: Plain = {}
    for word, told in schema.items():
        if word in _NAMED and isinstance(told, dict):
            made[word] = {name: _blunted(part) for name, part in told.items()}
        elif word in _LISTS and isinstance(told, list):
            made[word] = [_blunted(part) for part in told]
        else:
            made[word] = _blunted(told) if word in _SINGLES else told
    branches = [{"not": {"not": {word: made.pop(word)}}} for word in _BRANCHES if word in made]
    if branches:
        made["allOf"] = [*made.get("allOf", ()), *branches] if isinstance(made.get("allOf", []), list) else None
    return made
