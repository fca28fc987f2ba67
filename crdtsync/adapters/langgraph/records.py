"""Bytes of any length as keys of the state, and whether they are whole.

A key holds 1 MiB at most, and a change 4 MiB. So a *record* is a head at a key of its own, and where its bytes are too
long for that, parts beside it, named by the digest of the whole. A record that refers to others is written after
them: a change is never seen before those that its author had made, so whoever finds a head finds its parts.

A record has a *seal*, a checksum of its head and of its name, that is its key without prefix and thread: so one that
somebody has put in the place of another is noticed, and a copy of a thread is not. Those of earlier versions have none.
"""

from __future__ import annotations

import zlib
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import ormsgpack

from crdtsync.errors import CrdtSyncError, TooLarge
from crdtsync.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PART_BYTES = 1_000_000
RECORD_BYTES_MAX = 64 * 1024 * 1024  # also of what somebody has compressed to much less
COMPRESS_BYTES = 250  # shorter ones are not worth the time
SMALL_BYTES = 16_000  # to make zlib's usual tables takes 50 µs, more than to compress so little with small ones
CHANGE_BYTES = 3_000_000
CHANGE_OPERATIONS = 500


class DamagedCheckpoint(CrdtSyncError):
    """A part of a checkpoint is missing, or is not what was written."""


class Write(NamedTuple):
    """One key to write. With ``if_absent`` only if nobody has."""

    key: str
    value: Any  # what a key can hold
    meta: dict[str, Any] | None = None
    if_absent: bool = False


def pack(
    key: str,
    name: str,
    parts: str,
    data: bytes,
    *,
    meta: dict[str, Any] | None = None,
    if_absent: bool = False,
    **fields: Any,
) -> Iterator[Write]:
    """The keys of one record, its head last; ``parts`` is what keys of parts begin with.

    :raises TooLarge: it has more than ``RECORD_BYTES_MAX``.
    """
    if len(data) > RECORD_BYTES_MAX:
        raise TooLarge(f"{key} would have {len(data):,} bytes, and may have {RECORD_BYTES_MAX:,}: keep it elsewhere")
    if len(data) >= COMPRESS_BYTES and len(short := _compressed(data)) < 0.9 * len(data):
        data = short
        fields["zlib"] = True
    head = {**fields, "digest": blake2b(data, digest_size=16).digest()}
    if len(data) <= PART_BYTES:
        yield Write(key, {**head, "seal": _seal(name, head), "data": data}, meta, if_absent)
        return
    head["parts"] = -(-len(data) // PART_BYTES)
    for number, part in enumerate(part_keys(head, parts)):
        yield Write(part, data[number * PART_BYTES : (number + 1) * PART_BYTES])
    meta = {**(meta or {}), "parts": head["digest"].hex()}
    yield Write(key, {**head, "seal": _seal(name, head)}, meta, if_absent)


def _seal(name: str, head: Mapping[str, Any]) -> int:
    """Whoever changes a record on purpose can make it anew, as the digest: so few bits do, and 1 µs."""
    return zlib.crc32(ormsgpack.packb(head, option=ormsgpack.OPT_SORT_KEYS), zlib.crc32(name.encode()))


def _compressed(data: bytes) -> bytes:
    window, memory = (13, 6) if len(data) < SMALL_BYTES else (15, 8)
    compressor = zlib.compressobj(1, zlib.DEFLATED, window, memory)
    return compressor.compress(data) + compressor.flush()


def has_parts(head: Any) -> bool:
    """Whether a record is longer than its head."""
    count = head.get("parts") if isinstance(head, dict) else None
    is_bounded = isinstance(count, int) and 0 < count <= RECORD_BYTES_MAX // PART_BYTES + 1
    return is_bounded and isinstance(head.get("digest"), bytes)


def part_keys(head: Mapping[str, Any], parts: str) -> list[str]:
    """The keys of what a head does not hold itself."""
    return [f"{parts}{head['digest'].hex()}.{number}" for number in range(head["parts"])]


def unpack(key: str, name: str, head: Any, parts: str, found: Mapping[str, Any]) -> bytes:
    """The bytes of a record, of whose parts ``found`` has those that there are.

    :raises DamagedCheckpoint: they are not what was written.
    """
    if not isinstance(head, dict) or not isinstance(head.get("digest"), bytes):
        raise DamagedCheckpoint(f"{key} is not what a checkpointer has written there")
    said = head.copy()
    said.pop("data", None)
    seal = said.pop("seal", None)
    try:
        is_own = seal is None or seal == _seal(name, said)
    except TypeError:  # of what no checkpointer writes
        is_own = False
    if not is_own:
        raise DamagedCheckpoint(f"{key} holds what was not written there, or not so")
    names = part_keys(head, parts) if has_parts(head) else []
    missing = [name for name in names if not isinstance(found.get(name), bytes)]
    if missing:
        raise DamagedCheckpoint(f"{key} lacks {len(missing)} of its {len(names)} parts")
    data = b"".join(found[name] for name in names) if names else head.get("data")
    if not isinstance(data, bytes) or blake2b(data, digest_size=16).digest() != head["digest"]:
        raise DamagedCheckpoint(f"the bytes of {key} are not those that were written")
    return _inflated(key, data) if head.get("zlib") else data


def _inflated(key: str, data: bytes) -> bytes:
    inflater = zlib.decompressobj()
    try:
        inflated = inflater.decompress(data, RECORD_BYTES_MAX)
    except zlib.error as error:
        raise DamagedCheckpoint(f"{key} cannot be decompressed: {error}") from error
    if not inflater.eof:
        raise DamagedCheckpoint(f"{key} is not whole, or has more than {RECORD_BYTES_MAX:,} bytes")
    return inflated


def changes(writes: Iterable[Write]) -> Iterator[list[Write]]:
    """Writes in their order, as few changes as the bounds of a change allow."""
    change: list[Write] = []
    size = 0
    for write in writes:
        more = _size(write)
        if change and (size + more > CHANGE_BYTES or len(change) == CHANGE_OPERATIONS):
            yield change
            change, size = [], 0
        change.append(write)
        size += more
    if change:
        yield change


def _size(write: Write) -> int:
    data = write.value.get("data", b"") if isinstance(write.value, dict) else write.value
    return len(data) + len(write.key) + 500
