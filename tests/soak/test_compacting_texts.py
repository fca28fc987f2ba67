"""Texts on three real daemons, compacted by none, one or all of them, under cuts, kills, stalls, or with one away.

``SOAK_RUNS=200 python -m pytest tests/soak/test_compacting_texts.py -m soak`` plays so many seeds of each (default 3).
"""

from __future__ import annotations

import os
from itertools import product

import pytest

from tests.harness import Cluster
from tests.harness.marks import Marks, Plan

pytestmark = [pytest.mark.soak, pytest.mark.timeout(0)]

RUNS = int(os.environ.get("SOAK_RUNS", "3"))


@pytest.mark.parametrize("faults", [("cut",), ("cut", "kill"), ("cut", "stall"), ("away",)], ids="+".join)
@pytest.mark.parametrize("compactors", [(), (0,), (0, 1, 2)], ids=["none compacts", "one", "all"])
@pytest.mark.parametrize("apart, is_typed", [*product([" ", "\n"], [False, True])])
def test_every_mark_is_there_once(
    apart: str, is_typed: bool, compactors: tuple[int, ...], faults: tuple[str, ...]
) -> None:
    away = 2 if "away" in faults else None
    plan = Plan(apart, compactors, away, () if away else faults, is_typed, steps=60 if is_typed else 150)
    for seed in range(RUNS):
        with Cluster(3) as cluster:
            Marks(cluster, plan, seed).play()
