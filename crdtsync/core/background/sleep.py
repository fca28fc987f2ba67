"""Puts spaces to sleep that nobody has used for minutes.

A space is used by a request of an agent, and by a change, whoever made it. Peers that compare digests and frontiers
with it do not use it, and neither does who asks for ``status``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crdtsync.core.node_context import NodeContext

LOOK_INTERVAL_S = 67.0
"""Not that of retention's rounds, amid which most spaces cannot be put to sleep: the two must not stay in step."""
IDLE_LOOKS = 5
"""So often must a space have been found unused, one look after the other, before it is put to sleep."""
SLICE_SPACES = 32
"""So many are put to sleep in one turn: some ms."""
SLICE_INTERVAL_S = 0.05


class Sleeper:
    """Puts spaces of one node to sleep. ``due_s``: when :meth:`run` has something to do; ``put_to_sleep`` puts a space
    to sleep, unless something is under way there.
    """

    def __init__(self, node: NodeContext, put_to_sleep: Callable[[str], bool]) -> None:
        self._put_to_sleep = put_to_sleep
        self._node = node
        self._look_s = self.due_s = node.now_s + LOOK_INTERVAL_S

    def run(self) -> None:
        """Look which spaces are unused, and put some of them to sleep."""
        node = self._node
        if node.now_s < self.due_s:
            return
        awake = [replica for replica in node.replicas.values() if replica.asleep is None]
        if node.now_s >= self._look_s:
            self._look_s = node.now_s + LOOK_INTERVAL_S
            for replica in awake:
                replica.idle_looks += 1
        tired = [replica for replica in awake if replica.idle_looks >= IDLE_LOOKS]
        for replica in tired[:SLICE_SPACES]:
            if not self._put_to_sleep(replica.name):
                replica.idle_looks = IDLE_LOOKS - 1  # something is under way there: the next look finds it again
        self.due_s = self._look_s if len(tired) <= SLICE_SPACES else node.now_s + SLICE_INTERVAL_S
