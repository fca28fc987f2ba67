"""Fixtures: real daemons that are gone, with their files, when the test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from crdtsync import Client
from tests.harness import Cluster, Daemon


def check_logs(daemons: Iterable[Daemon]) -> None:
    """No daemon has met a bug in itself, which it survives but must not hide."""
    for daemon in daemons:
        assert not (bugs := daemon.log_events("bug")), f"{daemon.name} logged a bug: {bugs[0].get('error')}"


@pytest.fixture
def make_daemon() -> Iterator[Callable[..., Daemon]]:
    """Start any number of daemons: ``make_daemon(name, **settings)``."""
    with ExitStack() as stack:
        daemons: list[Daemon] = []

        def make(*args: Any, **settings: Any) -> Daemon:
            daemons.append(stack.enter_context(Daemon(*args, **settings)))
            return daemons[-1]

        yield make
        check_logs(daemons)


@pytest.fixture
def make_cluster() -> Iterator[Callable[..., Cluster]]:
    """Start fleets of any size: ``make_cluster(count, **settings)``."""
    with ExitStack() as stack:
        clusters: list[Cluster] = []

        def make(*args: Any, **settings: Any) -> Cluster:
            clusters.append(stack.enter_context(Cluster(*args, **settings)))
            return clusters[-1]

        yield make
        check_logs(daemon for cluster in clusters for daemon in cluster)


@pytest.fixture
def daemon(make_daemon: Callable[..., Daemon]) -> Daemon:
    """One daemon without peers."""
    return make_daemon()


@pytest.fixture
def pair(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Two connected daemons."""
    return make_cluster(2)


@pytest.fixture
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Three connected daemons."""
    return make_cluster(3)


LONGEST = ("test_crewais_own_tests", "test_the_benchmark_measures_all_savers", "test_the_sdks_own_tests")
"""Each takes minutes, the first one longest."""


@pytest.hookimpl(trylast=True)  # of what is left of all
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What boots a machine for a whole module goes first: there no other worker takes a part of the module away. Each
    of the longest begins the share of another worker, so that none of them is begun when all others are done.
    """
    items.sort(key=lambda item: item.path.name != "test_boot.py")
    workers: int = getattr(config, "workerinput", {}).get("workercount", 1)
    begins = [0]  # of each worker's share, as xdist hands them out
    for left in range(workers, 1, -1):
        begins.append(begins[-1] + (len(items) - begins[-1]) // left)
    longest = [item for name in LONGEST for item in items if item.name == name][: workers - 1]
    items[:] = [item for item in items if item not in longest]
    for begin, item in zip(begins[1:], longest, strict=False):
        items.insert(begin, item)


@pytest.fixture
def client(daemon: Daemon) -> Client:
    """An agent on one daemon."""
    return daemon.client("tester")


@pytest.fixture
def parted(pair: Cluster) -> Cluster:
    """Two daemons that are cut off from each other."""
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    return pair
