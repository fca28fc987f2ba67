"""Opaque strings that users hold on to: tokens (a causal point), versions (what a reader saw of a key), dots."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from crdtsync.causality import HLC_MAX, WRITER_MAX, Dot, VersionVector, Writer, flatten, merge
from crdtsync.errors import InvalidEncoding, InvalidRequest
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.limits import CLUSTER_SPACE, archive_of, is_name, shown
from crdtsync.wire.parts import read_count, read_vector

TOKEN_PREFIX = "c1."
VERSION_PREFIX = "v1."
TOKEN_CHARS_MAX = 2 * 1024 * 1024
"""Characters of a token."""
VERSION_DOTS_MAX = 1000
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class Version(NamedTuple):
    """The dots that a reader was handed of one key.

    The exact ``dots``; where those would be many, ``vector`` covers them, and ``dots`` are what came on top.
    ``others`` were alive at the read but not handed over, whether or not the vector covers them too: a delete covers
    them, a write does not. ``hlc`` is the highest time among the dots: a write that supersedes them must be later.
    """

    dots: tuple[Dot, ...] = ()
    others: tuple[Dot, ...] = ()
    vector: Mapping[Writer, int] | None = None
    hlc: int = 0


def encode_token(points: Sequence[tuple[str, int, Mapping[Writer, int]]]) -> str:
    """Token naming, for each ``(space, epoch, version vector)``, all changes that the vector includes."""
    return token_text(TOKEN_PREFIX, [[space, epoch, flatten(vector)] for space, epoch, vector in points])


def decode_token(token: object) -> dict[str, tuple[int, VersionVector]]:
    """``{space: (epoch, version vector)}``. A single write is a vector with one entry.

    :raises InvalidRequest: not a token.
    """
    try:
        points = _decode(token, TOKEN_PREFIX)
        return {_name(space): (read_count(epoch), read_vector(flat)) for space, epoch, flat in points}
    except (TypeError, ValueError, LookupError):
        raise InvalidRequest(
            f"{shown(token)} is not a token: tokens come from writes and watches and start with {TOKEN_PREFIX!r}"
        ) from None


def encode_version(version: Version) -> str:
    """The version as users see it."""
    others = [_flat(version.others)] if version.others else []
    if version.vector is not None:
        return token_text(VERSION_PREFIX, [version.hlc, 1, flatten(version.vector), _flat(version.dots), *others])
    return token_text(VERSION_PREFIX, [version.hlc, 0, _flat(version.dots), *others])


def decode_version(text: object) -> Version:
    """:raises InvalidRequest: not a version."""
    try:
        hlc, form, flat, *rest = _decode(text, VERSION_PREFIX)
        if form == 1:
            dots, others = (_dots(rest[at]) if len(rest) > at else () for at in (0, 1))
            return Version(dots, others, read_vector(flat), read_count(hlc, HLC_MAX))
        if form != 0:
            raise ValueError(form)
        return Version(dots=_dots(flat), others=_dots(rest[0]) if rest else (), hlc=read_count(hlc, HLC_MAX))
    except (TypeError, ValueError, LookupError):
        raise InvalidRequest(
            f"{shown(text)} is not a version: versions come from reads and start with {VERSION_PREFIX!r}"
        ) from None


def joined(parts: Sequence[Version]) -> Version:
    """A version that covers all that either of them covers."""
    vector: VersionVector = {}
    for part in parts:
        merge(vector, part.vector or {})
    dots = tuple(dict.fromkeys(dot for part in parts for dot in part.dots if dot.seq > vector.get(dot.writer, 0)))
    others = dict.fromkeys(dot for part in parts for dot in part.others)
    unseen = tuple(dot for dot in others if not any(_hands_over(part, dot) for part in parts))
    has_vector = any(part.vector is not None for part in parts)
    return Version(dots, unseen, vector if has_vector else None, max(part.hlc for part in parts))


def _hands_over(version: Version, dot: Dot) -> bool:
    return dot in version.dots or (dot.seq <= (version.vector or {}).get(dot.writer, 0) and dot not in version.others)


def encode_dot(dot: Dot) -> str:
    """``writer.seq.n``."""
    return f"{dot.writer}.{dot.seq}.{dot.n}"


def decode_dot(text: object) -> Dot:
    """:raises InvalidRequest: not a dot."""
    try:
        if not isinstance(text, str) or len(text) > 60:
            raise ValueError(text)
        return _dot([int(part) for part in text.split(".")])
    except ValueError:
        raise InvalidRequest(f"{shown(text)} is not a dot: dots look like 123.4.0 and come from reads") from None


def _decode(text: object, prefix: str) -> list[Any]:
    if not isinstance(text, str) or not text.startswith(prefix) or len(text) > TOKEN_CHARS_MAX:
        raise ValueError(text)
    body = text[len(prefix) :]
    try:
        plain = unpack(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (binascii.Error, InvalidEncoding):
        raise ValueError(text) from None
    if not isinstance(plain, list):
        raise TypeError(text)
    return plain


def _name(name: object) -> str:
    if not is_name(name) and name != CLUSTER_SPACE and archive_of(name) is None:
        raise ValueError(name)
    return str(name)


def _flat(dots: Sequence[Dot]) -> list[int]:
    return [part for dot in dots for part in dot]


def _dots(flat: Sequence[object]) -> tuple[Dot, ...]:
    if len(flat) % 3 or len(flat) > 3 * VERSION_DOTS_MAX:
        raise ValueError(flat)
    return tuple(_dot(flat[i : i + 3]) for i in range(0, len(flat), 3))


def _dot(parts: Sequence[object]) -> Dot:
    writer, seq, n = parts
    return Dot(Writer(read_count(writer, WRITER_MAX)), read_count(seq), read_count(n, 10_000))


VERSIONS_KNOWN_MAX = 4096
"""Versions kept as the text that readers are told: 1.3 MB."""
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


@lru_cache(VERSIONS_KNOWN_MAX)
def known_version_text(hlc: int, writer: int, seq: int, n: int) -> str:
    """The same, of an entry that is read, and most often not for the first time."""
    return version_text(hlc, writer, seq, n)


def version_text(hlc: int, writer: int, seq: int, n: int = 0) -> str:
    """The version of a reader who was handed one entry alone, as users see it."""
    return token_text(VERSION_PREFIX, [hlc, 0, [writer, seq, n]])


def token_text(prefix: str, plain: list[Any]) -> str:
    """``plain`` as a token is written: packed, in base64 for URLs."""
    return prefix + binascii.b2a_base64(pack(plain), newline=False).rstrip(b"=").translate(_URL_SAFE).decode("ascii")
