"""Texts on three real daemons that are compacted while links are cut: every mark is there once, or was deleted."""

from __future__ import annotations

import pytest

from tests.harness.cluster import Cluster
from tests.harness.marks import Marks, Plan

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(Plan(), id="words, one compacts"),
        pytest.param(Plan("\n", (0, 1, 2), away=2), id="lines, all compact, one is away"),
        pytest.param(Plan(compactors=(0, 1), is_typed=True, faults=("cut", "kill"), steps=60), id="editors, kills"),
    ],
)
def test_every_mark_is_there_once(make_cluster: type[Cluster], plan: Plan) -> None:
    Marks(make_cluster(3), plan, seed=1).play()
