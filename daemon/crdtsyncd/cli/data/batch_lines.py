"""The lines of a batch file: which operations there are, what each takes, and how one is handed to the client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click
from crdtsyncd.cli.params import TTL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from crdtsyncd.cli.data.json_values import Value
    from crdtsyncd.cli.data.ndjson import Line

REQUIRED = True
OPTIONAL = False


@dataclass(frozen=True, slots=True)
class Operation:
    """One line, checked: the method of a batch to call and what with; ``place`` is where it stands."""

    method: str
    arguments: dict[str, Value]
    place: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Field:
    """What one field of a line may hold."""

    required: bool
    wanted: str
    fits: Callable[[Value], bool]


def _is_str(value: Value) -> bool:
    return isinstance(value, str)


def _is_count(value: Value) -> bool:
    return type(value) is int and value >= 0


def _is_step(value: Value) -> bool:
    return type(value) is int and abs(value) <= 1 << 53


def _is_object(value: Value) -> bool:
    return isinstance(value, dict)


def _is_part(value: Value) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1


def _is_ttl(value: Value) -> bool:
    return isinstance(value, str) or (type(value) in (int, float) and value > 0)


_KEY = Field(REQUIRED, "a string", _is_str)
_VALUE = Field(REQUIRED, "any value", lambda _: True)
_VERSION = Field(OPTIONAL, "a version", _is_str)
_IF_VERSION = {"if_version": _VERSION}
_CONDITIONS = {**_IF_VERSION, "if_absent": Field(OPTIONAL, "true or false", lambda value: isinstance(value, bool))}
_CONFIDENCE = Field(OPTIONAL, "a number from 0 to 1", _is_part)
_META = Field(OPTIONAL, "an object", _is_object)
_FIELD = Field(REQUIRED, "the name of a field", _is_str)

# Operation → the client's method and its fields, by the names that both have.
OPERATIONS: Mapping[str, tuple[str, Mapping[str, Field]]] = {
    "set": (
        "set",
        {
            "key": _KEY,
            "value": _VALUE,
            "ttl": Field(OPTIONAL, "a duration such as 30s, or seconds", _is_ttl),
            "confidence": _CONFIDENCE,
            "meta": _META,
            **_CONDITIONS,
            "seen": _VERSION,
        },
    ),
    "append": ("append", {"key": _KEY, "value": _VALUE, **_CONDITIONS}),
    "incr": ("incr", {"key": _KEY, "n": Field(OPTIONAL, "a whole number from -2^53 to 2^53", _is_step), **_CONDITIONS}),
    "reset": ("reset", {"key": _KEY, **_IF_VERSION}),
    "add": ("add", {"key": _KEY, "value": _VALUE, **_CONDITIONS}),
    "discard": ("discard", {"key": _KEY, "value": _VALUE, **_IF_VERSION, "seen": _VERSION}),
    "merge": (
        "merge",
        {
            "key": _KEY,
            "fields": Field(REQUIRED, "an object", _is_object),
            **_CONDITIONS,
            "seen": _VERSION,
            "confidence": _CONFIDENCE,
            "meta": _META,
        },
    ),
    "drop": ("drop", {"key": _KEY, "field": _FIELD, **_IF_VERSION, "seen": _VERSION}),
    "resolve": (
        "resolve",
        {
            "key": _KEY,
            "take": Field(OPTIONAL, "the dot of a value", _is_str),
            "value": Field(OPTIONAL, "any value", lambda _: True),
            "merge": Field(OPTIONAL, "true", lambda value: value is True),
            **_IF_VERSION,
            "seen": _VERSION,
        },
    ),
    "del": ("delete", {"key": _KEY, **_IF_VERSION, "seen": _VERSION}),
    "trim": (
        "trim",
        {"key": _KEY, "keep": Field(REQUIRED, "a number of elements from 0 on", _is_count), **_IF_VERSION},
    ),
}


def operation_of(line: Line) -> Operation:
    """The operation that a line describes; otherwise an error that names the line and says what is wrong with it."""
    name = line.fields.get("op")
    if not isinstance(name, str) or name not in OPERATIONS:
        known = ", ".join(OPERATIONS)
        raise line.wrong(f'"op" must be one of {known}')
    method, fields = OPERATIONS[name]
    arguments = {field: value for field, value in line.fields.items() if field != "op"}
    unknown = next((field for field in arguments if field not in fields), None)
    if unknown is not None:
        raise line.wrong(f'"{unknown}" is not a field of {name}, which takes {", ".join(fields)}')
    for name, rule in fields.items():
        _check(line, name, rule)
    if "ttl" in arguments:
        arguments["ttl"] = _seconds(line, arguments["ttl"])
    return Operation(method, arguments, f"{line.file}:{line.number}")


def _check(line: Line, field: str, rule: Field) -> None:
    if field not in line.fields:
        if rule.required:
            raise line.wrong(f'"{field}" is missing')
    elif not rule.fits(line.fields[field]):
        raise line.wrong(f'"{field}" must be {rule.wanted}')


def _seconds(line: Line, ttl: Value) -> float:
    try:
        return TTL.convert(ttl, None, None)
    except click.BadParameter as error:
        raise line.wrong(f'"ttl": {error.message}') from None
