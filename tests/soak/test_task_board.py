"""10,000 mixed operations by 12 agents on 3 daemons, with cuts, one kill -9 and one daemon away for a third of it.

``python -m pytest tests/soak -m soak -s`` runs it once, with a seed that it prints. ``SOAK_SEED=5`` repeats a run as
far as threads allow; ``SOAK_SEED=1,2,3`` does several; ``SOAK_OPERATIONS`` and ``SOAK_KEYS`` change the size.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.harness import Cluster
from tests.harness.board import Scale, play

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


def seeds() -> list[int]:
    given = os.environ.get("SOAK_SEED")
    return [int(seed) for seed in given.split(",")] if given else [random.SystemRandom().randrange(1_000_000)]


@pytest.mark.parametrize("seed", seeds())
def test_a_task_board_loses_nothing(seed: int) -> None:
    scale = Scale(int(os.environ.get("SOAK_OPERATIONS", "10000")), int(os.environ.get("SOAK_KEYS", "500")))
    print(f"\nseed {seed}, {scale}")  # noqa: T201  # the seed and the figures
    with Cluster(scale.daemons) as cluster:
        print(play(cluster, scale, seed))  # noqa: T201  # the seed and the figures
