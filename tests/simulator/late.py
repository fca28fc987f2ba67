"""Worlds in which rows come late to their tables, or only where somebody cannot go on without them."""

from __future__ import annotations

from tests.simulator.hosts import Host
from tests.simulator.world import World

LATE_S = 60.0


class Late(World):
    """They come a minute late, and then all that are there."""

    def bring_in(self, host: Host) -> None:
        assert host.store is not None
        if host.behind_s is None:
            host.behind_s = self.mono_s
        if self.mono_s >= host.behind_s + LATE_S:
            host.behind_s = None
            host.store.settle()
            host.store.bring_some_in()


class Never(World):
    """Nobody brings them there behind the turns."""

    def bring_in(self, host: Host) -> None:
        pass
