"""A change: what one writer did in one commit, in the bytes that every replica stores and relays unchanged.

Layout (msgpack)::

    body   = [header, value, …]                         one value for each op that has one, in order
    header = bin of [FORMAT, writer, seq, deps, prev_hash, hlc, agent, idempotency, ops, origin, …]
    deps   = [writer, seq, hash8, …]                    heads applied since its last change; in its first, all
    origin = [node id, node name] in a writer's first change, else nil
    op     = [key, sub, kind, has_value, removes, attrs, …]   then `true` if what it removes had not been read; then
             how many of the last dots that it removes are lost, or nil; then how many of these for want of room
    value  = bin (msgpack of the value)  |  [bin(16)]   the latter: purged, only its hash is left
    removes = nil | [writer, seq, n, …]                 dots
            | {0: [writer, seq, …], 1: [hlc, writer, seq, n]}   all dots of the key in this vector, up to this place
            in the log

The hash covers cluster, space, epoch, the header's bytes and the hash of each value, so a purged value leaves the
chain of hashes whole. Elements after the known ones belong to newer versions; they are kept, since the bytes are,
and ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, cast

from crdtsync.causality import HLC_MAX, SEQ_MAX, WRITER_MAX, Dot, Hlc, VersionVector, Writer, flatten
from crdtsync.errors import InvalidEncoding, TooLarge
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import check_items, check_value, new_row, pack, unpack
from crdtsync.wire.kinds import VALUE_KINDS
from crdtsync.wire.limits import (
    CHANGE_BYTES_MAX,
    CHANGE_DEPS_MAX,
    CHANGE_ITEMS_MAX,
    CHANGE_OPS_MAX,
    IDEMPOTENCY_BYTES_MAX,
    NAME_CHARS_MAX,
    VALUE_BYTES_MAX,
    is_name,
    key_fault,
    shown,
)
from crdtsync.wire.parts import read_count
from crdtsync.wire.stored_values import are_sound, is_storable

FORMAT = 1
KIND_MAX = 1 << 16
HASH_BYTES = 16
SHORT_HASH_BYTES = 8
NO_HASH = bytes(HASH_BYTES)

Order = tuple[int, int, int, int]
"""Place of an entry among those of its key: ``(hlc, writer, seq, n)``."""


class RemoveRange(NamedTuple):
    """All dots of the key that ``vector`` covers and, if ``bound`` is given, that come no later than it."""

    vector: VersionVector
    bound: Order | None = None


class Op(NamedTuple):
    """One operation.

    ``value`` is None for a removal and for a purged value; the latter still has its ``value_hash``. ``blind``: its
    author had not read what it removes. ``lost``: so many of the last dots in ``removes`` nobody chose to drop; None:
    that is not said. ``crowded``: so many of those went only because the key was full. Merging looks at none of this,
    history does.
    """

    key: str
    sub: str | None
    kind: int
    value: bytes | None
    value_hash: bytes | None
    removes: tuple[Dot, ...] | RemoveRange
    attrs: dict[str, Any] | None
    blind: bool = False
    lost: int | None = None
    crowded: int = 0


class Dep(NamedTuple):
    """One head that the author had applied: the change ``seq`` of ``writer``, with the start of its hash."""

    writer: Writer
    seq: int
    short_hash: bytes


class Change:
    """One decoded change, with the ``body`` it came from and its ``hash``.

    ``is_malformed``: it has values or attributes that no agent can have written, which say nothing: see
    :mod:`crdtsync.wire.stored_values`.
    """

    __slots__ = (
        "agent", "body", "deps", "hash", "hlc", "idempotency", "is_malformed", "ops", "origin", "prev_hash", "seq",
        "writer",
    )  # fmt: skip

    def __init__(
        self,
        writer: Writer,
        seq: int,
        deps: tuple[Dep, ...],
        prev_hash: bytes,
        hlc: Hlc,
        agent: str,
        idempotency: bytes | None,
        ops: tuple[Op, ...],
        origin: tuple[str, str] | None = None,
    ) -> None:
        self.writer = writer
        self.seq = seq
        self.deps = deps
        self.prev_hash = prev_hash
        self.hlc = hlc
        self.agent = agent
        self.idempotency = idempotency
        self.ops = ops
        self.origin = origin
        self.body = b""
        self.hash = b""
        self.is_malformed = False

    @property
    def short_hash(self) -> bytes:
        """The part of the hash that frontiers and deps carry."""
        return self.hash[:SHORT_HASH_BYTES]


def value_hash(value: bytes) -> bytes:
    """Hash that stands for a value in its change's hash, and alone once it is purged."""
    return blake2b(value, digest_size=HASH_BYTES).digest()


