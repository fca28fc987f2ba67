"""Random histories of clusters: joining and removing, rights, and spaces for some (``./dev simulate --members``)."""

from __future__ import annotations

from collections import Counter

import pytest

from crdtsync.testing.__main__ import main
from crdtsync.testing.clusters.player import JOIN_FAULTS, plan_cluster

SEEDS = range(4)


def test_histories() -> None:
    happened: Counter[str] = Counter()
    for seed in SEEDS:
        happened += plan_cluster(seed, 80).play().counts
    assert all(happened[what] for what in ("allowed", "refused", "remove", "make_space", "join"))
    assert sum(bool(happened[f"not let in: {fault}"]) for fault in JOIN_FAULTS) >= 3


def test_the_command_plays_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--members", "--seeds", "2", "--steps", "20", "--jobs", "1"]) == 0
    assert capsys.readouterr().out.startswith("2 seeds, 40 operations, ")
    assert main(["--members", "--seed", "1", "--steps", "20", "--only", "3,4"]) == 0
    assert "joins by" in capsys.readouterr().out
