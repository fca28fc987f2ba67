"""Invites: one line of text that lets a host into a cluster.

``crdtsync1.`` and, in base64url, the msgpack array ``[cluster, pin, invite, secret, expires_ms, [address, …]]`` with
the first four bytes of its BLAKE2b hash after it, so that a line that was cut or mistyped is told from a false one. The
pin is that of the inviter's key.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b

from crdtsync.errors import InvalidEncoding, InvalidRequest
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import check_items, pack, unpack
from crdtsync.wire.parts import read_blob, read_count

INVITE_PREFIX = "crdtsync1."
INVITE_CHARS_MAX = 4096
"""Characters of an invite."""
ADDRESSES_MAX = 16
"""Addresses of a member, and in an invite."""
ADDRESS_CHARS_MAX = 300
CLUSTER_BYTES = 16
PIN_BYTES = 32
INVITE_ID_BYTES = 12
SECRET_BYTES = 24
_CHECK_BYTES = 4


class Invite(NamedTuple):
    """A new node needs this to find a cluster, to know it, and to be let in. ``pin`` is that of the inviter's key."""

    cluster: bytes
    pin: bytes
    invite: bytes
    secret: bytes
    expires_ms: int
    addresses: tuple[str, ...]


def encode_invite(invite: Invite) -> str:
    """The invite as one word."""
    fields = [invite.cluster, invite.pin, invite.invite, invite.secret, invite.expires_ms, list(invite.addresses)]
    plain = pack(fields)
    return INVITE_PREFIX + urlsafe_b64encode(plain + _check(plain)).decode().rstrip("=")


def decode_invite(text: object) -> Invite:
    """:raises InvalidRequest: it is no invite, or not a whole one."""
    word = text.strip() if isinstance(text, str) else ""
    if not word.startswith(INVITE_PREFIX) or len(word) > INVITE_CHARS_MAX:
        raise InvalidRequest(
            f"that is no invite: an invite is one word that starts with {INVITE_PREFIX!r}; "
            "crdtsync cluster invite prints one"
        )
    try:
        return _decode(word.removeprefix(INVITE_PREFIX))
    except (ValueError, TypeError, InvalidEncoding):
        raise InvalidRequest(
            "the invite is damaged: a part of it is missing, or was changed; copy all of it, from its first "
            "letter to its last"
        ) from None


def _decode(encoded: str) -> Invite:
    try:
        data = urlsafe_b64decode(encoded.encode("ascii") + b"=" * (-len(encoded) % 4))
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError("base64") from error
    plain, check = data[:-_CHECK_BYTES], data[-_CHECK_BYTES:]
    if _check(plain) != check:
        raise ValueError("checksum")
    check_items(plain, 64)
    cluster, pin, invite, secret, expires_ms, addresses, *_ = unpack(plain)
    return Invite(
        read_blob(cluster, CLUSTER_BYTES, CLUSTER_BYTES),
        read_blob(pin, PIN_BYTES, PIN_BYTES),
        read_blob(invite, INVITE_ID_BYTES, INVITE_ID_BYTES),
        read_blob(secret, SECRET_BYTES, SECRET_BYTES),
        read_count(expires_ms),
        check_addresses(addresses),
    )


def check_addresses(addresses: object) -> tuple[str, ...]:
    """Addresses as peers name them.

    :raises ValueError: not a short list of short strings.
    """
    if not isinstance(addresses, list | tuple) or len(addresses) > ADDRESSES_MAX:
        raise ValueError("addresses")
    for address in addresses:
        if type(address) is not str or not 1 <= len(address) <= ADDRESS_CHARS_MAX or not address.isprintable():
            raise ValueError("address")
    return tuple(addresses)


def _check(plain: bytes) -> bytes:
    return blake2b(plain, digest_size=_CHECK_BYTES).digest()