class Codec:
    """Encodes and decodes the changes of one space: the hash binds them to it."""

    def __init__(self, cluster: bytes, space: str, epoch: int) -> None:
        self._prefix = blake2b(pack([cluster, space, epoch]), digest_size=HASH_BYTES, person=b"crdtsync-change")

    def encode(self, change: Change) -> Change:
        """Fill in ``body`` and ``hash``.

        :raises TooLarge: the change is over ``CHANGE_BYTES_MAX``.
        """
        header = pack(
            [
                FORMAT,
                change.writer,
                change.seq,
                [part for dep in change.deps for part in dep],
                change.prev_hash,
                change.hlc,
                change.agent,
                change.idempotency,
                [_plain_op(op) for op in change.ops],
                None if change.origin is None else list(change.origin),
            ]
        )
        return self.seal(change, header)

    def seal(self, change: Change, header: bytes) -> Change:
        """Fill in ``body`` and ``hash`` of a change with this header.

        :raises TooLarge: as :meth:`encode`.
        """
        values = [
            op.value if op.value is not None else [op.value_hash] for op in change.ops if op.value_hash is not None
        ]
        change.body = pack([header, *values])
        if len(change.body) > CHANGE_BYTES_MAX:
            raise TooLarge(
                f"the change has {len(change.body):,} bytes; at most {CHANGE_BYTES_MAX:,} fit into one batch"
            )
        change.hash = self._hash(header, change.ops)
        return change

    def seal_one(self, change: Change, header: bytes, value: bytes, hashed: bytes) -> None:
        """The same as :meth:`seal` for a change that writes one value, and is known to be small enough."""
        change.body = pack([header, value])
        state = self._prefix.copy()
        state.update(header + hashed)
        change.hash = state.digest()

    def decode(self, body: bytes) -> Change:
        """The change in ``body``.

        :raises InvalidEncoding: not a change that any correct node could have made.
        """
        if len(body) > CHANGE_BYTES_MAX:
            raise InvalidEncoding(f"a change of {len(body):,} bytes is over the limit of {CHANGE_BYTES_MAX:,}")
        try:
            header, *values = unpack(body)
            check_items(_bytes(header), CHANGE_ITEMS_MAX)
            fields = unpack(header, strict_map_key=False)
            change = _change(fields, values)
        except ValueError as error:
            raise InvalidEncoding(f"malformed change: {error}") from None
        except (TypeError, LookupError, AttributeError):
            raise InvalidEncoding("malformed change: a part is missing, or of another type than it must be") from None
        return self.opened(change, header, body)

    def opened(self, change: Change, header: bytes, body: bytes) -> Change:
        """Fill in ``body`` and ``hash`` of a change that was read from this body, and this header in it."""
        change.body = body
        change.hash = self._hash(header, change.ops)
        return change

    def hash_of(self, body: bytes) -> bytes | None:
        """The hash of the change in this body, whatever the change says; None: it is none."""
        try:
            header, *values = unpack(body)
            state = self._prefix.copy()
            state.update(header)
            for value in values:
                state.update(value_hash(value) if type(value) is bytes else value[0])
            return state.digest()
        except (TypeError, ValueError, LookupError):
            return None

    def _hash(self, header: bytes, ops: Sequence[Op]) -> bytes:
        state = self._prefix.copy()
        state.update(header)
        for op in ops:
            if op.value_hash is not None:
                state.update(op.value_hash)
        return state.digest()


