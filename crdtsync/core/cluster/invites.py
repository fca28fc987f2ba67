"""The invites that this node has given out, and whom they let in.

Invites are kept on this node alone, durably: if several nodes knew one that may be used once, it could be used once on
each side of a cut. The node stores only a hash of the secret. An invite that has been used stays bound to the keys that
used it until it expires, so that a node whose answer was lost gets it again.
"""

from __future__ import annotations

from collections.abc import Iterable

from crdtsync.errors import InvalidEncoding, InvalidRequest, QuotaExceeded, Refused
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.invites import INVITE_ID_BYTES
from crdtsync.wire.peer.joining import Join, is_proof

INVITES_MAX = 1000
"""Invites of a node that are out, or have expired in the last week."""
INVITE_TTL_MS_DEFAULT = 24 * 3600 * 1000
INVITE_TTL_MS_MAX = 30 * 24 * 3600 * 1000
INVITE_USES_MAX = 1000
"""Nodes that one invite lets in."""
KEPT_AFTER_EXPIRY_MS = 7 * 24 * 3600 * 1000
"""How long an expired invite is remembered, so that whoever comes late is told so."""


class Given(NamedTuple):
    """One invite that was given out. ``users`` are the pins that it let in."""

    invite: bytes
    key: bytes
    expires_ms: int
    uses: int
    users: tuple[str, ...] = ()


class Invitations:
    """See the module's description. ``changed`` collects those that must be stored, None for one that must go."""

    def __init__(self, stored: Iterable[bytes]) -> None:
        self.given = {one.invite: one for one in map(_decode, stored) if one is not None}
        self.changed: dict[bytes, bytes | None] = {}

    def give(self, invite: bytes, key: bytes, ttl_ms: int, uses: int, now_ms: int) -> Given:
        """Remember a new invite.

        :raises InvalidRequest: for so long, or so often, none is given.
        :raises QuotaExceeded: too many are out.
        """
        if not 1000 <= ttl_ms <= INVITE_TTL_MS_MAX:
            raise InvalidRequest("an invite holds from 1s to 30d")
        if not 1 <= uses <= INVITE_USES_MAX:
            raise InvalidRequest(f"an invite can be used 1 to {INVITE_USES_MAX:,} times")
        self.forget(now_ms)
        if len(self.given) >= INVITES_MAX:
            raise QuotaExceeded(
                f"{INVITES_MAX:,} invites of this node are out, the most that it keeps: let some expire"
            )
        given = Given(invite, key, now_ms + ttl_ms, uses)
        self._put(given)
        return given

    def check(self, join: Join, pin: str, bound: bytes, now_ms: int) -> None:
        """Whether the owner of ``pin`` may be let in by an invite. That is then to be told with :meth:`use`.

        :raises Refused: why it is not let in, with a code.
        """
        given = self.given.get(join.invite)
        if given is None or not is_proof(given.key, bound, join.proof):
            raise Refused(
                "the invite is not one of this node's, or its secret is another: it is forged, or this node has "
                "forgotten it; ask for a new one",
                "invite_unknown",
            )
        if pin in given.users:
            return
        if given.expires_ms <= now_ms:
            raise Refused("the invite has expired: ask for a new one (crdtsync cluster invite)", "invite_expired")
        if len(given.users) >= given.uses:
            raise Refused(
                "the invite has been used already, by another node: ask for a new one; if nobody else should have had "
                "it, look at crdtsync cluster members",
                "invite_used",
            )

    def use(self, invite: bytes, pin: str) -> None:
        """The owner of ``pin`` has been let in by an invite, which is one of these."""
        given = self.given[invite]
        if pin not in given.users:
            self._put(given._replace(users=(*given.users, pin)))

    def forget(self, now_ms: int) -> None:
        """Let go of those that expired long ago."""
        for invite, given in list(self.given.items()):
            if given.expires_ms + KEPT_AFTER_EXPIRY_MS <= now_ms:
                del self.given[invite]
                self.changed[invite] = None

    def _put(self, given: Given) -> None:
        self.given[given.invite] = given
        stored = [given.invite, given.key, given.expires_ms, given.uses, list(given.users)]
        self.changed[given.invite] = pack(stored)


def _decode(stored: bytes) -> Given | None:
    """None for one that a newer version wrote in another form: it lets nobody in."""
    try:
        invite, key, expires_ms, uses, users, *_ = unpack(stored)
        if type(invite) is not bytes or len(invite) != INVITE_ID_BYTES or type(key) is not bytes:
            return None
        return Given(invite, key, int(expires_ms), int(uses), tuple(str(user) for user in users))
    except (InvalidEncoding, ValueError, TypeError):
        return None
