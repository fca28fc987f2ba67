"""Blob: bytes of any length. The entry says what they are; the bytes are the parts that it names.

``blob_write`` stores a part, under a reserved key (:mod:`crdtsync.wire.blobs`); ``blob_set`` writes the entry when all
parts are there. The entries of a key are siblings as those of a register are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.core.kinds import register
from crdtsync.core.kinds.arguments import Arguments, Result
from crdtsync.core.kinds.base import Rules, always
from crdtsync.errors import InvalidRequest, TooLarge
from crdtsync.wire.blobs import PART_BYTES, Manifest, check_upload, checked, parts_key
from crdtsync.wire.change import Op, value_hash
from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import shown

if TYPE_CHECKING:
    from crdtsync.core.kinds.draft import Draft


def _write(draft: Draft, args: Arguments) -> Result:
    """Store one part. One that is there already is left as it is."""
    number, data = args.get("part"), args.get("value")
    if type(number) is not int or number < 0:
        raise InvalidRequest("part must be a whole number, counted from 0")
    if type(data) is not bytes or not 0 < len(data) <= PART_BYTES:
        raise InvalidRequest(f"value must be 1 to {PART_BYTES:,} bytes")
    key = parts_key(str(args.get("key")), check_upload(args.get("upload")))
    _check_size(draft, number * PART_BYTES + len(data))
    value, sub = pack(data), str(number)
    hashed, held = value_hash(value), draft.part(key, Kind.MAP, sub)
    if all(entry.value_hash != hashed for entry in held):
        draft.add(Op(key, sub, Kind.MAP, value, hashed, tuple(entry.dot for entry in held), None))
    return {}


def _set(draft: Draft, args: Arguments) -> Result:
    """Show a blob of which all parts are there."""
    key = str(args.get("key"))
    manifest = checked(*(args.get(name) for name in Manifest._fields))
    _check_size(draft, manifest.size)
    _check_whole(draft, key, manifest)
    return register.write(draft, args, Kind.BLOB, manifest.packed(), "put_blob")


def _check_size(draft: Draft, size: int) -> None:
    bytes_max = draft.space.uploads.bytes_max
    if size > bytes_max:
        raise TooLarge(f"the blob has {size:,} bytes or more; this daemon takes {bytes_max:,} (blob_bytes_max)")


def _check_whole(draft: Draft, key: str, manifest: Manifest) -> None:
    """Refuse an entry that would show less than it says, or parts that are not its author's to show.

    The removal of an entry removes its parts, so no two entries may name the same ones. The node that wrote the parts
    may clear them away while no entry names them, so no other node may name them.
    """
    space = draft.space
    parts = parts_key(key, manifest.upload)
    if manifest.upload in space.uploads.named(draft.held(key)):
        raise InvalidRequest(f"the upload {manifest.upload} of {shown(key)} was finished before: put the blob again")
    for number in range(manifest.parts):
        held = draft.part(parts, Kind.MAP, str(number))
        is_last = number == manifest.parts - 1
        size = manifest.size - number * PART_BYTES if is_last else PART_BYTES
        if len(held) != 1 or held[0].size_bytes != _packed_bytes(size) or not space.is_own(held[0].writer):
            raise InvalidRequest(f"part {number} of the upload {manifest.upload} of {shown(key)} is missing here")


def _packed_bytes(size: int) -> int:
    """How long so many bytes are as a value."""
    return size + (2 if size < 1 << 8 else 3 if size < 1 << 16 else 5)


RULES: Rules = Rules(
    register.RULES.split,
    register.RULES.read,
    is_inline=always,
    writes={"blob_write": _write, "blob_set": _set},
    is_conflicting=register.RULES.is_conflicting,
)
