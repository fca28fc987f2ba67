"""What a mirror holds of one key: as it came, and as a value once somebody asks.

Never changed once it is published, so that readers need no lock: a change makes another one.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from msgpack import packb

from crdtsync.client.session.read_memory import NOTHING_STORED
from crdtsync.client.values.encoding import decode, elements_of
from crdtsync.client.values.results import Fields, entry_from_wire
from crdtsync.client.values.version_merge import both
from crdtsync.errors import InvalidEncoding, TooLarge, Unresolved
from crdtsync.wire.kinds import traits_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.values.results import Entry

HELD_BYTES = 400
"""About what a key takes beside its name and value."""
_PART_BYTES = 60


class HeldValue:
    """One key. ``plain`` is its value, there once it has been asked for."""

    __slots__ = ("fields", "plain", "point", "since_s", "size_bytes")

    plain: Any  # what the key holds is for its users to know

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self.since_s = monotonic()
        self.point: str | None = None  # the token of the moment at which it was published
        self.size_bytes = HELD_BYTES + _packed_bytes(fields) + sum(map(_packed_bytes, fields.get("siblings") or ()))

    def read(self) -> Any:
        """Its value, which stays for the next one who asks.

        :raises TooLarge: it is not here; the message says how to read it.
        :raises Unresolved: its read policy is ``manual``, and it has siblings.
        """
        self._check()
        fields = self.fields
        if fields.get("policy") == "manual" and self.siblings:
            raise Unresolved(
                f"{fields['key']!r} has {1 + self.siblings} values and the read policy manual: see them with entry or "
                "conflicts, and settle them with resolve",
                key=fields["key"],
                current=self.entry(fields["key"]),
                token=self.point,
            )
        shown = fields.get("shown")
        self.plain = self._decoded() if shown is None else decode(shown)
        return self.plain

    def entry(self, key: str) -> Entry:
        """All that is known of it."""
        self._check()
        return entry_from_wire(key, {**self._whole(), "version": self.version(of_winner=False)})

    @property
    def siblings(self) -> int:
        """How many other values the key has."""
        return len(self.fields.get("siblings") or ())

    def version(self, *, of_winner: bool) -> str | None:
        """What somebody has seen who was handed this: the winner alone, or all values. None: nobody can tell."""
        fields = self.fields
        told: str | None = fields.get("winner", fields.get("version")) if of_winner else fields.get("version")
        if told is not None or self.point is None:
            return told
        return both(NOTHING_STORED, NOTHING_STORED, self.point)  # all of the key that there was at that moment

    @property
    def is_too_large(self) -> bool:
        """Whether the daemon does not tell its value."""
        return bool(self.fields.get("too_large"))

    @property
    def age_s(self) -> float:
        """How long ago it came."""
        return monotonic() - self.since_s

    def with_part(self, fields: Fields) -> HeldValue | None:  # noqa: ARG002  # most kinds have none
        """What comes of a part that is told; None: nobody can say, and the key must be told anew."""
        return None

    def _check(self) -> None:
        if self.is_too_large:
            kind = self.fields["kind"]
            instead = traits_of(kind).read_in_parts or "get"
            raise TooLarge(f"this {kind} is too large for a mirror: read it from the daemon, with {instead}")

    def _decoded(self) -> Any:
        value = self.fields.get("value")
        return None if value is None else decode(value)

    def _whole(self) -> Fields:
        return self.fields


class _InParts(HeldValue):
    """A key of which parts change. ``parts`` holds them as values; None: it is too large, or not readable."""

    __slots__ = ("parts",)

    kind = ""
    parts: Any

    def __init__(self, fields: Fields, parts: Any = None, size_bytes: int | None = None) -> None:
        self.parts = self._first_parts(fields) if parts is None else parts
        super().__init__(fields if self.parts is None else {**fields, "value": None})
        if self.parts is not None:
            self.size_bytes += (
                (len(fields["value"]) + _PART_BYTES * len(self.parts)) if size_bytes is None else size_bytes
            )

    def with_part(self, fields: Fields) -> HeldValue | None:
        parts = self._joined(fields) if self.parts is not None and fields["kind"] == self.kind else None
        if parts is None:
            return None
        told = {name: value for name, value in fields.items() if name not in ("places", "length", "gone")}
        size_bytes = self.size_bytes - HELD_BYTES + len(fields["value"])
        size_bytes = size_bytes * len(parts) // max(len(parts), len(self.parts))  # about: parts are of about one size
        return type(self)({**told, "version": None, "siblings": []}, parts, size_bytes)

    def _first_parts(self, fields: Fields) -> Any:
        value = fields.get("value")
        if value is None:
            return None
        try:
            return self._split(decode(value))
        except InvalidEncoding:
            return None  # who asks for it is told

    def _split(self, value: Any) -> Any:
        """The parts of a value."""
        raise NotImplementedError

    def _joined(self, fields: Fields) -> Any:
        """The parts, with those that are told."""
        raise NotImplementedError

    def _decoded(self) -> Any:
        return super()._decoded() if self.parts is None else self.parts

    def _whole(self) -> Fields:
        return {**self.fields, "value": packb(self._decoded())}


class HeldLog(_InParts):
    """A log: its elements in order."""

    __slots__ = ()
    kind = "log"

    def _split(self, value: list[Any]) -> list[Any]:
        return value

    def _joined(self, fields: Fields) -> list[Any] | None:
        new = decode(fields["value"])
        length, places = fields["length"], fields["places"]
        left = length - len(new)
        if left > len(self.parts):
            return None
        parts: list[Any] = self.parts[len(self.parts) - left :]
        if places is None:
            parts += new
        else:
            for item, place in zip(new, places, strict=True):
                parts.insert(length - 1 - place, item)
        return parts


class HeldSet(_InParts):
    """A set: its elements in the order in which they were last added, by what tells them apart."""

    __slots__ = ()
    kind = "set"

    def _split(self, value: list[Any]) -> dict[bytes, Any]:
        return elements_of(value)

    def _joined(self, fields: Fields) -> dict[bytes, Any]:
        parts: dict[bytes, Any] = self.parts.copy()
        for identity in self._split(decode(fields["gone"])):
            parts.pop(identity, None)
        for identity, item in self._split(decode(fields["value"])).items():
            parts.pop(identity, None)
            parts[identity] = item
        return parts

    def _decoded(self) -> list[Any]:
        value = super()._decoded()
        return value if self.parts is None else [*value.values()]


class HeldMap(_InParts):
    """A map: its fields, by name."""

    __slots__ = ()
    kind = "map"

    def _split(self, value: dict[str, Any]) -> dict[str, Any]:
        return value

    def _joined(self, fields: Fields) -> dict[str, Any]:
        parts: dict[str, Any] = self.parts | decode(fields["value"])
        for name in decode(fields["gone"]):
            parts.pop(name, None)
        if parts.keys() <= self.parts.keys():
            return parts
        return {name: parts[name] for name in sorted(parts)}


_IN_PARTS: dict[str, Callable[[Fields], HeldValue]] = {held.kind: held for held in (HeldLog, HeldSet, HeldMap)}


def held_from_wire(fields: Fields) -> HeldValue:
    """What the daemon tells of a key as a whole."""
    return _IN_PARTS.get(fields["kind"], HeldValue)(fields)


def _packed_bytes(fields: Fields) -> int:
    return len(fields.get("value") or b"") + len(fields.get("meta") or b"")
