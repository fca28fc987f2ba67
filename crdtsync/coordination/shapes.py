"""From a class to keys: what kind each field is, which values fit, and how they are made again of what is stored.

Example: in ``class Plan``, ``goal: str`` is a register, ``findings: Annotated[list[Finding], operator.add]`` a log,
``tags: set[str]`` a set, ``spent: Annotated[int, operator.add]`` a counter, ``owners: dict[str, str]`` a map and
``notes: Text`` a text. The JSON Schema of ``findings`` is that of one ``Finding``.

Pydantic is imported only where it is used already: by a class that is a Pydantic model, or has one in a field.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import partial
from importlib import import_module
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from crdtsync.errors import InvalidRequest
from crdtsync.named_tuple import NamedTuple

_TEXT = "crdtsync text"
Text: TypeAlias = Annotated[str, _TEXT]
"""A field of this type is a text, which several edit character by character. To a type checker it is ``str``."""

DEPTH_MAX = 16
"""Types within each other."""
_EMPTY: dict[str, Callable[[], object]] = {"log": list, "set": set, "counter": int, "map": dict, "text": str}
_SCALARS = {bool: "boolean", int: "integer", float: "number", str: "string", NoneType: "null"}


class FieldShape(NamedTuple):
    """One field: its kind, the JSON Schema of a value or element (None: anything that the kind takes), how one is made
    of what is stored, and the other way, and what it is where nothing is stored (None: that has to be there).
    """

    kind: str
    json_schema: dict[str, Any] | None
    load: Callable[[Any], Any]
    dump: Callable[[Any], Any]
    default: Callable[[], object] | None


class Absent(Enum):
    """The type of a field of a TypedDict that may be missing."""

    ABSENT = "absent"


class Picked(NamedTuple):
    """The field that a function has picked."""

    name: str


class Picker:
    """Stands in for an instance: ``plan.goal`` and ``plan["goal"]`` are the field ``goal``."""

    def __getattr__(self, name: str) -> Picked:
        return Picked(name)

    __getitem__ = __getattr__


def fields_of(shape: type[Any]) -> dict[str, FieldShape]:
    """The fields of a dataclass, TypedDict or Pydantic model, by name.

    :raises InvalidRequest: it is none, or a field has a type that cannot be kept; the message names it.
    """
    defaults = _defaults(shape)
    is_pydantic = _is_pydantic(shape)
    if is_pydantic:  # its constraints stand beside the type, however they were written
        infos = shape.model_fields.items()
        hints = {name: _annotated(info.annotation, info.metadata) for name, info in infos}
    else:
        hints = get_type_hints(shape, include_extras=True)
    return {
        name: _field(f"{shape.__name__}.{name}", hints[name], default, is_pydantic)
        for name, default in defaults.items()
    }


def _defaults(shape: type[Any]) -> dict[str, Callable[[], object] | None]:
    """The names of its fields, and what makes the default of each."""
    if is_dataclass(shape):
        found: dict[str, Callable[[], object] | None] = {}
        for field in fields(shape):
            factory = None if field.default_factory is MISSING else field.default_factory
            found[field.name] = factory if field.default is MISSING else partial(_same, field.default)
        return found
    if is_typeddict(shape):
        return {name: _default_of(shape, name, hint) for name, hint in _members(shape).items()}
    if _is_pydantic(shape):
        return {
            name: None if info.is_required() else partial(info.get_default, call_default_factory=True)
            for name, info in shape.model_fields.items()
        }
    raise InvalidRequest(f"a model is a dataclass, TypedDict or Pydantic model, not {shape!r}")


def _default_of(typed: Any, name: str, hint: Any) -> Callable[[], object] | None:
    if get_origin(hint) in (Required, NotRequired):  # the class itself does not know, where annotations are strings
        return None if get_origin(hint) is Required else _absent
    return None if name in typed.__required_keys__ else _absent


def _absent() -> Absent:
    return Absent.ABSENT


def _same(value: object) -> object:
    return value


def _field(name: str, hint: Any, default: Callable[[], object] | None, is_pydantic: bool) -> FieldShape:
    hint, notes = _bare(hint)
    kind, element = _kind(name, hint, notes) or ("register", _annotated(hint, notes) if is_pydantic else hint)
    if default in (None, _absent):
        default = _EMPTY.get(kind, default)
    if kind in ("counter", "text"):
        return FieldShape(kind, None, _same, _same, default)
    try:
        schema, load, dump = _form(element, is_pydantic)
    except InvalidRequest as error:
        raise InvalidRequest(f"{name}: {error.message}") from None
    whole = {"additionalProperties": schema} if kind == "map" else schema
    if kind == "map" and "$defs" in schema:  # references lead from the top
        whole = {"additionalProperties": {k: v for k, v in schema.items() if k != "$defs"}, "$defs": schema["$defs"]}
    return FieldShape(kind, whole or None, load, dump, default)


def _kind(name: str, hint: Any, notes: Sequence[object]) -> tuple[str, Any] | None:
    """Its kind and the type of its elements; None: it is a register."""
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if operator.add in notes:
        if origin is list:
            return "log", arguments[0] if arguments else Any
        if origin is int:
            return "counter", hint
        raise InvalidRequest(f"{name}: operator.add is for a list (a log) or an int (a counter), not {hint!r}")
    if _TEXT in notes:
        return "text", hint
    if origin in (set, frozenset):
        element = arguments[0] if arguments else Any
        if not _is_hashable(element):
            raise InvalidRequest(f"{name}: a set holds what can be hashed: make {element!r} frozen, or the field a log")
        return "set", element
    if origin is dict:
        if arguments and arguments[0] is not str:
            raise InvalidRequest(f"{name}: the names of a map are strings, not {arguments[0]!r}")
        return "map", arguments[1] if arguments else Any
    return None


def _annotated(hint: Any, notes: Sequence[object]) -> Any:
    return Annotated[(hint, *notes)] if notes else hint


def _bare(hint: Any) -> tuple[Any, tuple[object, ...]]:
    """The type without what stands around it, and the notes of ``Annotated``."""
    notes: tuple[object, ...] = ()
    while get_origin(hint) in (Annotated, Required, NotRequired):
        hint, *more = get_args(hint)
        notes += tuple(more)
    return hint, notes


# -- values -----------------------------------------------------------------------------------------------------


def _form(hint: Any, is_pydantic: bool) -> tuple[dict[str, Any], Callable[[Any], Any], Callable[[Any], Any]]:
    """The JSON Schema of a type, and the ways from and to what is stored."""
    if is_pydantic or _has_pydantic(hint):
        adapter = import_module("pydantic").TypeAdapter(hint)

        def dump(value: Any) -> Any:
            return adapter.dump_python(adapter.validate_python(value), mode="json")

        return adapter.json_schema(), adapter.validate_python, dump
    return _schema(hint), partial(_loaded, hint), _dumped


def _is_pydantic(hint: Any) -> bool:
    return isinstance(hint, type) and hasattr(hint, "__pydantic_validator__")


def _has_pydantic(hint: Any, depth: int = 0) -> bool:
    if depth > DEPTH_MAX:
        return False
    hint, _ = _bare(hint)
    inner = _members(hint).values() if _is_record(hint) else get_args(hint)
    return _is_pydantic(hint) or any(_has_pydantic(one, depth + 1) for one in inner)


def _is_hashable(hint: Any) -> bool:
    hint, _ = _bare(hint)
    return not is_typeddict(hint) and getattr(get_origin(hint) or hint, "__hash__", None) is not None


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and (is_dataclass(hint) or is_typeddict(hint))


def _members(record: Any) -> dict[str, Any]:
    return get_type_hints(record, include_extras=True)


def _schema(hint: Any, depth: int = 0) -> dict[str, Any]:
    hint, _ = _bare(hint)
    if depth > DEPTH_MAX:
        raise InvalidRequest(f"types go over {DEPTH_MAX} levels deep: of one that holds itself make a Pydantic model")
    inner = partial(_schema, depth=depth + 1)
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if hint in (Any, object, bytes):
        return {}
    if hint in _SCALARS or hint is None:
        return {"type": _SCALARS[NoneType if hint is None else hint]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, UnionType):
        return {"anyOf": [inner(one) for one in arguments]}
    if origin in (list, set, frozenset):
        return {"type": "array", **({"items": inner(arguments[0])} if arguments else {})}
    if origin is dict and (not arguments or arguments[0] is str):
        return {"type": "object", **({"additionalProperties": inner(arguments[1])} if arguments else {})}
    if _is_record(hint):
        required = [name for name, default in _defaults(hint).items() if default is None]
        return {
            "type": "object",
            "properties": {name: inner(member) for name, member in _members(hint).items()},
            **({"required": required} if required else {}),
        }
    raise InvalidRequest(f"{hint!r} is no type that JSON has: a Pydantic model can turn it into one")


def _loaded(hint: Any, stored: Any) -> Any:
    hint, _ = _bare(hint)
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        kinds = [one for one in arguments if one is not NoneType]
        return stored if stored is None or len(kinds) > 1 else _loaded(kinds[0], stored)
    if origin in (list, set, frozenset) and isinstance(stored, list):
        return origin(_loaded(arguments[0], one) if arguments else one for one in stored)
    if origin is dict and isinstance(stored, dict) and arguments:
        return {name: _loaded(arguments[1], one) for name, one in stored.items()}
    if _is_record(hint) and isinstance(stored, dict):
        members = _members(hint)
        return hint(**{name: _loaded(members[name], one) for name, one in stored.items() if name in members})
    return stored


def _dumped(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _dumped(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, (set, frozenset)):
        return sorted(map(_dumped, value), key=repr)
    if isinstance(value, (list, tuple)):
        return [_dumped(one) for one in value]
    if isinstance(value, dict):
        return {name: _dumped(one) for name, one in value.items()}
    return value
