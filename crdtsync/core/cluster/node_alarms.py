"""What the shell tells of being found and finding others: joining, addresses that cannot be had or lead astray."""

from __future__ import annotations

from dataclasses import dataclass

from crdtsync.core.alarms import Alarms
from crdtsync.core.cluster.membership import Membership, written

RENEWAL_MS = 90 * 24 * 3600 * 1000
"""So long before its certificate expires, a node begins to change its key by itself."""
EXPIRY_ALARM_MS = 30 * 24 * 3600 * 1000
"""From then on it waits no longer for members that do not know its new key; and if it could not do that, says so."""


@dataclass(frozen=True, slots=True)
class NotJoined:
    """This node has not joined by the invite of its settings, and why; no reason: it has, or is to no longer."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotMerged:
    """Where what this node held lies that has not come along into the cluster; empty: nowhere."""

    place: str


@dataclass(frozen=True, slots=True)
class LetIn:
    """A member has let this node into the cluster that its data is of.

    ``told``: the members, as they are kept; ``listen``: where this node listens from now on too, likewise.
    """

    told: bytes
    listen: bytes | None = None


@dataclass(frozen=True, slots=True)
class NoMetrics:
    """Why the figures cannot be asked for at the address of the settings; no reason: they can."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotListening:
    """Why this node does not accept peers where it was told to by a command; no reason: it does."""

    reason: str


@dataclass(frozen=True, slots=True)
class Misled:
    """At an address that a member says is its own, another one answers: ``found``, which may be this node."""

    node: str
    address: str
    found: str


class FleetNews:
    """See the module's description. Of each member the last false address is known until it has another."""

    def __init__(self, alarms: Alarms, node: str) -> None:
        self._alarms = alarms
        self._node = node
        self._misled: dict[str, Misled] = {}

    def not_joined(self, event: NotJoined) -> None:
        """Raise the alarm, or clear it; the reason may have become another."""
        self._alarms.clear("not_joined", "")
        if event.reason:
            self._alarms.raise_once("not_joined", "", f"this node has not joined by its invite: {event.reason}")

    def not_merged(self, event: NotMerged) -> None:
        """The same of what has stayed behind."""
        if event.place:
            what = f"what this node held before it joined is not all in the cluster: the rest is in {event.place}"
            self._alarms.raise_once("not_all_merged", "", what)
        else:
            self._alarms.clear("not_all_merged", "")

    def no_metrics(self, event: NoMetrics) -> None:
        """Raise the alarm, or clear it."""
        if event.reason:
            self._alarms.raise_now("no_metrics", "", event.reason)
        else:
            self._alarms.clear("no_metrics", "")

    def not_listening(self, event: NotListening) -> None:
        """Raise the alarm, or clear it."""
        if event.reason:
            self._alarms.raise_now("not_listening", "", f"{event.reason}. It is tried again")
        else:
            self._alarms.clear("not_listening", "")

    def misled(self, event: Misled) -> None:
        """Remember for the status that an address leads to another member."""
        self._misled[event.node] = event

    def misled_by(self, node: str, membership: Membership) -> str:
        """What is wrong with the addresses of a member, in words; empty if that is not known, or no longer so."""
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
        alarms.clear("certificate_expires", "")
    if message:
        alarms.raise_once("certificate_expires", "", message)
