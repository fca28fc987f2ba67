"""Watches the disk, the memory and how full everything is, and gives back what nothing needs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from crdtsyncd.loop.connections import Connections
from crdtsyncd.loop.process import MemoryGuard, free_memory_bytes, shell_usages
from crdtsyncd.storage.disk_guard import DiskGuard
from crdtsyncd.storage.wal_checkpoint import StoreOwner, WalCheckpoints
from crdtsyncd.telemetry.event_log import log
from crdtsyncd.telemetry.growth_rate import Growth
from crdtsyncd.telemetry.turn_times import TurnTimes

from crdtsync.core.alarm_catalogue import LOOP_HELD
from crdtsync.core.diagnostics.usage import Usage
from crdtsync.core.interface import DiskSpace, Event, HostAlarm, LookAtUsage, PeerFlowed, Room
from crdtsync.errors import StorageError

if TYPE_CHECKING:
    from crdtsyncd.config.model import Config

INTERVAL_S = 1.0
FLOW_BYTES_MIN = 1024
"""Over a connection in one way or the other, between two looks a second apart: slower is as good as nothing."""
USAGE_INTERVAL_S = 10.0
"""How often it is looked at how full everything is."""
DISK_INTERVAL_S = 0.02
"""How often free space is looked at while there are commits: a fast disk takes some MB in that time."""
RELEASE_INTERVAL_S = 0.05
SUM_INTERVAL_S = 0.02


class House(StoreOwner, Protocol):
    """The driver, as housekeeping needs it."""

    times: TurnTimes

    def feed(self, event: Event) -> None:
        """Step the node, and see to what follows."""

    def note(self, event: Event) -> None:
        """Step the node with something that nothing follows from."""

    def document_memory_bytes(self) -> int:
        """The memory of the documents that are loaded."""

    def sum_some(self) -> bool:
        """Go on with summing up digests that are not known since the start; whether there is more."""

    def loop_held(self) -> str:
        """The work that has held the loop too long again and again; empty: none."""

    def look_at_quarantine(self) -> None:
        """Let go of what is kept aside for no reason any more, and raise or clear the alarm."""


class Housekeeping:
    """:meth:`run` does it from time to time, :meth:`mind_disk` after each commit."""

    def __init__(self, house: House, config: Config, connections: Connections, checkpoints: WalCheckpoints) -> None:
        self._house = house
        self._config = config
        self._connections = connections
        self._checkpoints = checkpoints
        self._disk = DiskGuard(config.data_dir, config.ballast_bytes, config.free_bytes_min)
        self._memory = MemoryGuard()
        self._growth = Growth()
        self._disk_due_s = 0.0
        self._held = ""
        self.refusal = ""
        """Why writes are refused; empty: they are not."""

    async def run(self) -> None:
        """Runs until cancelled."""
        work = self._house.times.work
        check_due_s = usage_due_s = 0.0
        while True:
            if time.monotonic() >= check_due_s:
                check_due_s = time.monotonic() + INTERVAL_S
                with work("disk"):
                    self._note_flow()
                    self.check_disk()
                    self._note_room()
                await self._memory.check(self._house.document_memory_bytes())
            if time.monotonic() >= usage_due_s:
                usage_due_s = time.monotonic() + USAGE_INTERVAL_S
                with work("usage"):
                    self._look_at_usage()
            with work("digests"):
                has_sums = self._house.sum_some()
            if has_sums:
                await self._sleep(SUM_INTERVAL_S)
                continue
            has_more = self._release_space()
            if not has_more and self._house.store.is_wiping_due and not self._house.is_over:
                await self._checkpoints.wipe()
            await self._sleep(RELEASE_INTERVAL_S if has_more else INTERVAL_S)

    async def _sleep(self, delay_s: float) -> None:
        """Tells how late things are, also when there are no turns."""
        times = self._house.times
        due_s, held_before_s = time.monotonic() + delay_s, times.held_s
        await asyncio.sleep(delay_s)
        times.came_late(due_s, held_before_s)

    def usages(self) -> Iterable[Usage]:
        """How full that is which the process itself keeps in bounds."""
        connections = self._connections
        return shell_usages(self._config, self._house.store, connections.agents.values(), len(connections.peers))

    def mind_disk(self) -> None:
        """There was a commit: look at the room that is left, for writes may fill it faster than :meth:`run` looks."""
        if self._disk.has_reserve and time.monotonic() >= self._disk_due_s:
            self.check_disk()

    def check_disk(self) -> None:
        """Look at the room that is left, and tell the node if it has become too little, or enough again."""
        self._disk_due_s = time.monotonic() + DISK_INTERVAL_S
        try:
            refusal = self._disk.check()
        except StorageError as error:
            self._house.fail(error)
            return
        if bool(refusal) != bool(self.refusal):
            log("disk_low" if refusal else "disk_recovered", level="warning", reason=refusal)
        if refusal != self.refusal:
            self.refusal = refusal
            self._house.feed(self.disk_space())

    def disk_space(self) -> DiskSpace:
        """What the node is told of the room that is left."""
        return DiskSpace(self.refusal, self._disk.has_reserve)

    def _look_at_usage(self) -> None:
        store = self._house.store
        store.mind_journal()
        self._growth.note(time.monotonic(), store.size_bytes())
        store.growth_bytes_per_hour = self._growth.bytes_per_hour()
        self._house.feed(LookAtUsage(self._disk.forecast(self._growth.lasting_bytes_per_hour())))
        held = self._house.loop_held()
        if held != self._held:
            self._held = held
            self._house.feed(HostAlarm(LOOP_HELD, held))
        if store.quarantine.count:
            self._house.look_at_quarantine()

    def _note_room(self) -> None:
        memory_bytes, disk_bytes = free_memory_bytes(), self._disk.free_bytes
        found = [free_bytes for free_bytes in (memory_bytes, disk_bytes) if free_bytes is not None]
        if found:
            self._house.note(Room(min(found)))

    def _note_flow(self) -> None:
        for conn, connection in self._connections.peers.items():
            if connection.has_flowed(FLOW_BYTES_MIN):
                self._house.note(PeerFlowed(conn))

    def _release_space(self) -> bool:
        try:
            has_more = not self._house.is_over and self._house.store.release_space()
        except StorageError as error:
            self._house.fail(error)
            return False
        self._checkpoints.mind_wal()
        return has_more