def redacted(change: Change, is_meant: Callable[[str], bool]) -> bytes | None:
    """The body of a change with the hash alone of each value that it writes to these keys; None: it writes none."""
    header, *values = unpack(change.body)
    at, count = -1, 0
    for op in change.ops:
        if op.value_hash is None:
            continue
        at += 1
        if type(values[at]) is bytes and is_meant(op.key):
            values[at] = [op.value_hash]
            count += 1
    return pack([header, *values]) if count else None


def flat_removes(removes: tuple[Dot, ...] | RemoveRange) -> object:
    """The plain form of what an operation removes."""
    if isinstance(removes, RemoveRange):
        vector = flatten(removes.vector)
        return {0: vector} if removes.bound is None else {0: vector, 1: list(removes.bound)}
    return [part for dot in removes for part in dot] or None


def removes_of(packed: bytes) -> tuple[Dot, ...] | RemoveRange:
    """From the form that rows have it in: :func:`flat_removes`, packed."""
    plain = unpack(packed, strict_map_key=False)
    return () if plain is None else _removes(plain)


def _plain_op(op: Op) -> list[object]:
    plain = [op.key, op.sub, int(op.kind), op.value_hash is not None, flat_removes(op.removes), op.attrs]
    if op.lost is not None:
        return [*plain, op.blind, op.lost, op.crowded]
    return [*plain, True] if op.blind else plain


def _change(fields: list[Any], values: list[Any]) -> Change:
    form, writer, seq, deps, prev_hash, hlc, agent, idempotency, plain_ops, origin = fields[:10]
    if form != FORMAT:
        raise ValueError(f"format {shown(form)} is not known here")
    if not 1 <= len(plain_ops) <= CHANGE_OPS_MAX:
        raise ValueError(f"{len(plain_ops)} operations")
    if type(agent) is not str or len(agent) > NAME_CHARS_MAX:
        raise ValueError("agent name")
    if idempotency is not None and len(_bytes(idempotency)) > IDEMPOTENCY_BYTES_MAX:
        raise ValueError("idempotency id")
    if len(_bytes(prev_hash)) != HASH_BYTES:
        raise ValueError("previous hash")
    if type(writer) is not int or type(seq) is not int or type(hlc) is not int:
        raise TypeError("writer, number and clock are integers")
    if not (0 < writer <= WRITER_MAX and 0 < seq <= SEQ_MAX and 0 <= hlc <= HLC_MAX):
        raise ValueError(f"{shown(writer)}, {shown(seq)} and {shown(hlc)} are no writer, number and clock")
    remaining = iter(values)
    ops = tuple([_op(plain, remaining) for plain in plain_ops])
    if next(remaining, None) is not None:
        raise ValueError("more values than operations")
    change = Change(
        cast("Writer", writer),
        seq,
        () if deps == [] else _deps(deps),
        prev_hash,
        cast("Hlc", hlc),
        agent,
        idempotency,
        ops,
        None if origin is None else _origin(origin),
    )
    change.is_malformed = _is_malformed(ops, values)
    return change


def _is_malformed(ops: Sequence[Op], values: list[Any]) -> bool:
    """Whether a value that was given does not count, or an attribute."""
    uncounted = len(values)
    for op in ops:
        if op.value is not None:
            uncounted -= 1
        if op.attrs is not None and not are_sound(op.attrs):
            return True
    return uncounted > 0 and uncounted > sum(type(value) is list for value in values)  # lists: of purged values


def _origin(plain: Any) -> tuple[str, str]:
    node, name = plain
    if type(node) is not str or not 1 <= len(node) <= NAME_CHARS_MAX or not is_name(name):
        raise ValueError("origin")
    return node, name


