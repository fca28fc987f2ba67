"""The page on the peer protocol: the prose of :mod:`crdtsync.wire.peer.messages`, then every message by subject."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin, get_type_hints

from crdtsync.wire.peer import messages
from crdtsync.wire.peer.base import Message
from crdtsync.wire.peer.fields import Flat, Form, Number, Octets, Several
from crdtsync.wire.peer.messages import MESSAGES
from tools.reference import page
from tools.reference.markdown import docstring, inline, parameters, prose, summary, table


@page("docs/reference/peer-protocol.md")
def peer_protocol() -> str:
    """The page."""
    parts = ["# The peer protocol", prose(docstring(messages).replace("The peer protocol: what", "What", 1))]
    parts += ["## All messages", _overview(), "## All features", _features()]
    for module in messages.SUBJECTS:
        parts.append(_subject(module))
        parts += [_message(cls) for cls in MESSAGES.values() if cls.__module__ == module.__name__]
    parts += ["## Forms of fields", _forms()]
    return "\n\n".join(parts)


def _name(cls: type[Message]) -> str:
    return cls.__name__.upper()


def _link(cls: type[Message]) -> str:
    return f"[{_name(cls)}](#{_name(cls).lower()})"


def _overview() -> str:
    rows = [(str(number), _link(cls), _code(cls.FEATURE), summary(cls)) for number, cls in MESSAGES.items()]
    return table(("type", "message", "feature", "what the sender does"), rows)


def _features() -> str:
    rows = []
    for feature in messages.FEATURES:
        found = [_link(cls) for cls in MESSAGES.values() if feature == cls.FEATURE]
        rows.append((_code(feature), ", ".join(found) or "compressed data in [PART](#part)"))
    return table(("feature", "goes only to a node that names it"), rows)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _subject(module: ModuleType) -> str:
    title, _, rest = docstring(module).partition(": ")
    return f"## {title}\n\n{prose(rest[0].upper() + rest[1:])}"


# -- one message -------------------------------------------------------------------------------------------------------


def _message(cls: type[Message]) -> str:
    audience = f"Only to a node whose HELLO names `{cls.FEATURE}`." if cls.FEATURE else "To every node."
    parts = [f"### {_name(cls)}", f"Type {cls.TYPE}.\n{audience}", prose(docstring(cls)), _fields(cls)]
    for record in dict.fromkeys(_records(cls)):
        parts += [f"`{record.__name__}`: {summary(record)}", _fields(record)]
    return "\n\n".join(parts)


def _fields(cls: type) -> str:
    said = parameters(cls)
    rows = [(f"`{name}`", _shape(hint), said[name]) for name, hint in _hints(cls).items()]
    return table(("field", "holds", "meaning"), rows)


def _hints(cls: type) -> dict[str, Any]:
    """The fields of a message, or of a record in one, with what they may hold."""
    hints = get_type_hints(cls, include_extras=True)
    return {name: hint for name, hint in hints.items() if get_origin(hint) is not ClassVar}


def _shape(hint: Any) -> str:
    """What a field may hold, in words."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        form = hint.__metadata__[0]
        return f"{_shape(inner[0])}; {_sizes(form)}" if isinstance(form, Several) else str(form.name)
    if origin in (Union, types.UnionType):
        return " or ".join(_shape(one) for one in inner)
    if origin is tuple and inner[-1] is not Ellipsis:
        return ", ".join(_shape(one) for one in inner)
    if origin in (list, tuple, frozenset):
        return f"list of {_shape(inner[0])}"
    if origin is Mapping or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return f"map of {_shape(inner[0])} to {_shape(inner[1])}"
    return "`true` or `false`" if hint is bool else f"`{hint.__name__}`"


def _sizes(several: Several) -> str:
    return f"{several.least:,} to {several.most:,}" if several.least else f"up to {several.most:,}"


def _leaves(hint: Any) -> Iterator[Any]:
    """The forms and the records that a field is made of."""
    if get_origin(hint) is Annotated and not isinstance(hint.__metadata__[0], Several):
        yield hint.__metadata__[0]
    elif get_args(hint):
        for one in get_args(hint):
            yield from _leaves(one)
    elif isinstance(hint, type) and hint is not bool:
        yield hint


def _records(cls: type) -> list[type]:
    return [leaf for hint in _hints(cls).values() for leaf in _leaves(hint) if isinstance(leaf, type)]


# -- forms -------------------------------------------------------------------------------------------------------------


def _forms() -> str:
    holders: list[type] = [*MESSAGES.values(), *(record for cls in MESSAGES.values() for record in _records(cls))]
    leaves = {leaf for cls in holders for hint in _hints(cls).values() for leaf in _leaves(hint)}
    forms: list[Form] = [leaf for leaf in leaves if not isinstance(leaf, type)]
    return table(("form", "msgpack", "bounds"), sorted((form.name, *_bounds(form)) for form in forms))


def _bounds(form: Form) -> tuple[str, str]:
    """The type of a form in msgpack, and what it may be."""
    if isinstance(form, Number):
        return "integer", f"0 to {form.highest:,}"
    if isinstance(form, Octets):
        most = f"{form.most:,} bytes"
        return "bin", most if form.least == form.most else f"up to {most}"
    if isinstance(form, Flat):
        return "array", inline(form.record)
    return "str", inline(form.rule)
