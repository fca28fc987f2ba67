"""This node's place in its cluster: who else belongs to it, letting new nodes in, and removing members.

Host c has an invite of host a. It dials a, and proves that it has its key and the invite's secret. Host a looks whether
the key was removed, the invite still lets somebody in, and the name is free, and then writes a record of the new member
into the space ``_cluster``. Every other member gets that record as it gets any write, and takes the key for c's from
then on. Removing c is such a record, too, and counts whatever else is written.

The shell proves keys and signatures, opens listeners and dials; what follows from that is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from crdtsync.core import alarm_catalogue
from crdtsync.core.cluster.invite_addresses import check_invite_address
from crdtsync.core.cluster.invites import Invitations
from crdtsync.core.cluster.kept_members import KeptMembers
from crdtsync.core.cluster.member_list import listing
from crdtsync.core.cluster.membership import (
    NOBODY,
    Member,
    Membership,
    RemovedMember,
    membership_of,
    merge_members,
    merge_removed,
    read_member,
    read_removed,
)
from crdtsync.core.cluster.node_alarms import EXPIRY_ALARM_MS, LetIn, tell_expiry
from crdtsync.core.cluster.node_names import names
from crdtsync.core.cluster.records import Cluster, RecordType
from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.core.peers.peer_state import Peer
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.core.sync.protocol import Sync
from crdtsync.errors import CrdtSyncError, InvalidEncoding, InvalidRequest, NoSpace, Refused
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.invites import INVITE_ID_BYTES, SECRET_BYTES, Invite, encode_invite
from crdtsync.wire.limits import CLUSTER_SPACE
from crdtsync.wire.peer.joining import (
    NONCE_BYTES,
    Admitted,
    Challenge,
    Join,
    NotAdmitted,
    binding,
    encode_join_message,
    secret_key,
)

if TYPE_CHECKING:
    from crdtsync.core.node_context import NodeContext

MEMBERS = RecordType("member", read_member, Member.plain, merge_members)
REMOVED = RecordType("removed", read_removed, RemovedMember.plain, merge_removed)
INVITES_META = "invite/"
TOLD_META = "told"
LISTEN_META = "listen"
NODE_ID_CHARS = 32
"""A node's id is the beginning of the pin of its first key."""
JOINING_CONNECTIONS_MAX = 64
"""Connections of nodes that ask to join, at once; then the oldest goes."""

N = TypeVar("N", Member, Peer)

REJOIN = "stop its daemon, move its data directory away, start it, and join by an invite of a member"


class Reach(NamedTuple):
    """How this node can be reached and known, as the shell says.

    ``keys``: its pin and certificate, and those of the next key while it changes keys. ``unreachable``: why no other
    host could reach it, if so. ``expires_ms``: when its certificate expires. ``operators``: the users who run this
    node. ``is_listening``: whether it accepts peers anywhere. ``full_mesh_nodes_max``: up to so many members each is to
    be connected to all others. ``is_starting``: all but the operators is not known yet.
    """

    keys: tuple[tuple[str, bytes], ...] = ()
    addresses: tuple[str, ...] = ()
    unreachable: str = ""
    expires_ms: int = 0
    operators: tuple[int, ...] = ()
    is_listening: bool = True
    full_mesh_nodes_max: int = 0
    is_starting: bool = False