def _op(plain: list[Any], values: Any) -> Op:
    key, sub, kind, has_value, removes, attrs = plain[:6]
    fault = key_fault(key)
    if fault is not None:
        raise ValueError(f"a key {fault}")
    if sub is not None and (type(sub) is not str or len(sub) > VALUE_BYTES_MAX):
        raise ValueError("sub")
    if attrs is not None:
        if type(attrs) is not dict:
            raise ValueError("attributes")
        check_value(attrs)
    value: bytes | None = None
    hashed: bytes | None = None
    if has_value is True:
        value, hashed = _value(next(values, None))
    elif has_value is not False:
        raise ValueError("value flag")
    blind = len(plain) > 6 and plain[6] is True
    dots = () if removes is None else _removes(removes)
    lost, crowded = _lost(plain, dots) if len(plain) > 8 else (None, 0)
    if type(kind) is not int or not 0 <= kind <= KIND_MAX:
        raise ValueError("kind")
    if value is not None and kind in VALUE_KINDS and not is_storable(value):
        value = None
    op: Op = new_row(Op, (key, sub, kind, value, hashed, dots, attrs, blind, lost, crowded))
    return op


def _lost(plain: list[Any], dots: tuple[Dot, ...] | RemoveRange) -> tuple[int | None, int]:
    """An operation's word on the ends of what it removes; if that cannot be, it says nothing."""
    lost, crowded = plain[7], plain[8]
    if type(lost) is not int or type(crowded) is not int or isinstance(dots, RemoveRange):
        return None, 0
    return (lost, crowded) if 0 <= crowded <= lost <= len(dots) else (None, 0)


def _value(plain: Any) -> tuple[bytes | None, bytes]:
    if type(plain) is bytes and len(plain) <= VALUE_BYTES_MAX:
        return plain, value_hash(plain)
    if type(plain) is list and len(plain) == 1 and len(_bytes(plain[0])) == HASH_BYTES:
        return None, plain[0]
    raise ValueError(f"a value of {len(_bytes(plain)):,} bytes")


def _removes(plain: Any) -> tuple[Dot, ...] | RemoveRange:
    if type(plain) is list:
        if len(plain) == 3:
            return (_dot(*plain),)
        if len(plain) % 3:
            raise ValueError("removed dots")
        return tuple([_dot(plain[i], plain[i + 1], plain[i + 2]) for i in range(0, len(plain), 3)])
    flat, bound = plain[0], plain.get(1)
    if len(flat) % 2:
        raise ValueError("removed range")
    vector = {
        Writer(read_count(flat[i], WRITER_MAX, 1)): read_count(flat[i + 1], SEQ_MAX, 1) for i in range(0, len(flat), 2)
    }
    if bound is None:
        return RemoveRange(vector)
    hlc, writer, seq, n = bound
    return RemoveRange(vector, (read_count(hlc, HLC_MAX), *_dot(writer, seq, n)))


def _deps(flat: Any) -> tuple[Dep, ...]:
    if len(flat) % 3 or len(flat) > 3 * CHANGE_DEPS_MAX:
        raise ValueError("deps")
    return tuple([_dep(flat[i], flat[i + 1], flat[i + 2]) for i in range(0, len(flat), 3)])


def _dep(writer: Any, seq: Any, short_hash: Any) -> Dep:
    if type(writer) is not int or type(seq) is not int or not (0 < writer <= WRITER_MAX and 0 < seq <= SEQ_MAX):
        raise ValueError(f"{shown(writer)} and {shown(seq)} are no writer and number of a change")
    dep: Dep = new_row(Dep, (writer, seq, _short_hash(short_hash)))
    return dep


def _dot(writer: Any, seq: Any, n: Any) -> Dot:
    if type(writer) is not int or type(seq) is not int or type(n) is not int:
        raise ValueError(f"{shown(writer)}, {shown(seq)} and {shown(n)} are no dot")
    if not (0 < writer <= WRITER_MAX and 0 < seq <= SEQ_MAX and 0 <= n <= CHANGE_OPS_MAX):
        raise ValueError(f"{writer}, {seq} and {n} are no dot")
    dot: Dot = new_row(Dot, (writer, seq, n))
    return dot


def _short_hash(plain: Any) -> bytes:
    if len(_bytes(plain)) != SHORT_HASH_BYTES:
        raise ValueError("short hash")
    return plain  # type: ignore[no-any-return]


def _bytes(plain: Any) -> bytes:
    if type(plain) is not bytes:
        raise TypeError(f"expected bytes, got {type(plain).__name__}")
    return plain
