"""Claims by quorum over real daemons: one holder at a time, on whatever side of a cut the majority is."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

import pytest

from crdtsync import Client, Timeout
from crdtsync.errors import ClaimHeld, ClaimLost, InvalidRequest
from tests.harness import Cluster, Daemon, wait_until
from tests.harness.workers import in_threads

pytestmark = pytest.mark.integration


@pytest.fixture
def voters(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Three daemons that are voters."""
    cluster = make_cluster(3)
    ids = [daemon.status()["node"]["id"] for daemon in cluster]
    for daemon in cluster:
        daemon.stop()
        daemon.settings["voters"] = ids
        daemon.start()
    wait_until(lambda: [daemon.status()["node"]["vote"] for daemon in cluster] == ["yes"] * 3)
    wait_until(lambda: all(can_claim(daemon.client("first")) for daemon in cluster))
    return cluster


def can_claim(state: Client) -> bool:
    """Whether voters that begin have been admitted, and are connected."""
    try:
        with state.claim("ready", quorum=True):
            return True
    except (ClaimHeld, Timeout):
        return False


def test_one_of_three_hosts_holds_it_and_the_next_has_a_higher_fence(voters: Cluster):
    clients = [daemon.client(f"agent-{n}") for n, daemon in enumerate(voters)]
    inside: set[int] = set()
    fences: list[int] = []

    def work(n: int) -> None:
        for _ in range(3):
            with clients[n].claim("deploy", quorum=True, ttl=30, wait=60) as lease:
                inside.add(n)
                assert inside == {n}
                fences.append(lease.fence)
                lease.check()
                inside.discard(n)

    in_threads(work, range(3))
    assert len(fences) == 9
    assert fences == sorted(set(fences))


def test_cut_off_from_the_majority_there_is_no_claim_and_none_is_kept(voters: Cluster):
    a, b, c = (daemon.client(name) for name, daemon in zip("abc", voters, strict=True))
    lost: list[str] = []
    lease = a.claim("deploy", quorum=True, ttl=3, on_lost=lambda: lost.append("a")).acquire()
    with pytest.raises(ClaimHeld, match="is held by a, by quorum"):
        c.claim("deploy", quorum=True).acquire()
    for other in (1, 2):
        voters.cut(0, other)
        voters.wait_parted(0, other)
    later = c.claim("deploy", quorum=True, ttl=60, wait=60).acquire()
    assert later.fence > lease.fence
    assert not lease.is_held
    wait_until(lambda: lost == ["a"])
    with pytest.raises(ClaimLost, match="not renewed in time"):
        lease.check()
    with pytest.raises(Timeout, match="1 of 3 voters"):
        a.claim("other", quorum=True).acquire()
    assert later.is_held
    voters.heal()
    wait_until(lambda: can_claim(a))
    with pytest.raises(ClaimHeld, match="held by c"):
        a.claim("deploy", quorum=True).acquire()
    assert later.release()
    assert b.claim("deploy", quorum=True).acquire().release()


def test_promises_outlive_kill_9_of_the_voters(voters: Cluster):
    a, b = (daemon.client(name) for name, daemon in zip("ab", voters, strict=False))
    lease = a.claim("deploy", quorum=True, ttl=60).acquire()
    for daemon in voters:
        daemon.kill()
    for daemon in voters:
        daemon.start()
    wait_until(lambda: can_claim(b))
    with pytest.raises(ClaimHeld, match="held by a"):
        b.claim("deploy", quorum=True).acquire()
    lease.check()
    assert lease.release()
    with b.claim("deploy", quorum=True) as next_one:
        assert next_one.fence > lease.fence


def test_without_voters_it_says_what_to_do(daemon: Daemon):
    with pytest.raises(InvalidRequest, match="setting voters"):
        daemon.client("a").claim("deploy", quorum=True).acquire()
    with pytest.raises(InvalidRequest, match="at most 600"):
        daemon.client("a").claim("deploy", quorum=True, ttl=3600)


def test_whoever_holds_it_is_told_at_the_end_of_its_time_though_the_daemon_does_nothing(voters: Cluster):
    told = Event()
    lease = voters[0].client("ann", timeout=600).claim("deploy", quorum=True, ttl=6, wait=60, on_lost=told.set)
    lease.acquire()
    voters[0].freeze()
    try:
        with voters[1].client("bob").claim("deploy", quorum=True, wait=60):
            assert told.is_set()
    finally:
        voters[0].thaw()