class Admission:
    """See the module's description."""

    def __init__(self, node: NodeContext, cluster: Cluster, sync: Sync) -> None:
        self._node = node
        self._identity = node.identity
        self._cluster = cluster
        self._sync = sync
        self.membership: Membership = NOBODY
        self.reach = Reach()
        self.is_changed = True
        self.invitations = Invitations(node.storage.metas(INVITES_META))
        self._told = _read_told(node.storage.meta(TOLD_META))
        self._kept = KeptMembers(node.storage)
        self.left_addresses: set[str] = set()  # of members that were removed, at which nobody is looked for any more
        self._undone: list[Member | RemovedMember] = []
        self._told_removed = ""
        self._nonces: dict[int, bytes] = {}
        self.metas: dict[str, bytes | None] = {}
        cluster.on_change(MEMBERS, self._changed)
        cluster.on_change(REMOVED, self._changed)
        self._changed(())

    # -- members -----------------------------------------------------------------------------------------------

    @property
    def is_initialised(self) -> bool:
        """Whether this node belongs to a cluster of members, be it the only one."""
        return bool(self.membership.members)

    @property
    def is_member(self) -> bool:
        """Whether this node has not been removed."""
        return self._identity.node in self.membership.members

    def check_is_member(self, otherwise: str) -> None:
        """:raises Refused: it was removed, which is said with by whom and when; or else is no member, ``otherwise``."""
        self._check_not_removed()
        if not self.is_member:
            raise Refused(otherwise, "no_cluster")

    def _check_not_removed(self) -> None:
        gone = self.membership.removed.get(self._identity.node)
        reason = self._told_removed if gone is None else gone.reason
        if reason:
            raise Refused(f"{reason} ({REJOIN})", "removed")

    def told_removed(self, reason: str) -> None:
        """A member says that this node was removed while it was away: it will hear nothing else of the cluster."""
        self._told_removed = reason
        self._node.alarms.raise_once(
            alarm_catalogue.REMOVED, "", f"this node is no member of its cluster any more: {reason}"
        )

    def others(self) -> list[Member]:
        """All other members."""
        return [member for node, member in self.membership.members.items() if node != self._identity.node]

    def counted(self) -> tuple[int, Callable[[], list[Peer]]]:
        """How many nodes there are whose word counts for a write concern, and those of them that have been met.

        Members, whether or not they can be reached, and no longer once they are removed; without a cluster, every node
        ever met, and whoever is at the addresses of the settings.
        """
        peers = self._sync.peers
        if not self.is_initialised:
            return 1 + len(peers) + self._unmet(), lambda: list(peers.values())
        return len(self.membership.members), lambda: [peers[each.node] for each in self.others() if each.node in peers]

    def _unmet(self) -> int:
        """How many nodes at least there are at addresses where nobody has answered since the start: each may be one of
        those that were met before, elsewhere.
        """
        dials = self._sync.dials.values()
        silent = sum(not dial.node and not dial.is_self for dial in dials)
        if not silent:
            return 0
        answered = {dial.node for dial in dials}
        return max(0, silent - sum(node not in answered for node in self._sync.peers))

    def _changed(self, _names: object) -> None:
        cluster = self._cluster
        members = [member for name, member in cluster.all(MEMBERS) if member.node == name]
        removed = [gone for name, gone in cluster.all(REMOVED) if gone.node == name]
        self._kept.see(members, removed)
        self._undone = self._kept.undone(members, removed)
        told = {member.node: member for member in (*self._told, *self._kept.members.values())}
        before = self.membership
        self.membership = membership_of(members, self._kept.removed_with(removed), told.values())
        if before == self.membership:
            return
        self.is_changed = True
        for node in sorted(self.membership.members.keys() - before.members.keys()):
            self._node.log("member_joined", node=node, name=self.membership.members[node].name)
        for node in sorted(self.membership.removed.keys() - before.removed.keys()):
            gone = self.membership.removed[node]
            self._node.log("member_removed", level="warning", node=node, name=gone.name, by=gone.by)
        if self._identity.node in self.membership.removed:
            reason = self.membership.removed[self._identity.node].reason
            self._node.alarms.raise_once(
                alarm_catalogue.REMOVED, "", f"this node is no member of its cluster any more: {reason}"
            )
        self._check_name()
        self.cut()
        left = (before.members[node] for node in self.membership.removed.keys() & before.members.keys())
        self.left_addresses |= {address for member in left for address in member.addresses}
        self.forget_removed()

    def _check_name(self) -> None:
        """Two may have taken one name at two members at once, or by their settings."""
        namesake = self.membership.namesake(self._identity.node, self._identity.name) if self.is_member else ""
        if namesake:
            self._node.alarms.raise_once(
                alarm_catalogue.SAME_NAME,
                "",
                f"the member {namesake[:12]} is called {self._identity.name} too: commands that name it fit both; "
                "give one of the two another node_name, and restart it",
            )
        else:
            self._node.alarms.clear(alarm_catalogue.SAME_NAME, "")

    def cut(self) -> None:
        """Close the connections of those who may no longer be here."""
        sync = self._sync
        for link in list(sync.links.values()):
            node = link.node or link.peer_node
            gone = self.membership.removed.get(node)
            if gone is not None:
                sync.outbox.close(link, gone.reason)

    def forget_removed(self) -> None:
        """Know those no longer whose last connection has ended: nobody looks after them any more."""
        for node in self.membership.removed:
            self._sync.contacts.forget(node)
            self._sync.health.forget(node)

    def keep_records(self) -> None:
        """Say in ``_cluster`` what others must know of this node, once that has changed, and again what counts and
        somebody has taken away.
        """
        if self._node.read_only or not self.is_member:
            return
        mine = self.membership.members[self._identity.node]
        name, addresses, keys = self._identity.name, self.reach.addresses, self.reach.keys
        if keys and (mine.name, mine.addresses, mine.keys) != (name, addresses, keys):
            record = mine._replace(name=name, addresses=addresses, keys=keys, time_ms=self._node.now_ms)
            self._cluster.put(MEMBERS, mine.node, record)
        for lost in self._undone:
            self._put_back(lost)

    def _put_back(self, lost: Member | RemovedMember) -> None:
        cluster, is_removal = self._cluster, isinstance(lost, RemovedMember)
        who = cluster.remover(REMOVED if is_removal else MEMBERS, lost.node) or "the state that a peer sent"
        self._node.alarms.raise_once(
            alarm_catalogue.RECORD_UNDONE,
            lost.node,
            f"{who} took away the record that {lost.name} ({lost.node[:12]}) "
            f"{'was removed: it stays removed' if is_removal else 'is a member: it stays one'}, and this node has "
            "written the record again",
        )
        if isinstance(lost, RemovedMember):
            cluster.put(REMOVED, lost.node, lost)
        else:
            cluster.put(MEMBERS, lost.node, lost)

    def reached(self, reach: Reach) -> None:
        """The shell says how this node can be reached and known from now on."""
        self.reach = reach
        tell_expiry(self._node.alarms, reach.expires_ms, self._node.now_ms)

    def take_change(self) -> Membership | None:
        """The membership, if it has changed since the last call."""
        is_changed, self.is_changed = self.is_changed, False
        return self.membership if is_changed else None

    def without_next_key(self) -> list[str]:
        """The names of members that have not confirmed yet that they know this node's next key."""
        mine = self.membership.members.get(self._identity.node)
        if mine is None or mine.keys != self.reach.keys:
            return [self._identity.name]
        replica, peers = self._cluster.replica, self._sync.peers
        own = replica.writer
        vector = replica.vector if own is None else {own: replica.vector.get(own, 0)}
        self._sync.mesh.ask({CLUSTER_SPACE: vector})
        return [
            member.name
            for member in self.others()
            if member.node not in peers or not peers[member.node].holds(CLUSTER_SPACE, vector)
        ]

    def may_use_next_key(self) -> bool:
        """Whether every member knows this node's next key; or, where the certificate of the other one expires soon,
        one at least that can tell the rest.
        """
        late = self.without_next_key()
        is_urgent = 0 < self.reach.expires_ms < self._node.now_ms + EXPIRY_ALARM_MS
        is_told = self._identity.name not in late and len(late) < len(self.others())
        return not late or (is_urgent and is_told)

    # -- what agents ask for -----------------------------------------------------------------------------------

    @property
    def names_no_cluster(self) -> bool:
        """Whether the changes here are of no cluster, so that it takes another database to be in one."""
        return self._identity.cluster == LOOPBACK_CLUSTER

    def init(self) -> dict[str, Any]:
        """Begin a cluster with this node as its only member; if there is one, say which."""
        me = self._identity
        if self.names_no_cluster:
            raise Refused(
                "what this node holds was written under --insecure-loopback or by 0.1.0, and names no cluster: "
                "begin one with --merge to bring it along, or with --archive to put it aside",
                "not_empty",
            )
        self._check_not_removed()
        if not self.is_initialised:
            now_ms = self._node.now_ms
            own = Member(me.node, me.name, self.reach.keys, self.reach.addresses, now_ms, me.name, now_ms)
            self._cluster.put(MEMBERS, me.node, own)
        return self.summary()

    def joined_already(self, invite: Invite) -> dict[str, Any] | None:
        """The answer if this node is a member of the cluster that it is invited to; None: it is not.

        :raises Refused: it was one, and has been told that it was removed.
        """
        is_expired = 0 < self.reach.expires_ms <= self._node.now_ms  # it joins again, for others to learn its new one
        is_here = invite.cluster == self._identity.cluster and self.is_member and not is_expired
        if is_here:
            self._check_not_removed()
        return {**self.summary(), "already": True} if is_here else None

    def other_cluster(self) -> str:
        """The data that this node would leave behind by joining another cluster, in words; empty if there is none."""
        others = self.others()
        if not others:
            return ""
        names = ", ".join(member.name for member in others[:5]) + (", …" if len(others) > 5 else "")
        return f"this node belongs to a cluster with {len(others)} other members already ({names})"

    def keeps_data(self, invite: Invite) -> bool:
        """Whether this node holds data of the very cluster that it is invited to: another one's backup, put back."""
        me = self._identity
        pins = [pin for pin, _ in self.reach.keys[:1]]
        has_own_key = any(me.node in (pin[:NODE_ID_CHARS], self.membership.node_of(pin)) for pin in pins)
        return invite.cluster == me.cluster and has_own_key and me.node not in self.membership.removed

    def let_in(self, event: LetIn) -> None:
        """This node has joined the cluster that its data is of."""
        self.metas[TOLD_META] = event.told
        if event.listen is not None:
            self.metas[LISTEN_META] = event.listen
        self._told = _read_told(event.told)
        self._changed(())

    def summary(self) -> dict[str, Any]:
        """The answer of ``cluster init`` and ``cluster join``."""
        return {
            "cluster": self._identity.cluster.hex(),
            "node": self._identity.node,
            "members": len(self.membership.members),
            "addresses": list(self.reach.addresses),
        }

    def invite(self, ttl_ms: int, uses: int, addresses: tuple[str, ...], local: bool) -> dict[str, Any]:
        """A new invite.

        :raises InvalidRequest: one of ``addresses`` is none.
        :raises Refused: nobody could use it.
        """
        me = self._identity
        self.check_is_member("this node belongs to no cluster yet: crdtsync cluster init begins one")
        found = addresses or self.reach.addresses
        if addresses and not self.reach.is_listening:
            raise Refused(self.reach.unreachable or "this node does not listen for peers", "unreachable")
        for address in addresses:
            check_invite_address(address, is_local=local)
        if self.reach.unreachable and not addresses and not (local and found):
            raise Refused(self.reach.unreachable, "unreachable")
        invite, secret = self._node.random.randbytes(INVITE_ID_BYTES), self._node.random.randbytes(SECRET_BYTES)
        given = self.invitations.give(invite, secret_key(secret), ttl_ms, uses, self._node.now_ms)
        pin = bytes.fromhex(self.reach.keys[0][0])
        text = encode_invite(Invite(me.cluster, pin, invite, secret, given.expires_ms, found))
        self._node.log("invite_given", invite=invite.hex(), expires_ms=given.expires_ms, uses=uses)
        return {"invite": text, "expires_ms": given.expires_ms, "uses": uses, "addresses": list(found)}

    def remove(self, wanted: str) -> dict[str, Any]:
        """Remove a member, named by its name or by the beginning of its id, for good."""
        self._check_not_removed()  # nobody would hear of it
        members = self.membership.members.values()
        member = _named(wanted, members, "members")
        if member is None:
            gone = [g for g in self.membership.removed.values() if g.name == wanted or g.node.startswith(wanted)]
            if gone:
                return {"node": gone[0].node, "name": gone[0].name, "members": len(self.membership.members)}
            names = ", ".join(member.name for member in members)
            there = f"the members are {names}" if names else "this node belongs to no cluster yet"
            raise InvalidRequest(f"there is no member {wanted!r}: {there}")
        if member.node == self._identity.node:
            raise InvalidRequest("a node does not remove itself: ask another member to, then stop this one")
        record = RemovedMember(member.node, member.name, member.keys, self._node.now_ms, self._identity.name)
        self._cluster.put(REMOVED, member.node, record)
        return {"node": member.node, "name": member.name, "members": len(self.membership.members)}

    def forget(self, wanted: str) -> dict[str, Any]:
        """Know a node no longer that is no member and not connected, named as in :meth:`remove`."""
        peer = _named(wanted, self._sync.peers.values(), "nodes")
        if peer is None:
            raise InvalidRequest(f"this node knows no {wanted!r}: crdtsync peers shows whom it knows")
        if peer.node in self.membership.members:
            raise Refused(
                f"{peer.name} is a member: crdtsync cluster remove {peer.name} removes it on all hosts", "member"
            )
        if peer.link is not None:
            raise Refused(f"{peer.name} is connected: take its address out of both nodes' settings first", "connected")
        self._sync.contacts.forget(peer.node)
        self._sync.health.forget(peer.node)
        return {"node": peer.node, "name": peer.name}

    def node_names(self) -> dict[str, str]:
        """The names of all nodes that this one knows, by id."""
        met = {peer.node: peer.name for peer in self._sync.peers.values()}
        removed = {node: gone.name for node, gone in self.membership.removed.items()}
        members = {node: member.name for node, member in self.membership.members.items()}
        return removed | met | members | {self._identity.node: self._identity.name}

    def where(self, nodes: Collection[str] | None) -> str:
        """On which nodes something is, in words; of one that is not known here the beginning of its id."""
        known = self.node_names()
        return "all nodes" if nodes is None else names(sorted(known.get(node) or node[:12] for node in nodes))

    def listing(self) -> list[dict[str, Any]]:
        """All members and all who were, as ``cluster members`` shows them."""
        return listing(self, self._sync, self._identity.node)

    # -- letting new nodes in --------------------------------------------------------------------------------

    def join_opened(self, conn: int) -> None:
        """Somebody who has shown no certificate asks to join. If too many ask, the oldest goes: a node that may join is
        quick.
        """
        if len(self._nonces) >= JOINING_CONNECTIONS_MAX:
            oldest = next(iter(self._nonces))
            del self._nonces[oldest]
            reason = f"{JOINING_CONNECTIONS_MAX} nodes ask to join at once, and this one is slow: try again"
            self._sync.outbox.closes.append((oldest, reason))
        nonce = self._nonces[conn] = self._node.random.randbytes(NONCE_BYTES)
        self._sync.outbox.sends.append((conn, encode_join_message(Challenge(nonce))))

    def join_closed(self, conn: int) -> None:
        """It is gone."""
        self._nonces.pop(conn, None)

    def bound(self, conn: int, join: Join) -> bytes:
        """The bytes that the signature of a request to join must cover."""
        return binding(self._nonces.get(conn, b""), bytes.fromhex(self.reach.keys[0][0]), join)

    def join_asked(self, conn: int, join: Join, pin: str, is_signed: bool) -> None:
        """A node asks to be let in, on a connection that was challenged. ``is_signed``: the shell found that it has the
        key of its certificate, which is ``pin``.
        """
        nonce = self._nonces.get(conn)
        if nonce is None:
            return
        outbox = self._sync.outbox
        try:
            answer: Admitted | NotAdmitted = self._admit(join, pin, is_signed, nonce)
        except CrdtSyncError as error:
            answer = NotAdmitted(error.code, error.message)
            outbox.closes.append((conn, f"not let in: {error.message}"))
        outbox.sends.append((conn, encode_join_message(answer)))

    def _admit(self, join: Join, pin: str, is_signed: bool, nonce: bytes) -> Admitted:
        if not self.is_member:
            raise Refused("the inviting node belongs to no cluster any more", "no_cluster")
        if not is_signed:
            raise Refused("the signature is not that of the certificate's key", "bad_signature")
        if self._node.read_only:
            raise NoSpace(self._node.read_only)
        node = self.membership.node_of(pin) or pin[:NODE_ID_CHARS]
        bound = binding(nonce, bytes.fromhex(self.reach.keys[0][0]), join)
        gone = self.membership.refusal_of(pin) if not self.membership.node_of(pin) else ""
        if self.membership.is_removed(pin):
            raise Refused(gone, "removed")
        self.invitations.check(join, pin, bound, self._node.now_ms)
        is_new = self.membership.node_of(pin) != node
        namesake = self.membership.namesake(node, join.name) if is_new else ""
        if namesake:
            raise Refused(
                f"a member is called {join.name} already ({namesake[:12]}): start the new node with another name "
                "(--node-name, or node_name in its settings); or, if that member was this host once, remove it: "
                f"crdtsync cluster remove {namesake[:12]}",
                "name_taken",
            )
        self.invitations.use(join.invite, pin)
        me, now_ms = self._identity, self._node.now_ms
        if not is_new:
            self._renew(self.membership.members[node], pin, join.certificate)
        else:
            member = Member(node, join.name, ((pin, join.certificate),), join.addresses, now_ms, me.name, now_ms)
            self._cluster.put(MEMBERS, node, member)
            self._node.log("node_admitted", node=node, name=join.name, invite=join.invite.hex())
        records = {name: member.plain() for name, member in self.membership.members.items()}
        return Admitted(self._identity.cluster, self._identity.node, records)

    def _renew(self, member: Member, pin: str, certificate: bytes) -> None:
        """A member joins again with its key: the certificate that the others know has expired, perhaps."""
        keys = tuple((each, certificate if each == pin else known) for each, known in member.keys)
        if keys != member.keys:
            self._cluster.put(MEMBERS, member.node, member._replace(keys=keys, time_ms=self._node.now_ms))

    # -- keeping -----------------------------------------------------------------------------------------------

    def store(self, batch: WriteBatch) -> None:
        """Put what has changed of invites into the commit under way."""
        for invite, stored in sorted(self.invitations.changed.items()):
            batch.metas.append((INVITES_META + invite.hex(), stored))
        self.invitations.changed.clear()
        for metas in (self.metas, self._kept.metas):
            batch.metas.extend(sorted(metas.items()))
            metas.clear()

    def reload(self) -> None:
        """The commit failed: forget what was to be committed."""
        self.invitations = Invitations(self._node.storage.metas(INVITES_META))
        self._told = _read_told(self._node.storage.meta(TOLD_META))
        self._kept = KeptMembers(self._node.storage)


def _named(wanted: str, nodes: Iterable[N], what: str) -> N | None:
    """The one with this name, or else with an id that begins so; None: there is none."""
    nodes = list(nodes)
    found = [node for node in nodes if node.name == wanted]
    found = found or [node for node in nodes if len(wanted) >= 4 and node.node.startswith(wanted)]
    if len(found) > 1:
        ids = ", ".join(node.node[:12] for node in found)
        raise InvalidRequest(f"{len(found)} {what} are called {wanted}: name one by its id, of {ids}")
    return found[0] if found else None


def pack_told(members: Mapping[str, Mapping[str, Any]]) -> bytes:
    """The members that a new node was told of, as it keeps them."""
    return pack([dict(record) for _, record in sorted(members.items())])


def _read_told(stored: bytes | None) -> list[Member]:
    found = []
    for plain in unpack(stored) if stored else ():
        try:
            found.append(read_member(plain))
        except (InvalidEncoding, ValueError, KeyError, TypeError, AttributeError):
            continue
    return found
