"""Texts on three real daemons, compacted under faults: each mark is there once, where it was put, or was deleted."""

from __future__ import annotations

import pytest

from tests.harness.cluster import Cluster
from tests.harness.marks import FAULTS, PLANS, play

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("fault", FAULTS)
def test_every_mark_is_there_once_and_in_its_place(make_cluster: type[Cluster], fault: str) -> None:
    play(make_cluster(3), [plan for plan in PLANS if plan.compactors][::6], fault, seed=1)
