"""Texts on three real daemons under cuts, kills or stalls, or with one daemon away: twelve or more at once, of words or
lines, typed or durable, compacted by none, one or all of the daemons.

``SOAK_RUNS=25 SOAK_TEXTS=8 ./dev soak -s tests/soak/test_compacting_texts.py`` plays 25 fleets under each of these,
with eight texts of each of the twelve ways, and tells what was done; ``SOAK_SEED=17 SOAK_RUNS=1`` with ``-k kill`` is
one of these fleets again. A text is edited, compacted and disturbed as often whatever lives beside it.
"""

from __future__ import annotations

import os

import pytest

from tests.harness import Cluster
from tests.harness.marks import FAULTS, PLANS, play

pytestmark = [pytest.mark.soak, pytest.mark.timeout(0)]

FIRST = int(os.environ.get("SOAK_SEED", "0"))
RUNS = int(os.environ.get("SOAK_RUNS", "3"))
TEXTS = int(os.environ.get("SOAK_TEXTS", "1"))


@pytest.mark.parametrize("fault", FAULTS)
def test_every_mark_is_there_once_and_in_its_place(fault: str) -> None:
    for seed in range(FIRST, FIRST + RUNS):
        with Cluster(3) as cluster:
            happened = play(cluster, PLANS * TEXTS, fault, seed)
        told = ", ".join(f"{count} {what}" for what, count in happened.items())
        print(f"{fault}, seed {seed}: {len(PLANS) * TEXTS} texts passed, {told}", flush=True)  # noqa: T201  # the figures
