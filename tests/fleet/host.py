"""A host with its daemon: a real node on a real database, which turns when it is told to.

``Host.turn`` does what the daemon's driver does: commit, advance, then deliver.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from crdtsyncd.storage.database import Store

from crdtsync.core.identity import LOOPBACK_CLUSTER, Identity
from crdtsync.core.interface import AgentClosed, DialState, Event, Now, Ready
from crdtsync.core.node import Node
from crdtsync.core.node_parts import NodeSettings
from crdtsync.core.replica.replica import Replica
from tests.fleet.agent import Agent

if TYPE_CHECKING:
    from tests.fleet.fleet import Fleet
    from tests.fleet.stranger import Stranger
    from tests.fleet.wire import Wire


class Host:
    """A host with its daemon."""

    def __init__(self, fleet: Fleet, name: str, directory: Path) -> None:
        self.fleet = fleet
        self.name = name
        self.directory = directory
        self.sessions: dict[int, Agent] = {}
        self.wires: dict[int, Wire | Stranger] = {}
        self.log: list[tuple[str, dict[str, object]]] = []
        self.ahead_ms = 0  # how far the host's clock is ahead
        for part in ("data", "run"):
            (directory / part).mkdir(parents=True, exist_ok=True)
        self.open()

    def open(self) -> None:
        self.store = Store(
            self.directory / "data",
            self.directory / "run",
            node=lambda: f"{self.fleet.random.getrandbits(128):032x}",  # the same in every run: meshes depend on it
            entropy=self.fleet.random.randbytes,
        )
        identity = Identity(self.store.node, self.name, LOOPBACK_CLUSTER, self.store.database, "0")
        if self.fleet.voters:
            identity = identity._replace(incarnation=self.store.incarnation)
        random = Random(self.fleet.random.getrandbits(64))
        settings = NodeSettings(self.fleet.caps, voters=self.fleet.voters)
        self.node = Node(identity, self.store, random, self._log, self.now, settings)
        self.turn()

    def _log(self, event: str, level: str = "info", **fields: object) -> None:
        self.log.append((event, fields))

    @property
    def replica(self) -> Replica:
        return self.node.replicas["default"]

    @property
    def alarms(self) -> set[str]:
        return {alarm.code for alarm in self.node.alarms.raised()}

    @property
    def now(self) -> Now:
        return Now(self.fleet.now.wall_ms + self.ahead_ms, self.fleet.now.mono_s)

    def step(self, event: Event) -> None:
        self.node.step(event, self.now)

    def turn(self) -> Ready:
        """Commit what was stepped, and let it out."""
        ready = self.node.ready()
        self.store.commit(ready.persist)
        self.store.settle_some()
        self.store.bring_some_in()
        self.node.advance()
        self.deliver(ready)
        return ready

    def refuse(self, refusal: Any) -> Ready:
        """A turn whose commit fails."""
        ready = self.node.persist_failed(self.node.ready(), refusal)
        self.deliver(ready)
        return ready

    def deliver(self, ready: Ready) -> None:
        for conn, data in ready.sends:
            if conn in self.wires:
                self.wires[conn].put(self, data)
        for reply in ready.replies:
            if reply.conn in self.sessions:
                self.sessions[reply.conn].received(reply.data)
        for conn, reason in ready.peer_closes:
            if conn in self.wires:
                self.wires[conn].close(reason)
        for conn, _ in ready.agent_closes:
            if conn in self.sessions:
                self.sessions.pop(conn).closed = True
                self.step(AgentClosed(conn))

    def restart(self, older: Path | None = None) -> None:
        """kill -9, and start again on the same files, or on an ``older`` copy of the data directory."""
        for wire in list(self.wires.values()):
            wire.close("killed")
        self.sessions.clear()
        self.store.close()
        if older is not None:
            shutil.rmtree(self.store.data_dir)
            shutil.copytree(older, self.store.data_dir)
        self.open()

    def agent(self, name: str = "agent", **hello: Any) -> Agent:
        return Agent(self, name, **hello)

    def expect_peer(self, *names: str) -> None:
        """Nodes at these addresses are expected, and have not answered yet."""
        for name in names or ("elsewhere",):
            self.step(DialState(f"ws://{name}", "connecting", ""))
