"""TLS between daemons: 1.3 only, both sides show a self-signed certificate, and trust is a list of such certificates.

One context of either side serves every connection until the members change. The listener's asks for a certificate and
lets a connection without one through the handshake, since a new node that wants to join has none that is known: who
asks for the name :data:`JOIN_NAME` may speak of joining and of nothing else, and everybody else without a certificate
is told so and refused before any message of theirs is read. (A callback on the name could swap in a context that
demands one. OpenSSL takes the list of certificates from it, and keeps the mode of verification that the connection
began with: such a connection passes without a certificate, measured with 3.0.)
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from hashlib import sha256

from crdtsyncd.security.node_key import NodeKey

JOIN_NAME = "join.crdtsync"
_MEMBER_SUFFIX = ".member.crdtsync"
_NAME_ATTRIBUTE = "crdtsync_server_name"


def member_name(cluster: bytes) -> str:
    """The name that members of a cluster ask each other for; it tells clusters apart and gives none away."""
    return sha256(b"crdtsync cluster name" + cluster).hexdigest()[:32] + _MEMBER_SUFFIX


def listening_context(key: NodeKey, trusted: Iterable[bytes], name: str) -> ssl.SSLContext:
    """For accepting connections of those who show one of the ``trusted`` certificates (DER), or none at all."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_up(context, key, trusted)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.num_tickets = 0  # a resumed session would outlive the removal of a member
    context.sni_callback = _check_name(name)
    return context


def dialling_context(key: NodeKey, trusted: Iterable[bytes]) -> ssl.SSLContext:
    """For reaching nodes that show one of the ``trusted`` certificates (DER)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    _set_up(context, key, trusted)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def joining_context() -> ssl.SSLContext:
    """For reaching a node by an invite: the caller must compare its pin before it says anything."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def _set_up(context: ssl.SSLContext, key: NodeKey, trusted: Iterable[bytes]) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(key.certificate_path, key.key_path)
    chain = b"".join(trusted)
    if chain:
        context.load_verify_locations(cadata=chain)


def _check_name(own: str) -> Callable[[ssl.SSLObject, str | None, ssl.SSLContext], int | None]:
    """Note the name that was asked for, and turn away who looks for another cluster: its certificate says nothing."""

    def check(connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> int | None:
        setattr(connection, _NAME_ATTRIBUTE, name or "")
        is_foreign = name is not None and name.endswith(_MEMBER_SUFFIX) and name != own
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME if is_foreign else None

    return check


def name_asked_for(connection: ssl.SSLObject) -> str:
    """The name that the other side asked for when it connected."""
    return str(getattr(connection, _NAME_ATTRIBUTE, ""))


_PLAIN = "it speaks plain text, and only TLS is spoken here"
_REASONS = {
    "HTTP_REQUEST": _PLAIN,
    "HTTPS_PROXY_REQUEST": _PLAIN,
    "WRONG_VERSION_NUMBER": _PLAIN,
    "UNEXPECTED_MESSAGE": "it does not speak TLS as it should",
    "UNSUPPORTED_PROTOCOL": "it offers no TLS 1.3, and nothing older is spoken here",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it speaks no TLS 1.3, and nothing older is spoken here",
    "NO_SHARED_CIPHER": "it offers none of the ciphers of TLS 1.3",
    "NO_SHARED_GROUPS": "it offers no key exchange that is known here",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not know this node's certificate: this node is no member there",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it says that this node's certificate has expired: compare the clocks",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it refuses this node's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it refuses this node's certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a certificate of this node",
    "TLSV1_UNRECOGNIZED_NAME": "it belongs to another cluster",
    "CALLBACK_FAILED": "it belongs to another cluster",
}
"""What OpenSSL calls a failure, and what it means here."""
_UNKNOWN_CERTIFICATE = "its certificate is of no member of this cluster"
_VERIFY_REASONS = {
    9: "its certificate is not valid yet: compare the clocks of both hosts",
    10: "its certificate has expired: join it again by a new invite (crdtsync cluster join), or the clocks differ",
    18: _UNKNOWN_CERTIFICATE,
    19: _UNKNOWN_CERTIFICATE,
    20: _UNKNOWN_CERTIFICATE,
    21: _UNKNOWN_CERTIFICATE,
}
"""By the number of an X509_V_ERR (openssl-verification-options(1))."""


def reason_of(error: BaseException) -> str:
    """Why a TLS connection came to nothing, in words; empty if it was not for TLS."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, ssl.SSLCertVerificationError):
            return _VERIFY_REASONS.get(found.verify_code, f"its certificate is refused: {found.verify_message}")
        if isinstance(found, ssl.SSLError):
            return _REASONS.get(found.reason or "", f"TLS failed: {found.reason or found}")
        found = found.__cause__ or found.__context__
    return ""
