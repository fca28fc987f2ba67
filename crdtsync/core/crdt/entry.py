"""One live value of a key, as memory holds it."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any, Self

from crdtsync.causality import TIME_MS_MAX, Dot, VersionVector, Writer, hlc_ms
from crdtsync.wire.change import Order
from crdtsync.wire.codec import new_row, pack
from crdtsync.wire.stored_values import ttl_of


class OnDisk:
    """Stands in an entry for a value that only the disk holds: how long that is, and how to read it."""

    __slots__ = ("read", "size_bytes")

    def __init__(self, size_bytes: int, read: Callable[[Entry], bytes | None]) -> None:
        self.size_bytes = size_bytes
        self.read = read


_NUMBERS = struct.Struct(">QqQI")
_HLC, _ROW, _SEQ = slice(8), slice(8, 16), slice(16, 24)
_HASH_AT = _NUMBERS.size
_OF_ALL = ("_packed", "_value", "agent", "key", "kind", "writer")
_OF_SOME = ("attrs", "hidden", "kept_ms", "sub")
"""Most entries have none of these: they would take 32 bytes of each of a million keys."""


class Entry:
    """One live value of a key.

    ``row`` is its number in the database; ``hidden``: it has expired, and watchers of this node know; ``kept_ms``: how
    long its time to live has been made by reads (:mod:`crdtsync.core.crdt.sliding`), in ms since 1970; 0: by none.

    Its numbers and its hash stand in one string of bytes: a million keys take 150 MB less than with an object for each.
    """

    __slots__ = _OF_ALL
    _packed: bytes
    _value: bytes | OnDisk | None
    agent: str
    key: str
    kind: int
    writer: Writer
    sub: str | None = None
    attrs: dict[str, Any] | None = None
    hidden: bool = False
    kept_ms: int = 0

    def __new__(
        cls,
        row: int,
        dot: Dot,
        key: str,
        sub: str | None,
        kind: int,
        hlc: int,
        agent: str,
        value: bytes | OnDisk | None,
        value_hash: bytes,
        attrs: dict[str, Any] | None,
    ) -> Self:
        """Make an entry of the smallest class that has room for all this.

        :raises ValueError: a number is none, or is too large for what it says.
        """
        if sub is None and attrs is None:
            self = object.__new__(cls)
        else:
            self = object.__new__(_FullEntry)  # type: ignore[assignment]  # a class of its own for memory's sake
            self.sub = sub
            self.attrs = attrs
            self.hidden = False
            self.kept_ms = 0
        self.writer, seq, n = dot
        try:
            self._packed = _NUMBERS.pack(hlc, row, seq, n) + value_hash
        except struct.error as error:
            raise ValueError(f"the entry {dot} of {key!r} in row {row} at {hlc}: {error}") from None
        self.key = key
        self.kind = kind
        self.agent = agent
        self._value = value
        return self

    @property
    def dot(self) -> Dot:
        """The name of the value. Takes as long as ten attributes: ask once."""
        _, _, seq, n = _NUMBERS.unpack_from(self._packed)
        dot: Dot = new_row(Dot, (self.writer, seq, n))
        return dot

    @property
    def hlc(self) -> int:
        """When it was written, as a hybrid time."""
        hlc: int = _NUMBERS.unpack_from(self._packed)[0]
        return hlc

    @property
    def row(self) -> int:
        """The number of its row in the database; 0: it has none."""
        row: int = _NUMBERS.unpack_from(self._packed)[1]
        return row

    @row.setter
    def row(self, row: int) -> None:
        hlc, _, seq, n = _NUMBERS.unpack_from(self._packed)
        self._packed = _NUMBERS.pack(hlc, row, seq, n) + self.value_hash

    @property
    def value_hash(self) -> bytes:
        """The hash of the value: of an edit of a text that of the edit."""
        return self._packed[_HASH_AT:]

    @property
    def value(self) -> bytes | None:
        """The value as msgpack, read from the disk where that alone holds it. None: it was purged, or cannot be read
        any more (see :mod:`crdtsync.core.storage.long_values`).
        """
        value = self._value
        return value.read(self) if type(value) is OnDisk else value  # type: ignore[return-value]

    @value.setter
    def value(self, value: bytes | None) -> None:
        self._value = value

    @property
    def held(self) -> bytes | OnDisk | None:
        """The value, or what stands for one on disk."""
        return self._value

    def leave_on_disk(self, stand_in: OnDisk) -> None:
        """Hold the value no longer: the disk does."""
        self._value = stand_in

    @property
    def is_on_disk(self) -> bool:
        """Whether the disk alone holds the value."""
        return type(self._value) is OnDisk

    @property
    def size_bytes(self) -> int:
        """How long the value is; 0: it was purged. Reads nothing."""
        value = self._value
        return 0 if value is None else value.size_bytes if type(value) is OnDisk else len(value)  # type: ignore[arg-type]

    @property
    def order(self) -> Order:
        """Causal order among the entries of a key: an entry comes after all that its author had seen."""
        hlc, _, seq, n = _NUMBERS.unpack_from(self._packed)
        return hlc, self.writer, seq, n

    def is_in(self, vector: Mapping[Writer, int]) -> bool:
        """Whether a version vector covers it."""
        seq: int = _NUMBERS.unpack_from(self._packed)[2]
        return seq <= vector.get(self.writer, 0)

    @property
    def digest(self) -> int:
        """128-bit hash of everything that replicas must agree on."""
        hlc, _, seq, n = _NUMBERS.unpack_from(self._packed)
        of_value = self.value_hash
        plain = pack([self.key, self.sub, self.kind, self.writer, seq, n, hlc, self.agent, of_value, self.attrs])
        return int.from_bytes(blake2b(plain, digest_size=16).digest(), "big")

    def expires_ms(self) -> int | None:
        """When readers stop seeing the entry, in ms since 1970; None: never."""
        ttl = ttl_of(self.attrs) if self.attrs else None
        return None if ttl is None else max(self.kept_ms, min(hlc_ms(self.hlc) + ttl, TIME_MS_MAX))

    def is_expired(self, now_ms: int) -> bool:
        """Whether readers have stopped seeing the entry."""
        expires_ms = self.expires_ms()
        return expires_ms is not None and expires_ms <= now_ms


class _FullEntry(Entry):
    """One with attributes, or a part of a key's value."""

    __slots__ = _OF_SOME


