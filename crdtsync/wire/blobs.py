"""Blobs: bytes of any length as parts, and the entry that names them.

Example: 1.2 MB under ``reports/q3.pdf`` are three parts, the fields ``0``, ``1`` and ``2`` of the map
``_blob/reports/q3.pdf/5f70bf18a086007c9e3d1a2b``. The last part of that key names the *upload*. When all parts are
there, ``reports/q3.pdf`` gets an entry that says size, hash and upload. Its author had seen the parts, so no node shows
the entry before it holds them: a blob is visible as a whole or not at all.

Each upload has a name of its own, so a deletion of the blob, which goes with the parts of what it had seen, cannot meet
the parts of another one.
"""

from __future__ import annotations

import re

from crdtsync.errors import InvalidEncoding, InvalidRequest
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.limits import KEY_BYTES_MAX, check_key, shown

BLOB_PREFIX = "_blob/"
PART_BYTES = 512 * 1024
"""Bytes of every part but the last one, which is shorter."""
PARTS_AT_ONCE = 2
"""Parts in one change: a MiB, so that no turn of the daemon has more to do than for a long value."""
MEDIA_TYPE_CHARS_MAX = 255
SIZE_MAX = 1 << 50

_UPLOAD = re.compile(r"[0-9a-f]{24}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Manifest(NamedTuple):
    """The entry of a blob: ``sha256`` in hex, ``upload`` what its parts are stored under."""

    size: int
    sha256: str
    media_type: str | None
    upload: str

    @property
    def parts(self) -> int:
        """How many parts it has."""
        return -(-self.size // PART_BYTES)

    def packed(self) -> bytes:
        """As the entry holds it."""
        return pack(self._asdict())


def manifest_of(packed: bytes | None) -> Manifest | None:
    """The opposite; None: somebody's careless bytes."""
    try:
        plain = unpack(packed or b"")
        return checked(plain["size"], plain["sha256"], plain["media_type"], plain["upload"])
    except (InvalidEncoding, InvalidRequest, LookupError, TypeError):
        return None


def checked(size: object, sha256: object, media_type: object, upload: object) -> Manifest:
    """A manifest of what a request says.

    :raises InvalidRequest: it cannot be one.
    """
    if type(size) is not int or not 0 <= size <= SIZE_MAX:
        raise InvalidRequest("size must be a whole number of bytes")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise InvalidRequest("sha256 must be 64 hexadecimal digits")
    if media_type is not None and (type(media_type) is not str or not 0 < len(media_type) <= MEDIA_TYPE_CHARS_MAX):
        raise InvalidRequest(f"media_type must be a string of 1 to {MEDIA_TYPE_CHARS_MAX} characters")
    return Manifest(size, sha256, media_type, check_upload(upload))


def check_upload(upload: object) -> str:
    """The name of an upload.

    :raises InvalidRequest: it cannot be one.
    """
    if not isinstance(upload, str) or not _UPLOAD.fullmatch(upload):
        raise InvalidRequest("upload must be 24 hexadecimal digits")
    return upload


def upload_name(sha256: str | None, random: bytes) -> str:
    """A name for a new upload: the beginning of the hash, if it is known before, and 4 random bytes."""
    return (sha256 or "0" * 64)[:16] + random[:4].hex()


def parts_key(key: str, upload: str) -> str:
    """Where the parts of an upload stand.

    :raises InvalidRequest: the key is none, or too long for a blob.
    """
    found = f"{BLOB_PREFIX}{check_key(key)}/{upload}"
    if len(found.encode()) > KEY_BYTES_MAX:
        beside = len(BLOB_PREFIX) + 25
        raise InvalidRequest(f"the key {shown(key)} is too long for a blob: use at most {KEY_BYTES_MAX - beside} bytes")
    return found


def upload_of(parts: str) -> tuple[str, str] | None:
    """The opposite: the key of the blob and the upload; None: these are no parts."""
    if not parts.startswith(BLOB_PREFIX):
        return None
    key, _, upload = parts[len(BLOB_PREFIX) :].rpartition("/")
    return (key, upload) if key and _UPLOAD.fullmatch(upload) else None


def subject_of(key: str) -> str:
    """The subject of a key: the blob if it is of a part, else the key itself."""
    found = upload_of(key)
    return key if found is None else found[0]
