"""Claims over real daemons: one owner, whatever happens to links, agents and daemons."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from crdtsync import AsyncClient, Client
from crdtsync.coordination import Lease
from crdtsync.coordination.claim_record import claims_in
from crdtsync.errors import ClaimHeld, ClaimLost, InvalidRequest
from tests.harness import Cluster, Daemon, wait_until
from tests.harness.shell import Running, Shell
from tests.harness.workers import beside, in_threads

pytestmark = pytest.mark.integration


def tried(state: Client, key: str, **options: Any) -> Lease | None:
    try:
        return state.claim(key, **options).acquire()
    except ClaimHeld:
        return None


def owners(daemon: Daemon, key: str = "") -> list[tuple[str, str]]:
    return [(claim.key, claim.agent) for claim in daemon.client("looker").claims(key)]


def test_of_many_agents_of_one_host_one_holds_it_and_its_fence_grows(daemon: Daemon):
    fences = []
    clients = [daemon.client(f"agent-{n}") for n in range(6)]
    for _ in range(4):
        tries = in_threads(lambda state: tried(state, "task/1"), clients)
        leases = [lease for lease in tries if lease is not None]
        assert len(leases) <= 1
        for lease in leases:
            fences.append(lease.fence)
            assert lease.release()
    lease = clients[0].claim("task/1").acquire()
    fences.append(lease.fence)
    assert fences == sorted(set(fences))
    with pytest.raises(ClaimHeld, match="is held by agent-0 on host") as held:
        clients[1].claim("task/1").acquire()
    assert (held.value.agent, held.value.details["fence"]) == ("agent-0", lease.fence)
    assert owners(daemon, "task/") == [("task/1", "agent-0")]
    lease.release()
    assert owners(daemon) == []


def test_of_two_hosts_that_see_each_other_never_two_hold_it(pair: Cluster):
    """Nine rounds of agents of both hosts at once; each that gets it looks whether it is alone."""
    clients = [daemon.client(f"agent-{n}") for n, daemon in enumerate([*pair, *pair])]
    inside: set[int] = set()
    crossings = 0
    fences: list[int] = []

    def work(n: int) -> None:
        nonlocal crossings
        for _ in range(9):
            with clients[n].claim("task/1", wait=60) as lease:
                inside.add(n)
                crossings += len(inside) > 1
                fences.append(lease.fence)
                assert lease.is_confirmed
                inside.discard(n)

    in_threads(work, range(4))
    assert (crossings, len(fences)) == (0, 36)
    assert fences == sorted(set(fences))


def test_of_two_who_asked_at_the_same_moment_one_holds_it_when_the_other_has_gone(parted: Cluster):
    """Both hosts have both asks. The one that counts less may be held already, or its agent be stopped, with a fence
    that is older by then: nobody holds the key beside it.
    """
    leases = [daemon.client(f"agent-{n}").claim("task/1") for n, daemon in enumerate(parted)]
    for lease in leases:
        lease._id = lease._state.agent
    in_threads(lambda lease: lease._ask(), leases)
    parted.heal()
    lookers = [daemon.client("looker") for daemon in parted]

    def askers() -> list[list[str]]:
        return [[claim.agent for claim in claims_in(looker.entry("claims/task/1"))] for looker in lookers]

    wait_until(lambda: all(len(agents) == 2 for agents in askers()))
    first = askers()[0][0]
    winner, loser = sorted(leases, key=lambda lease: lease._state.agent != first)
    with pytest.raises(ClaimHeld, match="is just being claimed by"):
        winner._hold()
    holding = beside(winner._hold)
    with pytest.raises(ClaimHeld, match=f"is (just being claimed|held) by {first}"):
        loser._hold()
    loser._withdraw()
    holding.result()
    wait_until(lambda: askers() == [[first], [first]])


def test_after_a_cut_one_owner_is_left_everywhere_and_the_other_is_told_at_once(parted: Cluster):
    told = Event()
    clients = [daemon.client(f"agent-{n}") for n, daemon in enumerate(parted)]
    first = clients[0].claim("task/1", on_lost=told.set).acquire()
    second = clients[1].claim("task/1").acquire()
    early, late = sorted((first, second), key=lambda lease: lease.fence)
    parted.heal()
    wait_until(lambda: not early.is_held, what="the earlier one is told")
    wait_until(lambda: all(owners(each) == [("task/1", f"agent-{late is second:d}")] for each in parted))
    late.check()
    with pytest.raises(ClaimLost, match=f"agent-{late is second:d} on {parted[late is second].name} holds it, fence"):
        early.check()
    assert told.is_set() is (early is first)
    assert not early.release()
    assert late.release()
    lease = clients[0].claim("task/1", wait=20).acquire()
    wait_until(lambda: clients[1].release("task/1"))
    wait_until(lambda: not lease.is_held)
    with pytest.raises(ClaimLost, match="the key was freed"):
        lease.__exit__(None, None, None)


def holder(daemon: Daemon, key: str, ttl: float) -> Running:
    """A process of its own that holds a key until it is ended."""
    program = (
        "from crdtsync import Client\nimport time\n"
        f"with Client({str(daemon.socket)!r}, agent='holder') as state, state.claim({key!r}, ttl={ttl}):\n"
        "    print('held', flush=True)\n    time.sleep(600)\n"
    )
    return Running([sys.executable, "-c", program], dict(os.environ), daemon.base)


def test_what_a_killed_agent_held_is_free_at_once_on_every_host(pair: Cluster):
    with holder(pair[0], "task/1", 3600):
        wait_until(lambda: owners(pair[1]) == [("task/1", "holder")])
    with pair[1].client("next").claim("task/1", ttl=3600, wait=20) as lease:
        assert lease.is_held


def test_what_a_stopped_agent_or_a_dead_host_held_is_free_when_its_time_is_over(pair: Cluster):
    """The agent's connection stands, and its daemon runs: only its time says that it is gone."""
    with holder(pair[0], "task/1", 2) as held_by:
        assert held_by.line() == "held\n"
        held_by.process.send_signal(signal.SIGSTOP)
        with pair[1].client("next").claim("task/1", ttl=60, wait=60) as lease:
            held_by.process.send_signal(signal.SIGCONT)
            wait_until(lambda: owners(pair[0]) == [("task/1", "next")])
            lease.check()
    held = pair[0].client("gone").claim("task/2", ttl=2).acquire()
    wait_until(lambda: owners(pair[1]) == [("task/2", "gone")])
    pair[0].kill()
    with pair[1].client("next").claim("task/2", wait=60) as lease:
        assert lease.fence > held.fence
    wait_until(lambda: not held.is_held, what="who cannot renew knows that its time is over")


