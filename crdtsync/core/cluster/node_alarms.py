"""Alarms about a node's place in the cluster: let in, addresses that lead astray, a certificate that expires."""

from __future__ import annotations

from crdtsync.core.alarm_catalogue import CERTIFICATE_EXPIRES
from crdtsync.core.alarms import Alarms
from crdtsync.core.cluster.membership import Membership, written
from crdtsync.named_tuple import NamedTuple

RENEWAL_MS = 90 * 24 * 3600 * 1000
"""So long before its certificate expires, a node begins to change its key by itself."""
EXPIRY_ALARM_MS = 30 * 24 * 3600 * 1000
"""From then on it waits no longer for members that do not know its new key; and if it could not do that, says so."""


class LetIn(NamedTuple):
    """A member has let this node into the cluster that its data is of.

    ``told``: the members, as they are kept; ``listen``: where this node listens from now on too, likewise.
    """

    told: bytes
    listen: bytes | None = None


class Misled(NamedTuple):
    """At an address that a member says is its own, another one answers: ``found``, which may be this node."""

    node: str
    address: str
    found: str


class FalseAddresses:
    """Addresses at which another node answers; of each member the last one is known until it has another."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._misled: dict[str, Misled] = {}

    def misled(self, event: Misled) -> None:
        """Remember for the status that an address leads to another member."""
        self._misled[event.node] = event

    def misled_by(self, node: str, membership: Membership) -> str:
        """The fault of a member's addresses, in words; empty if none is known, or no longer."""
        event, member = self._misled.get(node), membership.members.get(node)
        if event is None:
            return ""
        if member is None or event.address not in member.addresses:
            del self._misled[node]
            return ""
        found = membership.members.get(event.found)
        whose = "this node itself" if event.found == self._node else event.found[:12] if found is None else found.name
        return f"at {event.address}, which {member.name} says is its address, {whose} answers: correct it there"


def tell_expiry(alarms: Alarms, expires_ms: int, now_ms: int) -> None:
    """Whether the certificate of this node must be renewed soon, or can be no more; 0: there is none."""
    date, message = written(expires_ms), ""
    if expires_ms and expires_ms <= now_ms:
        message = (
            f"the certificate of this node has expired ({date}): no member lets it connect any more. If the clock is "
            "right, crdtsync cluster join with a new invite of a member renews it, and all that is here stays"
        )
    elif expires_ms and expires_ms < now_ms + EXPIRY_ALARM_MS:
        message = f"the certificate of this node expires on {date}: renew it, or no member lets it connect from then on"
    if all(alarm.message != message for alarm in alarms.of("") if alarm.code == "certificate_expires"):
        alarms.clear(CERTIFICATE_EXPIRES, "")
    if message:
        alarms.raise_once(CERTIFICATE_EXPIRES, "", message)
