"""The parts of a snapshot: the live state of a space as of a cut, in pieces that can be checked and kept one by one.

A space may be gigabytes, and a connection may break at any byte. So the state travels in parts. For example, a space
with some thousand entries is a header, a part of writers, and several parts of entries, the first ones small. If the
connection breaks after the third part, the taker still has three, each with its checksum, and asks for the fourth.

Each part is one msgpack array, the first element its type; they come in this order:

=========  ==================================================================================================
header     ``[1, FORMAT, node, hlc, digest, writers, entries, documents]``: who serves it, and how much will come
writers    ``[2, [writer, seq, hash, node | nil, name | nil, …]]``: the frontier, with full hashes, and origins
entries    ``[3, [key, sub, kind, writer, seq, n, hlc, agent, value, value_hash | nil, attrs, …]]``; the hash is
           left out where it is that of the value, which is ``c1`` if the giver's disk has spoilt it
documents  ``[4, [writer, seq, n, size, bytes, …]]``: whole documents as Yjs updates; a large one goes on in the
           next parts, until ``size`` bytes have come; size 0: it is known there, and nothing is held of it
=========  ==================================================================================================

A part has about ``PART_BYTES_MAX`` at most, or one entry. Elements after the known ones come from newer versions and
are ignored. An unknown type is refused, for the snapshot would not be whole. To a peer that names ``deflate`` among its
features a part may be sent compressed (zlib, RFC 1950), which its first byte tells: no array begins so.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Protocol

from crdtsync.causality import HLC_MAX, SEQ_MAX, WRITER_MAX, Dot, Hlc, Writer
from crdtsync.errors import InvalidEncoding
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.change import HASH_BYTES, SHORT_HASH_BYTES, value_hash
from crdtsync.wire.codec import check_items, check_value, new_row, pack, unpack
from crdtsync.wire.kinds import VALUE_KINDS
from crdtsync.wire.limits import (
    CHANGE_DEPS_MAX,
    CHANGE_OPS_MAX,
    KEY_BYTES_MAX,
    MESSAGE_ITEMS_MAX,
    NAME_CHARS_MAX,
    VALUE_BYTES_MAX,
    is_name,
    key_fault,
    shown,
)
from crdtsync.wire.parts import read_blob, read_count, read_text
from crdtsync.wire.stored_values import is_storable

FORMAT = 1
DEFLATE = "deflate"
"""The feature of a node that takes parts compressed."""
PART_BYTES_MAX = 256 * 1024
"""Bytes of a part of a snapshot, or of one entry."""
PART_ENTRIES_MAX = 1000
"""Entries of a part of a snapshot. Taking in an entry costs about 10 µs, and a part is taken in at once."""
SNAPSHOT_ENTRIES_MAX = 20_000_000
"""Entries of a snapshot that is taken."""
SNAPSHOT_DOCUMENTS_MAX = 1_000_000
"""Documents of a snapshot that is taken."""
SNAPSHOT_BYTES_MAX = 1024 * 1024 * 1024 * 1024
"""Bytes of a snapshot's parts as they are read, not as they are sent: a compressed one may be a thousandth. Long
values and the parts of blobs go to disk as they come; what memory and disk have room for is a bound of its own."""
INFLATED_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of a part of a snapshot that came compressed: the longest entry there can be has a little more than half of
that."""
DOCUMENT_BYTES_MAX = 256 * 1024 * 1024
"""Bytes of a document in a snapshot."""

COMPRESSED_SHARE_MAX = 0.9
"""A part that does not become smaller than this is sent as it is."""
_ZLIB = 0x78
_FASTEST = 1


LOST = b"\xc1"
"""Stands for a value that the giver's disk has spoilt, beside its hash: MessagePack never uses this byte."""
_DIGEST_BYTES = 16
_KIND_MAX = 1 << 16


class Header(NamedTuple):
    """The head of a snapshot: ``node`` serves it; ``hlc`` is its clock; ``digest`` that of all entries, and counts."""

    node: str
    hlc: int
    digest: int
    writers: int
    entries: int
    documents: int


class WriterRow(NamedTuple):
    """One writer of the frontier, with the hash of its last change and, if known, its node's id and name."""

    writer: Writer
    seq: int
    hash: bytes
    origin: tuple[str, str] | None


class EntryFields(NamedTuple):
    """One live entry: all that replicas agree on."""

    dot: Dot
    key: str
    sub: str | None
    kind: int
    hlc: Hlc
    agent: str
    value: bytes | None
    value_hash: bytes
    attrs: dict[str, Any] | None


