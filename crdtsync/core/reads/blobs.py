"""Reads of blobs: a part of one, and how far an upload has come that was cut off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crdtsync.errors import InvalidRequest, Timeout, TooOld
from crdtsync.wire.blobs import check_upload, parts_key
from crdtsync.wire.codec import unpack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import shown

if TYPE_CHECKING:
    from crdtsync.core.reads.operations import Reader
    from crdtsync.core.replica.replica import Replica


def blob_read(reader: Reader, args: Mapping[str, Any]) -> object:
    """The request ``blob_read``: one part of an upload, also of a blob that has been removed since, while this node
    still has it.

    :raises TooOld: it has it no longer.
    """
    key, number = str(args.get("key")), args.get("part")
    if type(number) is not int or number < 0:
        raise InvalidRequest("part must be a whole number, counted from 0")
    parts, sub = parts_key(key, check_upload(args.get("upload"))), str(number)
    replica = reader.replica
    held = [entry for entry in replica.entries.of_sub(parts, sub) if entry.kind == Kind.MAP]
    held = held or [row.entry for row in replica.past.unsaved_of(parts) if row.entry.sub == sub]
    packed = held[-1].value if held else _dead(reader, parts, sub)
    if held:
        replica.values.check(held[-1:])
    if packed is None and reader.storage.has_backlog:
        raise Timeout("the daemon is still putting in order what a large change removed: try again in a moment")
    data = None if packed is None else unpack(packed)
    if type(data) is not bytes:
        raise TooOld(f"this node holds the bytes of that blob of {shown(key)} no longer")
    return {"value": data}


def _dead(reader: Reader, parts: str, sub: str) -> bytes | None:
    replica, storage = reader.replica, reader.storage
    spaces = (replica.id, *replica.checkpoints.recalled_numbers())
    row = next((row for space in spaces if (row := storage.dead_part(space, parts, sub)) is not None), None)
    values = replica.values
    if row is None:
        return None
    values.doubt(row.entry)
    packed = row.entry.value
    values.check([row.entry])
    return packed


def blob_parts(reader: Reader, args: Mapping[str, Any]) -> object:
    """The request ``blob_parts``: an unfinished upload of a blob with this hash that was begun on this node, if there
    is one, and the hashes of its parts from the first on.
    """
    key, sha256 = str(args.get("key")), args.get("sha256")
    if type(sha256) is not str:
        raise InvalidRequest("sha256 must be 64 hexadecimal digits")
    found = _unfinished(reader.replica, key, sha256[:16])
    return {"upload": None, "parts": []} if found is None else {"upload": found[0], "parts": found[1]}


def _unfinished(replica: Replica, key: str, beginning: str) -> tuple[str, list[bytes]] | None:
    best: tuple[str, list[bytes]] | None = None
    for upload, parts in replica.uploads.unfinished(key):
        own = {entry.sub: entry for entry in parts if replica.is_own(entry.writer)}
        if upload.startswith(beginning) and len(own) == len(parts):
            hashes = [own[str(number)].value_hash for number in range(len(own)) if str(number) in own]
            if best is None or len(hashes) > len(best[1]):
                best = upload, hashes
    return best
