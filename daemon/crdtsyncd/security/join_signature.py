"""Whether a node that asks to be let in holds the key that it names."""

from __future__ import annotations

from crdtsyncd.security.node_key import pin_of, verifies

from crdtsync.wire.peer.joining import Join


def pin_of_join(join: Join) -> str:
    """The pin of the certificate in a request to join; empty if that is none."""
    try:
        return pin_of(join.certificate)
    except ValueError:
        return ""


def is_signed(join: Join, bound: bytes) -> bool:
    """Whether whoever asks to join has the key of the certificate that it shows."""
    return verifies(join.certificate, join.signature, bound)