class DocumentPiece(NamedTuple):
    """A piece of a document that has ``size_bytes`` in all."""

    document: Dot
    size_bytes: int
    data: bytes


class Encodable(Protocol):
    """A live entry."""

    key: str
    sub: str | None
    kind: int
    agent: str
    attrs: dict[str, Any] | None

    @property
    def dot(self) -> Dot:
        """Its name."""

    @property
    def hlc(self) -> int:
        """When it was written."""

    @property
    def value_hash(self) -> bytes:
        """The hash that stands for the value in digests."""

    @property
    def value(self) -> bytes | None:
        """As msgpack; None: it was purged."""

    @property
    def size_bytes(self) -> int:
        """How long the value is."""


Content = Header | list[WriterRow] | list[EntryFields] | list[DocumentPiece]


def part_hash(snapshot: bytes, part: int, data: bytes) -> bytes:
    """Checksum of a part: of its place too, so that one part never passes for another."""
    return blake2b(snapshot + part.to_bytes(8, "big") + data, digest_size=SHORT_HASH_BYTES).digest()


def compressed(data: bytes) -> bytes:
    """A part as it is sent to a node that takes it compressed."""
    small = zlib.compress(data, _FASTEST)
    return small if len(small) <= COMPRESSED_SHARE_MAX * len(data) else data


def _inflated(data: bytes) -> bytes:
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(data, INFLATED_BYTES_MAX)
    except zlib.error as error:
        raise InvalidEncoding(f"malformed part of a snapshot: {error}") from None
    if not stream.eof or stream.unused_data:
        raise InvalidEncoding("malformed part of a snapshot: its compressed bytes are cut off, or of too much")
    return plain


def encode_header(header: Header) -> bytes:
    """The first part."""
    node, hlc, digest, writers, entries, documents = header
    return pack([1, FORMAT, node, hlc, digest.to_bytes(_DIGEST_BYTES, "big"), writers, entries, documents])


def encode_writers(rows: Iterable[WriterRow]) -> bytes:
    """A part of the frontier."""
    return pack([2, [part for row in rows for part in (*row[:3], *(row.origin or (None, None)))]])


def encode_entries(entries: Sequence[Encodable], may_lack: bool = False) -> bytes:
    """A part of the live state. ``may_lack``: for a value that the disk has spoilt stands :data:`LOST`."""
    flat: list[object] = []
    for entry in entries:
        value, hashed = entry.value, entry.value_hash
        if value is None and may_lack and entry.size_bytes:
            value = LOST
        implied = value is not None and value_hash(value) == hashed
        flat += (
            entry.key, entry.sub, entry.kind, *entry.dot, entry.hlc, entry.agent, value, None if implied else hashed,
            entry.attrs,
        )  # fmt: skip
    return pack([3, flat])


def encode_pieces(pieces: Iterable[DocumentPiece]) -> bytes:
    """A part of the documents."""
    return pack([4, [part for piece in pieces for part in (*piece.document, piece.size_bytes, piece.data)]])


def entry_bytes(entry: Encodable) -> int:
    """About the size of an entry in a part."""
    return 96 + len(entry.key) + len(entry.sub or "") + entry.size_bytes + (64 if entry.attrs else 0)


def plain_part(data: bytes) -> bytes:
    """A part as it was before it was compressed, if it was.

    :raises InvalidEncoding: not a part that any correct node could have sent.
    """
    return _inflated(data) if data[:1] == bytes([_ZLIB]) else data


def decode_part(data: bytes) -> Content:
    """The content of a part, compressed or not.

    :raises InvalidEncoding: not a part that any correct node could have sent.
    """
    data = plain_part(data)
    check_items(data, MESSAGE_ITEMS_MAX)
    plain = unpack(data)
    try:
        return _DECODERS[plain[0]](plain)
    except ValueError as error:
        raise InvalidEncoding(f"malformed part of a snapshot: {error}") from None
    except (TypeError, LookupError, AttributeError):
        raise InvalidEncoding("malformed part of a snapshot: something is missing, or of another type") from None


def _header(plain: list[Any]) -> Header:
    _, form, node, hlc, digest, writers, entries, documents = plain[:8]
    if form != FORMAT:
        raise ValueError(f"format {shown(form)} is not known here")
    return Header(
        read_text(node),
        read_count(hlc, HLC_MAX),
        int.from_bytes(read_blob(digest, _DIGEST_BYTES, _DIGEST_BYTES), "big"),
        read_count(writers, CHANGE_DEPS_MAX),
        read_count(entries, SNAPSHOT_ENTRIES_MAX),
        read_count(documents, SNAPSHOT_DOCUMENTS_MAX),
    )