def test_whoever_holds_it_is_told_at_the_end_of_its_time_though_the_daemon_does_nothing(daemon: Daemon):
    told = Event()
    lease = daemon.client("ann", timeout=600).claim("task/1", ttl=2, on_lost=told.set).acquire()
    daemon.freeze()
    try:
        assert told.wait(60)
        with pytest.raises(ClaimLost, match="it was not renewed in time"):
            lease.check()
    finally:
        daemon.thaw()


def test_a_lease_that_holds_its_key_takes_it_no_second_time_and_goes_on(daemon: Daemon):
    state = daemon.client("ann")
    with state.claim("task/1") as lease:
        fence = lease.fence
        with pytest.raises(InvalidRequest, match="already"):
            lease.acquire()
        lease.check()
        assert lease.fence == fence
    with lease:
        assert lease.fence > fence
    assert state.claims() == []


def test_a_lease_that_nobody_took_says_so(daemon: Daemon):
    lease = daemon.client("ann").claim("k")
    assert not lease.is_confirmed
    assert not lease.release()
    with pytest.raises(ClaimLost, match="it was never held"):
        lease.check()
    assert lease.acquire().release()
    with pytest.raises(ClaimLost, match="it was released"):
        lease.check()


def test_a_claim_outlasts_a_restart_of_its_daemon(daemon: Daemon):
    with daemon.client("ann").claim("task/1", ttl=30) as lease:
        daemon.stop()
        daemon.start()
        assert owners(daemon) == [("task/1", "ann")]
        lease.check()
        assert tried(daemon.client("bob"), "task/1") is None


def test_without_keeping_it_outlasts_its_client_until_its_time_is_over(daemon: Daemon):
    with Client(daemon.socket, agent="ann") as state:
        state.claim("task/1", ttl=2, keep=False).acquire()
    bob = daemon.client("bob")
    assert owners(daemon) == [("task/1", "ann")]
    with bob.claim("task/1", wait=60) as lease:
        assert not bob.release("task/1", fence=lease.fence - 1)
    assert not bob.release("task/1")
    for ttl in (0.5, 8 * 24 * 3600):
        with pytest.raises(InvalidRequest, match="the ttl of a claim is 1 s to 7 days"):
            bob.claim("task/1", ttl=ttl)


async def test_the_same_for_asyncio(daemon: Daemon):
    told = asyncio.Event()
    async with AsyncClient(daemon.socket, agent="ann") as ann, AsyncClient(daemon.socket, agent="bob") as bob:
        lease = await ann.claim("task/1", on_lost=told.set).acquire()
        with pytest.raises(ClaimHeld):
            await bob.claim("task/1").acquire()
        waiting = asyncio.ensure_future(bob.claim("task/1", wait=True).acquire())
        assert await bob.release("task/1", fence=lease.fence)
        await asyncio.wait_for(told.wait(), 20)
        second = await waiting
        assert second.fence > lease.fence
        assert [claim.agent for claim in await ann.claims()] == ["bob"]
        assert await second.release()


def test_a_command_runs_under_its_claim_and_is_ended_when_that_is_lost(pair: Cluster, tmp_path: Path):
    shell = Shell(pair[0].socket, tmp_path)
    command = ["claim", "job", "--agent", "ann", "--", "sh", "-c", "echo $CRDTSYNC_FENCE; exec sleep 600"]
    with shell.start(*command) as run:
        fence = int(run.line())
        boss = pair[1].client("boss")
        wait_until(lambda: [claim.fence for claim in boss.claims()] == [fence])
        refused = shell("claim", "job")
        assert (refused.status, refused.err) == (
            1, "crdtsync: 'job' is held by ann on host-a: wait for it, or take something else\n",
        )  # fmt: skip
        assert json.loads(shell.ok("claims", "--json"))["agent"] == "ann"
        assert boss.release("job", fence=fence)
        _, said = run.process.communicate()
    assert (run.process.returncode, said) == (1, b"crdtsync: the claim on 'job' is lost: the key was freed\n")
    assert shell("claim", "job", "--", "sh", "-c", "exit 7").status == 7
    assert shell("claim", "job", "--", "no-such-command").status == 127
    assert shell("release", "job").status == 1
    with shell.start(*command) as run:
        run.line()
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait() == 128 + signal.SIGTERM
    assert owners(pair[0]) == []
