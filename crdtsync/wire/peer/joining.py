"""Joining: how a host that is no member yet becomes one.

The member does not know the new host's key, and somebody may sit between the two. So an invite carries a secret and the
pin of the inviter's key. For example, host-c has an invite of host-a. Host-c dials host-a, and host-a sends CHALLENGE
with a number that is used once. Host-c answers JOIN, with a proof that it knows the secret and a signature of its own
key. Host-a answers ADMITTED with the members of the cluster, or REFUSED with the reason.

Each message is one msgpack array in one websocket message, the first element its type:

=========  =======================================================================================
CHALLENGE  ``[1, {protocol, nonce}]``: the member begins
JOIN       ``[2, {protocol, invite, certificate, name, addresses, proof, signature}]``: the new node
ADMITTED   ``[3, {cluster, node, members: [{node, name, keys, addresses}, …]}]``: the member's answer
REFUSED    ``[4, code, message]``: or this one
=========  =======================================================================================

``proof`` shows that the new node knows the invite's secret, ``signature`` that it has the certificate's key. Both cover
the *binding*: the nonce, the pin of the member whose key this TLS connection has proven, the invite, the certificate,
and what the node says of itself. So none of it is of use on another connection, or to anybody else.
Unknown fields come from newer versions and are ignored.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b, sha256
from typing import Any

from crdtsync.errors import InvalidEncoding
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import check_items, pack, unpack
from crdtsync.wire.invites import CLUSTER_BYTES, INVITE_ID_BYTES, check_addresses
from crdtsync.wire.limits import NAME_RULE, PROTOCOL_VERSION, is_name, shown
from crdtsync.wire.parts import read_blob, read_count, read_text

JOIN_FRAME_BYTES_MAX = 8 * 1024 * 1024
JOIN_ITEMS_MAX = 200_000
CERTIFICATE_BYTES_MAX = 4096
NONCE_BYTES = 32
PROOF_BYTES = 32
SIGNATURE_BYTES_MAX = 128
REASON_CHARS_MAX = 1000


class Challenge(NamedTuple):
    """The member's first message."""

    nonce: bytes
    protocol: int = PROTOCOL_VERSION


class Join(NamedTuple):
    """The new node's request."""

    invite: bytes
    certificate: bytes
    name: str
    addresses: tuple[str, ...]
    proof: bytes = b""
    signature: bytes = b""
    protocol: int = PROTOCOL_VERSION


class Admitted(NamedTuple):
    """The new node is a member; ``members`` are records as ``_cluster`` keeps them, by node id."""

    cluster: bytes
    node: str
    members: Mapping[str, Mapping[str, Any]]


class NotAdmitted(NamedTuple):
    """It is not, and why."""

    code: str
    reason: str


JoinMessage = Challenge | Join | Admitted | NotAdmitted


def binding(nonce: bytes, pin: bytes, join: Join) -> bytes:
    """The bytes that ``proof`` and ``signature`` cover."""
    said = [b"crdtsync join 1", nonce, pin, join.invite, join.certificate, join.name, list(join.addresses)]
    return sha256(pack(said)).digest()


def secret_key(secret: bytes) -> bytes:
    """The hash that the inviter keeps of an invite's secret: the key of ``proof``."""
    return blake2b(secret, digest_size=32, person=b"crdtsync invite").digest()


def proof_of(key: bytes, bound: bytes) -> bytes:
    """The ``proof`` of a binding."""
    return hmac.digest(key, bound, "sha256")


def is_proof(key: bytes, bound: bytes, proof: bytes) -> bool:
    """Whether ``proof`` was made with ``key``; takes as long either way."""
    return hmac.compare_digest(proof_of(key, bound), proof)


def encode_join_message(message: JoinMessage) -> bytes:
    """The message as it goes into one websocket frame."""
    match message:
        case Challenge(nonce, protocol):
            return pack([1, {"protocol": protocol, "nonce": nonce}])
        case Join():
            return pack([2, {
                "protocol": message.protocol,
                "invite": message.invite,
                "certificate": message.certificate,
                "name": message.name,
                "addresses": list(message.addresses),
                "proof": message.proof,
                "signature": message.signature,
            }])  # fmt: skip
        case Admitted(cluster, node, members):
            return pack(
                [3, {"cluster": cluster, "node": node, "members": {name: dict(m) for name, m in members.items()}}]
            )
        case NotAdmitted(code, reason):
            return pack([4, code, reason])


def decode_join_message(data: bytes) -> JoinMessage:
    """:raises InvalidEncoding: not a message that any correct node could have sent."""
    if len(data) > JOIN_FRAME_BYTES_MAX:
        raise InvalidEncoding(f"a message of {len(data):,} bytes is over the limit of {JOIN_FRAME_BYTES_MAX:,}")
    check_items(data, JOIN_ITEMS_MAX)
    plain = unpack(data)
    try:
        return _DECODERS[plain[0]](plain)
    except InvalidEncoding:
        raise
    except (ValueError, TypeError, LookupError, AttributeError):
        raise InvalidEncoding("malformed message on joining") from None


def _challenge(plain: Sequence[Any]) -> Challenge:
    return Challenge(read_blob(plain[1]["nonce"], NONCE_BYTES, NONCE_BYTES), _protocol(plain[1]))


def _join(plain: Sequence[Any]) -> Join:
    fields = plain[1]
    if not is_name(fields["name"]):
        raise InvalidEncoding(f"{shown(fields['name'])} cannot name a node: {NAME_RULE}")
    return Join(
        read_blob(fields["invite"], INVITE_ID_BYTES, INVITE_ID_BYTES),
        read_blob(fields["certificate"], CERTIFICATE_BYTES_MAX, 1),
        fields["name"],
        check_addresses(fields["addresses"]),
        read_blob(fields["proof"], PROOF_BYTES, PROOF_BYTES),
        read_blob(fields["signature"], SIGNATURE_BYTES_MAX, 1),
        _protocol(fields),
    )


def _admitted(plain: Sequence[Any]) -> Admitted:
    fields = plain[1]
    members = fields["members"]
    if not all(read_text(node) and type(record) is dict for node, record in members.items()):
        raise ValueError("members")
    return Admitted(read_blob(fields["cluster"], CLUSTER_BYTES, CLUSTER_BYTES), read_text(fields["node"]), members)


def _refused(plain: Sequence[Any]) -> NotAdmitted:
    _, code, reason = plain[:3]
    if type(reason) is not str:
        raise ValueError("reason")
    return NotAdmitted(read_text(code), reason[:REASON_CHARS_MAX])


_DECODERS: dict[object, Callable[[Sequence[Any]], JoinMessage]] = {1: _challenge, 2: _join, 3: _admitted, 4: _refused}


def _protocol(fields: Mapping[str, Any]) -> int:
    return read_count(fields["protocol"], (1 << 31) - 1)
