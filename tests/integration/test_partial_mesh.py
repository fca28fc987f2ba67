"""A cluster that is too large for everybody to be connected to everybody, of real daemons: the bound is lowered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from crdtsync import Client
from tests.harness.cluster import wait_until
from tests.harness.daemon import CHANGED, PROGRAM, Daemon
from tests.harness.workers import in_threads

pytestmark = pytest.mark.integration
NODES = 8
WRITES = 40
DELIVERIES_MAX = 1.5
"""Of each change at each node that did not make it."""
SMALL_MESH = f"""{CHANGED}
import crdtsyncd.cluster.dial_planner
crdtsyncd.cluster.dial_planner.ANSWER_TIMEOUT_S = 1.0
{PROGRAM}
"""


@pytest.fixture
def daemons() -> Iterator[list[Daemon]]:
    """The last one listens nowhere and only dials, as behind NAT."""
    made: list[Daemon] = []
    try:
        for number in range(NODES):
            where: dict[str, Any] = {"listen": []} if number == NODES - 1 else {}
            where["full_mesh_nodes_max"] = 4
            made.append(Daemon(f"host-{number}", start=False, program=SMALL_MESH, insecure_loopback=False, **where))
        in_threads(Daemon.start, made)
        client = made[0].client()
        client.cluster_init()
        invite = client.cluster_invite(uses=NODES, local=True)["invite"]
        in_threads(lambda daemon: daemon.client().cluster_join(invite), made[1:])
        yield made
    finally:
        for daemon in made:
            daemon.close()


def states(daemon: Daemon) -> list[str]:
    return [peer["state"] for peer in daemon.status()["peers"]]


def reach_all(daemons: list[Daemon], down: int = 0) -> bool:
    """Whether every node reaches every other one but those that are down."""
    return all(
        sum(state in ("connected", "indirect") for state in states(daemon)) == NODES - 1 - down for daemon in daemons
    )


def degrees(daemons: list[Daemon]) -> list[int]:
    """How many connections each node has."""
    return [states(daemon).count("connected") for daemon in daemons]


def deliveries(daemons: list[Daemon]) -> int:
    return sum(daemon.status()["counters"]["deliveries"] for daemon in daemons)


def write(clients: list[Client], name: str) -> None:
    """By each in turn; returns when every node that is up has everything."""
    tokens = [clients[n % len(clients)].set(f"{name}/{n}", n) for n in range(WRITES)]
    for client in clients:
        for token in tokens[-len(clients) :]:
            client.wait(token)
        assert len(client.items(f"{name}/")) == WRITES


def test_changes_reach_everybody_about_once_over_few_connections(
    daemons: list[Daemon], record_property: Callable[[str, object], None]
) -> None:
    wait_until(lambda: reach_all(daemons), what="every node reaches every other one")
    wait_until(lambda: max(degrees(daemons)) < NODES - 1, what="it is no full mesh")
    clients = [daemon.client() for daemon in daemons]
    write(clients, "settling")
    before = deliveries(daemons)
    write(clients, "measured")
    each = (deliveries(daemons) - before) / WRITES / (NODES - 1)
    record_property("connections", degrees(daemons))
    record_property("deliveries", each)
    assert 1 <= each <= DELIVERIES_MAX
    clients[-1].set("everywhere", 1, w="all")  # by the one that only dials

    gone = daemons[2]
    gone.kill()
    rest = [daemon for daemon in daemons if daemon is not gone]
    wait_until(lambda: reach_all(rest, down=1), what="the others still reach each other")
    write([client for client, daemon in zip(clients, daemons, strict=True) if daemon is not gone], "without one")
    gone.start()
    assert wait_until(lambda: gone.client().get("without one/39"), what="it catches up") == 39