def _writers(plain: list[Any]) -> list[WriterRow]:
    rows = []
    for writer, seq, hashed, node, name in _records(plain[1], 5):
        origin = None
        if node is not None:
            if not is_name(name):
                raise ValueError("origin")
            origin = (read_text(node), name)
        number = Writer(read_count(writer, WRITER_MAX, 1))
        rows.append(WriterRow(number, read_count(seq, SEQ_MAX, 1), read_blob(hashed, HASH_BYTES, HASH_BYTES), origin))
    return rows


def _entries(plain: list[Any]) -> list[EntryFields]:
    rows: list[EntryFields] = []
    append = rows.append
    agents: dict[str, str] = {}  # one string for all that an agent wrote
    for record in _records(plain[1], 11):
        key, sub, kind, writer, seq, n, hlc, agent, value, hashed, attrs = record
        if (  # all checks of an ordinary entry in one go: a part has many of them
            type(key) is str and type(kind) is type(writer) is type(seq) is type(n) is type(hlc) is int
            and sub is hashed is attrs is None and type(value) is bytes and 0 < len(key) <= KEY_BYTES_MAX
            and key.isascii() and key.isprintable() and 0 <= kind <= _KIND_MAX and 1 <= writer <= WRITER_MAX
            and 1 <= seq <= SEQ_MAX and 0 <= n <= CHANGE_OPS_MAX and 0 <= hlc <= HLC_MAX
            and len(value) <= VALUE_BYTES_MAX and agent in agents and (kind not in VALUE_KINDS or is_storable(value))
        ):  # fmt: skip
            dot = new_row(Dot, (writer, seq, n))
            append(new_row(EntryFields, (dot, key, None, kind, hlc, agents[agent], value, value_hash(value), None)))
        else:
            append(_checked(record))
            agents[agent] = agent
    return rows


def _checked(record: tuple[Any, ...]) -> EntryFields:
    """One entry, whatever is in it."""
    key, sub, kind, writer, seq, n, hlc, agent, value, hashed, attrs = record
    stored = _value(value)
    is_lost = stored == LOST and hashed is not None
    is_kept = stored is None or is_lost or kind not in VALUE_KINDS or is_storable(stored)
    return EntryFields(
        _dot(writer, seq, n),
        _key(key),
        _sub(sub),
        read_count(kind, _KIND_MAX),
        Hlc(read_count(hlc, HLC_MAX)),
        _agent(agent),
        stored if is_kept else None,
        value_hash(value) if hashed is None else read_blob(hashed, HASH_BYTES, HASH_BYTES),
        attrs if attrs is None else _attrs(attrs),
    )


def _pieces(plain: list[Any]) -> list[DocumentPiece]:
    return [
        DocumentPiece(_dot(writer, seq, n), read_count(size, DOCUMENT_BYTES_MAX), read_blob(data, DOCUMENT_BYTES_MAX))
        for writer, seq, n, size, data in _records(plain[1], 5)
    ]


_DECODERS: dict[object, Callable[[list[Any]], Content]] = {1: _header, 2: _writers, 3: _entries, 4: _pieces}


def _records(flat: Any, width: int) -> Iterator[tuple[Any, ...]]:
    if type(flat) is not list or len(flat) % width:
        raise ValueError("a record is cut off")
    return zip(*[iter(flat)] * width, strict=True)


def _key(key: Any) -> str:
    fault = key_fault(key)
    if fault is not None:
        raise ValueError(f"a key {fault}")
    return key  # type: ignore[no-any-return]


def _sub(sub: Any) -> str | None:
    if sub is not None and (type(sub) is not str or len(sub) > VALUE_BYTES_MAX):
        raise ValueError("sub")
    return sub


def _agent(agent: Any) -> str:
    if type(agent) is not str or len(agent) > NAME_CHARS_MAX:
        raise ValueError("agent name")
    return agent


def _value(value: Any) -> bytes | None:
    return None if value is None else read_blob(value, VALUE_BYTES_MAX)


def _attrs(attrs: Any) -> dict[str, Any]:
    if type(attrs) is not dict:
        raise ValueError("attributes")
    check_value(attrs)
    return attrs


def _dot(writer: Any, seq: Any, n: Any) -> Dot:
    return Dot(Writer(read_count(writer, WRITER_MAX, 1)), read_count(seq, SEQ_MAX, 1), read_count(n, CHANGE_OPS_MAX))
