"""The short form of the soak test: a thousand operations on a task board, with everything that can go wrong."""

from __future__ import annotations

import os

import pytest

from tests.harness import Cluster
from tests.harness.board import Scale, play

pytestmark = pytest.mark.integration


def test_a_task_board_under_cuts_a_kill_and_a_stop_loses_nothing(cluster: Cluster) -> None:
    seed = int(os.environ.get("SOAK_SEED", "1"))
    print(play(cluster, Scale(operations=1000, keys=100), seed, settle_s=25))  # noqa: T201  # the seed and the figures
