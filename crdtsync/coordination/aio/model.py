"""Keys by the fields of a class, for asyncio: ``state.model(Plan, "plan/")``."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from crdtsync.client.values.patterns import check_prefix
from crdtsync.coordination.shapes import Absent, FieldShape, Picked, Picker, fields_of
from crdtsync.errors import InvalidRequest, SchemaMismatch

if TYPE_CHECKING:
    from crdtsync.client.aio.client import AsyncSession
    from crdtsync.client.aio.text import AsyncText
    from crdtsync.client.session.request_context import WriteConcern
    from crdtsync.client.values.write_result import Written

T = TypeVar("T")
V = TypeVar("V")
E = TypeVar("E")
D = TypeVar("D")
_KEPT = ("policy", "refuse_lower", "history", "ttl", "sliding", "writers", "older", "max_entries", "max_bytes")
"""Rules of a schema of which a model says nothing."""


class AsyncModel(Generic[T]):
    """The keys under a prefix, one a field of a class; made by ``state.model(Plan, "plan/")``.

    ``model.goal`` is the :class:`AsyncModelField` ``plan/goal``. A type checker takes its values for ``Any``, since no
    class can have the fields of another one with other types; :meth:`of` gives it with the type that ``Plan`` says.
    """

    def __init__(self, state: AsyncSession, shape: type[T], prefix: str, version: int | None) -> None:
        self._state = state if version is None else state.session(schema_version=version)
        self._shape = shape
        self._prefix = check_prefix(prefix)
        self._version = version
        self._fields = fields_of(shape)

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            raise AttributeError(f"to write a field, call a method of it, such as model.{name}.set(…)")
        super().__setattr__(name, value)

    def of(self, pick: Callable[[T], V]) -> AsyncModelField[V]:
        """The same field as ``model.goal``, with its type: ``model.of(lambda plan: plan.goal)``."""
        picked = pick(cast(T, Picker()))
        if not isinstance(picked, Picked):
            raise InvalidRequest(f"of() takes a function that gives a field, as lambda plan: plan.goal, not {picked!r}")
        return cast("AsyncModelField[V]", getattr(self, picked.name))

    def __getattr__(self, name: str) -> AsyncModelField[Any]:
        shape = self.__dict__.get("_fields", {}).get(name)
        if shape is None:
            raise AttributeError(f"{self._shape.__name__} has no field {name!r}")
        return AsyncModelField(self._state, self._prefix + name, shape)

    async def declare(self, *, w: WriteConcern = None) -> None:
        """Declare a schema for each key: its kind, the JSON Schema of its values, and the version of the model.

        From then on hosts refuse what does not fit. What is declared already costs a read, and what else is declared
        for a key (who may write it, how long it lives) stays. It needs the right ``admin`` on these keys.

        :raises InvalidRequest: the keys have a newer version: this program is older than the model.
        """
        for name, field in self._fields.items():
            key = self._prefix + name
            there = await self._state.schema(key, exact=True)
            wanted = (field.kind, field.json_schema, self._version)
            if there is None or (there.kind, there.json_schema, there.version) != wanted:
                rules: dict[str, Any] = {} if there is None else {name: getattr(there, name) for name in _KEPT}
                rules |= {
                    "writers": rules.get("writers") or None,
                    "kind": field.kind,
                    "json_schema": field.json_schema,
                    "version": self._version,
                }
                await self._state.schema_set(key, **rules, w=w)

    async def read(self, *, after: str | None = None) -> T:
        """All fields, as of one moment up to 1 MiB; with ``after`` (a token) it waits until this host holds that.

        A field that nobody has written has its default; without one a log, set, map, counter or text is empty, and a
        field of a TypedDict that may be missing is.

        :raises LookupError: a register has no value, and its field no default.
        :raises InvalidRequest: a key holds what its field cannot be made of; the message names it.
        """
        keys = [self._prefix + name for name in self._fields]
        stored = await self._state.get_many(keys, after=after)
        values = {name: self._loaded(name, stored) for name in self._fields}
        return self._shape(**{name: value for name, value in values.items() if value is not Absent.ABSENT})

    def _loaded(self, name: str, stored: dict[str, Any]) -> Any:
        key, field = self._prefix + name, self._fields[name]
        if key in stored:
            return _loaded(key, field, stored[key])
        if field.default is None:
            message = f"{key!r} has no value yet, and {self._shape.__name__}.{name} no default to be read instead"
            raise LookupError(message)
        return field.default()


class AsyncModelField(Generic[V]):
    """One field of a model, with the methods of its kind. Values go through the field's type both ways.

    What does not fit is refused with :class:`~crdtsync.errors.SchemaMismatch`: by a field of a Pydantic model here, by
    the host for all others, once the schemas are declared.
    """

    def __init__(self, state: AsyncSession, key: str, shape: FieldShape) -> None:
        self.key = key
        self.kind = shape.kind
        self._state = state
        self._shape = shape

    @overload
    async def get(self, *, after: str | None = None) -> V | None: ...

    @overload
    async def get(self, default: D, *, after: str | None = None) -> V | D: ...

    async def get(self, default: Any = None, *, after: str | None = None) -> Any:
        """The value: of a log a list, of a set a set, of a map a dict; ``default`` if there is none."""
        nothing = object()
        stored = await self._state.get(self.key, nothing, after=after)
        return default if stored is nothing else _loaded(self.key, self._shape, stored)

    async def set(self, value: V, *, w: WriteConcern = None) -> Written:
        """Write a register."""
        self._check("set", "register")
        return await self._state.set(self.key, self._dump(value), w=w)

    async def update(self, function: Callable[[V | None], V], *, w: WriteConcern = None) -> Written:
        """Write ``function(value)`` into a register; it gets None where there is none, and may be called again."""
        self._check("update", "register")
        shape = self._shape
        return await self._state.update(
            self.key, lambda old: self._dump(function(None if old is None else _loaded(self.key, shape, old))), w=w
        )

    async def append(self: AsyncModelField[list[E]], value: E, *, w: WriteConcern = None) -> int:
        """Add an element at the end of a log; its length."""
        self._check("append", "log")
        return await self._state.append(self.key, self._dump(value), w=w)

    async def add(self: AsyncModelField[builtins.set[E]], value: E, *, w: WriteConcern = None) -> bool:
        """Add an element to a set; whether it is new."""
        self._check("add", "set")
        return await self._state.add(self.key, self._dump(value), w=w)

    async def discard(self: AsyncModelField[builtins.set[E]], value: E, *, w: WriteConcern = None) -> bool:
        """Take an element out of a set; whether it was in."""
        self._check("discard", "set")
        return await self._state.discard(self.key, self._dump(value), w=w)

    async def incr(self: AsyncModelField[int], by: int = 1, *, w: WriteConcern = None) -> int:
        """Add to a counter, or with a number below 0 take off; what it is now."""
        self._check("incr", "counter")
        return await self._state.incr(self.key, by, w=w)

    async def merge(self: AsyncModelField[dict[str, E]], fields: dict[str, E], *, w: WriteConcern = None) -> Written:
        """Write some fields of a map."""
        self._check("merge", "map")
        return await self._state.merge(self.key, {name: self._dump(one) for name, one in fields.items()}, w=w)

    async def drop(self, field: str, *, w: WriteConcern = None) -> bool:
        """Delete a field of a map; whether it was there."""
        self._check("drop", "map")
        return await self._state.drop(self.key, field, w=w)

    @property
    def text(self) -> AsyncText:
        """The handle on a text: ``model.notes.text.insert(0, "…")``."""
        self._check("text", "text")
        return self._state.text(self.key)

    def _dump(self, value: Any) -> Any:
        try:
            return self._shape.dump(value)
        except (ValueError, TypeError) as error:
            raise SchemaMismatch(f"{self.key!r} does not take this value: {error}") from error

    def _check(self, operation: str, kind: str) -> None:
        if self.kind != kind:
            raise InvalidRequest(f"{self.key!r} is a {self.kind}: {operation} is for a {kind}")


def _loaded(key: str, field: FieldShape, stored: Any) -> Any:
    try:
        if field.kind == "log":
            return [field.load(one) for one in stored]
        if field.kind == "set":
            return {field.load(one) for one in stored}
        if field.kind == "map":
            return {name: field.load(one) for name, one in stored.items()}
        return field.load(stored)
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidRequest(f"what {key!r} holds does not fit its field, a {field.kind}: {error}") from error
