"""Which members this daemon dials: all of a small cluster, some of a large one, and others for those who are gone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from time import monotonic

from crdtsync.core.peers.dial_choice import FULL_MESH_NODES_MAX, chosen_of_groups

ANSWER_TIMEOUT_S = 5.0
"""How long a member may not be connected before the next one in the ring is dialled too."""


class DialPlanner:
    """The choice follows from the members, and from which of them have not answered for a while."""

    def __init__(
        self,
        is_linked: Callable[[str], bool],
        clock: Callable[[], float] = monotonic,
        full_max: int = FULL_MESH_NODES_MAX,
    ) -> None:
        """``full_max``: up to so many nodes, this one included, all are dialled."""
        self._full_max = full_max
        self._is_linked = is_linked
        self._clock = clock
        self._unlinked_s: dict[str, float] = {}
        self.is_partial = False

    def choose(self, me: str, reachable: Collection[str], groups: Iterable[Collection[str]]) -> set[str]:
        """Whom the node ``me`` dials of the members that can be reached.

        ``groups``: nodes that must be connected among themselves, such as those of a space.
        """
        members = {*reachable} - {me}
        self.is_partial = len(members) >= self._full_max
        if not self.is_partial:
            self._unlinked_s.clear()
            return members
        now_s = self._clock()
        for node in [node for node in self._unlinked_s if node not in members or self._is_linked(node)]:
            del self._unlinked_s[node]
        sets = [members, *(members & {*group} for group in groups)]
        wanted = chosen_of_groups(me, sets, self._is_usable, self._full_max)
        for node in wanted:
            if not self._is_linked(node):
                self._unlinked_s.setdefault(node, now_s)
        return wanted

    def _is_usable(self, node: str) -> bool:
        since_s = self._unlinked_s.get(node)
        return since_s is None or self._clock() - since_s < ANSWER_TIMEOUT_S
