"""Fleets for the tests of the core."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crdtsync.core.replica.snapshots import snapshot, staging
from crdtsync.core.sync import snapshot_server
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host


@pytest.fixture
def node() -> Iterator[Host]:
    """One machine."""
    with fleet_of("a") as fleet:
        yield fleet["a"]


@pytest.fixture
def apart() -> Iterator[Fleet]:
    """Machines a, b and c, not connected."""
    with fleet_of("a", "b", "c") as fleet:
        yield fleet


@pytest.fixture
def pair() -> Iterator[Fleet]:
    """Machines a and b, connected."""
    with fleet_of("a", "b", linked=True) as fleet:
        yield fleet


@pytest.fixture
def trio() -> Iterator[Fleet]:
    """Machines a, b and c, each connected to each."""
    with fleet_of("a", "b", "c", linked=True) as fleet:
        yield fleet


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots come in parts of ten entries, one in a turn, and each part goes to disk as it comes."""
    monkeypatch.setattr(snapshot_server, "SERVED_BYTES_MIN", 1)
    monkeypatch.setattr(staging, "HELD_BYTES_MAX", 0)
    monkeypatch.setattr(snapshot, "PART_ENTRIES_MAX", 10)
