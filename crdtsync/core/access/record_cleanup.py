"""Records of rules and agents that no longer say anything are removed, once there are many.

A record of a right that was taken away has to stay while some member may not have seen it: a member that knows an older
one could write on from there, and the right would be back. Once every member has confirmed it, and a day has passed,
whatever they write comes after it. With it goes the count of how often the right was granted and taken away. So if a
member that has not heard of the record's end grants anew, while another, that has, grants and takes away, the grant
stands in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from crdtsync.causality import VersionVector
from crdtsync.core.access.records import ACCESS, AGENTS, rule_of
from crdtsync.core.access.requirements import Right
from crdtsync.core.access.rules import EVERYTHING, SOCKET, Rulebook
from crdtsync.core.cluster.archives import ARCHIVE_AGE_MS_MAX
from crdtsync.core.cluster.records import RecordType
from crdtsync.errors import QuotaExceeded
from crdtsync.wire.limits import CLUSTER_SPACE

if TYPE_CHECKING:
    from crdtsync.core.cluster.records import Cluster
    from crdtsync.core.cluster.spaces import Spaces
    from crdtsync.core.node_context import NodeContext
    from crdtsync.core.sync.protocol import Sync

RULES_MAX = 10_000
"""Records of rules in the cluster, those of revoked ones that could not be removed yet too, when one more is made."""
AGENTS_MAX = 10_000
"""Agents with keys, likewise."""
REST_MS = 24 * 3600 * 1000
"""How long ago something must have been taken away."""
REMOVED_AT_ONCE_MAX = 500
"""Records that go before one more is made: some ms."""

LOOK_INTERVAL_S = 10.0
"""To look at 10,000 records takes some 100 ms."""

Useless = Callable[[str, Any], bool]


class Compactor:
    """Makes room for one more record."""

    def __init__(self, node: NodeContext, cluster: Cluster, spaces: Spaces, sync: Sync, rules: Rulebook) -> None:
        self._node = node
        self._cluster = cluster
        self._spaces = spaces
        self._sync = sync
        self._rules = rules
        self._next_s: dict[str, float] = {}

    def check_room(self, kind: RecordType[Any], name: str) -> None:
        """Whether there is room for the record of this name, after what is of no use has gone.

        :raises QuotaExceeded: no.
        """
        cluster, now_s = self._cluster, self._node.now_s
        if cluster.get(kind, name) is not None:
            return
        names = cluster.names(kind)
        most = {ACCESS.name: RULES_MAX, AGENTS.name: AGENTS_MAX}[kind.name]
        count = len(names)
        if count >= most // 2 and now_s >= self._next_s.get(kind.name, 0.0):
            self._next_s[kind.name] = now_s + LOOK_INTERVAL_S
            useless = {ACCESS.name: self._is_useless_rule, AGENTS.name: self._is_useless_agent}[kind.name]
            count -= self._compact(kind, names, useless)
        if count >= most:
            what = {ACCESS.name: "rules", AGENTS.name: "agents with keys"}[kind.name]
            raise QuotaExceeded(
                f"the cluster has {most:,} {what} already, with those that were revoked less than a day ago, or of "
                "which some member has not heard"
            )

    def _compact(self, kind: RecordType[Any], names: list[str], useless: Useless) -> int:
        """Remove records that say nothing. How many there were."""
        cluster, count = self._cluster, 0
        wanted: VersionVector = {}
        for name in names:
            record = cluster.get(kind, name)
            if record is None or not useless(name, record):
                continue
            seen = cluster.point_of(kind, name)
            if not self._is_seen_by_all(seen):
                wanted.update(seen)
                continue
            cluster.remove(kind, name)
            count += 1
            if count >= REMOVED_AT_ONCE_MAX:
                break
        if wanted:  # of nodes that are reached over others it is known only what somebody has asked for
            self._sync.mesh.ask({CLUSTER_SPACE: wanted})
        return count

    def _is_useless_rule(self, name: str, record: Any) -> bool:
        space, who, text = rule_of(name) or ("", "", "")
        making = self._rules.making(space)
        if making is not None and record.epoch < making:
            made = self._spaces.record(space)
            return made is not None and self._is_old(made.time_ms, ARCHIVE_AGE_MS_MAX)  # its archive is gone too
        if record.epoch != making or (who, text) == (SOCKET, EVERYTHING):  # the built-in rule would hold again
            return False
        return record.right is Right.NONE and self._is_old(record.time_ms, REST_MS)

    def _is_useless_agent(self, _name: str, record: Any) -> bool:
        return not record.exists and self._is_old(record.time_ms, REST_MS)

    def _is_old(self, time_ms: int, age_ms: int) -> bool:
        return time_ms + age_ms <= self._node.now_ms

    def _is_seen_by_all(self, point: VersionVector) -> bool:
        count, met = self._spaces.holders([CLUSTER_SPACE]).counted()
        return sum(peer.holds(CLUSTER_SPACE, point) for peer in met()) >= count - 1
