"""Puts spaces to sleep that nobody has used for minutes.

A space is used by a request of an agent, and by a change, whoever made it. Peers that compare digests and frontiers
with it do not use it, and neither does who asks for ``status``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from crdtsync.core.replica.replica import Replica

LOOK_INTERVAL_S = 67.0
"""Not that of retention's rounds, amid which most spaces cannot be put to sleep: the two must not stay in step."""
IDLE_LOOKS = 5
"""So often must a space have been found unused, one look after the other, before it is put to sleep."""
SLICE_SPACES = 32
"""So many are put to sleep in one turn: some ms."""
SLICE_INTERVAL_S = 0.05


class Host(Protocol):
    """What this needs of its node."""

    now_s: float
    replicas: dict[str, Replica]

    def put_to_sleep(self, name: str) -> bool:
        """Put a space to sleep, unless something is under way there."""


class Sleeper:
    """Of one node. ``due_s``: when :meth:`run` has something to do."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._look_s = self.due_s = host.now_s + LOOK_INTERVAL_S

    def run(self) -> None:
        """Look which spaces are unused, and put some of them to sleep."""
        host = self._host
        if host.now_s < self.due_s:
            return
        awake = [replica for replica in host.replicas.values() if replica.asleep is None]
        if host.now_s >= self._look_s:
            self._look_s = host.now_s + LOOK_INTERVAL_S
            for replica in awake:
                replica.idle_looks += 1
        tired = [replica for replica in awake if replica.idle_looks >= IDLE_LOOKS]
        for replica in tired[:SLICE_SPACES]:
            if not host.put_to_sleep(replica.name):
                replica.idle_looks = IDLE_LOOKS - 1  # something is under way there: the next look finds it again
        self.due_s = self._look_s if len(tired) <= SLICE_SPACES else host.now_s + SLICE_INTERVAL_S
