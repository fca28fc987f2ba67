"""Fixtures: real daemons that are gone, with their files, when the test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.harness import Cluster, Daemon


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """One daemon without peers."""
    with Daemon() as started:
        yield started


@pytest.fixture
def make_daemon() -> Iterator[Callable[..., Daemon]]:
    """Start any number of daemons: ``make_daemon(name, **settings)``."""
    with ExitStack() as stack:
        yield lambda *args, **settings: stack.enter_context(Daemon(*args, **settings))


@pytest.fixture
def make_cluster() -> Iterator[Callable[..., Cluster]]:
    """Start fleets of any size: ``make_cluster(count, **settings)``."""
    with ExitStack() as stack:
        yield lambda *args, **settings: stack.enter_context(Cluster(*args, **settings))


@pytest.fixture
def pair(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Two connected daemons."""
    return make_cluster(2)


@pytest.fixture
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Three connected daemons."""
    return make_cluster(3)


