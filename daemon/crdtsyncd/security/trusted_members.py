"""Whom this daemon trusts: the node's key, and the members' certificates as contexts for TLS."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from crdtsyncd.security.peer_identity import POLICY_VIOLATION, REMOVED_CODE, Credentials, PeerIdentity
from crdtsyncd.telemetry.event_log import log

from crdtsync.core.cluster.membership import NOBODY, Key, Membership

if TYPE_CHECKING:
    from crdtsyncd.security.node_key import NodeKey


class Trust:
    """See the module's description. ``is_plain``: no TLS at all, for daemons of one machine.

    The key is read by ``read_key`` when it is asked for, and what reads keys is imported then: agents do not need it.
    """

    def __init__(self, read_key: Callable[[], NodeKey], cluster: bytes, is_plain: bool) -> None:
        self._read_key = read_key
        self._key: NodeKey | None = None
        self.cluster = cluster
        self.is_plain = is_plain
        self.membership: Membership = NOBODY
        self.next_key: NodeKey | None = None
        self._credentials: Credentials | None = None

    @property
    def key(self) -> NodeKey:
        """The key in use.

        :raises StorageError: it cannot be read.
        """
        if self._key is None:
            self._key = self._read_key()
        return self._key

    @property
    def keys(self) -> list[NodeKey]:
        """The key in use, and the next one while it is changed."""
        return [self.key] if self.next_key is None else [self.key, self.next_key]

    def update(self, membership: Membership) -> None:
        """Trust these members from now on: with the next connection. Those that stand are for the node to cut."""
        self.membership = membership
        self._credentials = None

    def use(self, key: NodeKey, cluster: bytes) -> None:
        """Show another key, or belong to another cluster."""
        self._key = key
        self.cluster = cluster
        self._credentials = None

    def credentials(self) -> Credentials | None:
        """See :class:`crdtsyncd.peers.websocket_peer.PeerSink`."""
        if self.is_plain:
            return None
        if self._credentials is None:
            from crdtsyncd.security.tls import dialling_context, listening_context, member_name

            members = [key for member in self.membership.members.values() for key in member.keys]
            gone = [key for each in self.membership.removed.values() for key in each.keys]
            trusted, name = _certificates(members), member_name(self.cluster)
            listening = listening_context(self.key, trusted | _certificates(gone), name)
            self._credentials = Credentials(listening, dialling_context(self.key, trusted), name)
        return self._credentials

    def recognise(self, certificate: bytes | None, asked: str) -> PeerIdentity:
        """See :class:`crdtsyncd.peers.websocket_peer.PeerSink`."""
        from crdtsyncd.security.node_key import pin_of
        from crdtsyncd.security.tls import JOIN_NAME

        if asked == JOIN_NAME:
            return PeerIdentity("", joins=True)
        if certificate is None:
            return PeerIdentity("", refusal="it shows no certificate, so it is no member of this cluster")
        pin = pin_of(certificate)
        refusal, is_removed = self.membership.refusal_of(pin), self.membership.is_removed(pin)
        code = REMOVED_CODE if is_removed else POLICY_VIOLATION
        return PeerIdentity(self.membership.node_of(pin), refusal=refusal, code=code)


def _certificates(keys: Iterable[Key]) -> set[bytes]:
    """Those that are what their record says, so that a bad record takes nobody else's trust away."""
    from crdtsyncd.security.node_key import pin_of

    found = set()
    for pin, certificate in keys:
        try:
            if pin_of(certificate) != pin:
                raise ValueError("it has another key")
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=certificate)
            found.add(certificate)
        except (ValueError, ssl.SSLError) as error:
            log("certificate_ignored", level="warning", pin=pin, reason=str(error))
    return found
