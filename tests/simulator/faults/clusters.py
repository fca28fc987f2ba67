"""Faults in who belongs to a cluster, and in who may do and hold what."""

from __future__ import annotations

from crdtsync.core.access import requests, rules
from crdtsync.core.access.authorizer import Authorizer
from crdtsync.core.access.records import ACCESS
from crdtsync.core.cluster import admission
from crdtsync.core.cluster.admission import Admission
from crdtsync.core.cluster.invites import Invitations
from crdtsync.core.cluster.kept_members import KeptMembers
from crdtsync.core.cluster.membership import Membership, membership_of
from crdtsync.core.cluster.space_records import SpaceRecord
from tests.simulator.clusters.world import Host
from tests.simulator.faults.planting import Patches, cluster_fault


@cluster_fault("stays connected to")
def removed_nodes_are_not_cut_off(patch: Patches):
    patch.setattr(Admission, "cut", lambda self: None)


@cluster_fault("removed", "A node that tells its new address while it is removed is a member again")
def later_records_beat_a_removal(patch: Patches):
    def lenient(members, removed, told=()):
        members, removed = [*members], [*removed]
        later = {each.node: each.time_ms for each in members}
        final = [gone for gone in removed if later.get(gone.node, 0) <= gone.time_ms]
        return membership_of(members, final, told)

    patch.setattr(admission, "membership_of", lenient)


@cluster_fault("has forgotten the removal of", "A member deletes the record of a removal, and who was removed is back")
def a_removal_can_be_taken_back(patch: Patches):
    patch.setattr(KeptMembers, "see", lambda self, members, removed: None)


@cluster_fault("members", "A member deletes the records of others, and nobody knows them any more")
def what_members_were_is_forgotten(patch: Patches):
    see = KeptMembers.see
    patch.setattr(KeptMembers, "see", lambda self, members, removed: see(self, [], removed))


@cluster_fault("past a removal", "Who was removed may connect to whoever has not met it since")
def the_removed_may_connect(patch: Patches):
    refusal_of = Membership.refusal_of

    def lenient(self, pin):
        return "" if any(gone.keys[0][0] == pin for gone in self.removed.values()) else refusal_of(self, pin)

    patch.setattr(Membership, "refusal_of", lenient)
    patch.setattr(Admission, "cut", lambda self: None)
    patch.setattr(Host, "_check_removed", lambda self: None)  # which would see it first


@cluster_fault("lets in who must not be let in: used")
def an_invite_lets_in_many(patch: Patches):
    given = Invitations.give

    def generous(self, invite, key, ttl_ms, uses, now_ms):
        return given(self, invite, key, ttl_ms, uses + 1, now_ms)

    patch.setattr(Invitations, "give", generous)


@cluster_fault("leaks to", "A space for some nodes goes to all")
def everybody_may_hold_everything(patch: Patches):
    patch.setattr(SpaceRecord, "admits", lambda self, node: True)


@cluster_fault("lists the rules", "Of rules written at once the newer counts, and what was taken away is granted again")
def of_two_rules_the_newer_counts(patch: Patches):
    newer = ACCESS._replace(merge=lambda one, other: max(one, other, key=lambda record: (record.time_ms, record.by)))
    patch.setattr(rules, "ACCESS", newer)
    patch.setattr(requests, "ACCESS", newer)


@cluster_fault("with level", "What an agent may do is worked out once, and not again when rules change")
def rights_are_remembered_for_ever(patch: Patches):
    patch.setattr(Authorizer, "forget", lambda self: None)