def order_of(entry: Entry) -> Order:
    """Sort key for :func:`bisect.insort`."""
    return entry.order


def reach_of(entries: Iterable[Entry]) -> tuple[VersionVector, int]:
    """The highest ``seq`` of each writer among entries, and the highest time. To ask each takes five times as long."""
    numbers: defaultdict[Writer, list[bytes]] = defaultdict(list)
    for entry in entries:
        numbers[entry.writer].append(entry._packed)  # noqa: SLF001  # they sort as what they say
    vector = {writer: int.from_bytes(max([one[_SEQ] for one in some]), "big") for writer, some in numbers.items()}
    return vector, int.from_bytes(max(map(max, numbers.values()), default=b"")[_HLC], "big")


def rows_of(entries: Iterable[Entry]) -> tuple[int, ...]:
    """The rows of entries. To ask each takes three times as long."""
    packed = b"".join([entry._packed[_ROW] for entry in entries])  # noqa: SLF001  # see above
    return struct.unpack(f">{len(packed) // 8}q", packed)


def inside(entries: Iterable[Entry], vector: Mapping[Writer, int]) -> list[Entry]:
    """Those that a vector covers: as :meth:`Entry.is_in` of each, in a third of the time."""
    limits = {writer: seq.to_bytes(8, "big") for writer, seq in vector.items()}
    none = bytes(8)
    return [entry for entry in entries if entry._packed[_SEQ] <= limits.get(entry.writer, none)]  # noqa: SLF001  # see above


def on_disk(entries: Iterable[Entry]) -> list[Entry]:
    """Those of which the disk alone holds the value."""
    return [entry for entry in entries if type(entry._value) is OnDisk]  # noqa: SLF001  # thousands are asked
