"""Claims under cuts, kills, frozen agents and wrong clocks: never two holders whose hosts see each other."""

from __future__ import annotations

import pytest

from tests.simulator.claims.histories import run_history
from tests.simulator.claims.judge import Broken
from tests.simulator.claims.plants import CAUGHT_BY, PLANTS, QUORUM_PLANTS

SEEDS_MAX = 60
SLOW_AFTER_ALL = 11494
"""At its end one of three voters has no vote, and by the claimer's clock another one's answers took 2.03 s."""
FROZEN_BETWEEN = 542
"""Somebody sees that others have asked, too, and is frozen before it holds; another one holds the key meanwhile."""
HELD_UNHEARD_OF = 1228
"""Somebody asks while the news is under way that another one held the key, with a later fence, and gave it back."""
RESTORED_AND_RESTARTED = 34513
"""A voter is restored from a copy, begins to wait until all that it may have promised is over, and is started anew."""
FORGOTTEN_FENCE = 158
"""Somebody has its fence and is frozen, while its daemon is started anew, before it writes that it holds the key."""
HELD_AND_FROZEN = 347
"""Somebody is frozen that holds a key by its ask alone, on a host that was cut off; another one has asked meanwhile."""


@pytest.mark.parametrize(
    "seed",
    [
        *(0, FROZEN_BETWEEN, HELD_UNHEARD_OF),
        *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, FORGOTTEN_FENCE, HELD_AND_FROZEN)),
    ],
)
def test_claims_history(seed: int) -> None:
    history = run_history(seed)
    assert history.counts["claimed"], "nobody got a claim"


def test_history_of_claims_by_quorum() -> None:
    history = run_history(0, by_quorum=True)
    assert history.counts["claimed"], "nobody got a claim"


def test_histories_of_claims_by_quorum_on_hosts_that_only_vote() -> None:
    seeds = (*range(4), SLOW_AFTER_ALL, RESTORED_AND_RESTARTED)
    claimed = [run_history(seed, by_quorum=True, is_whole=False).counts["claimed"] for seed in seeds]
    assert sum(claimed) > len(claimed)


@pytest.mark.slow  # a test of the simulator, as is the next
@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_fault_is_caught(name: str) -> None:
    for seed in (CAUGHT_BY[name], *range(SEEDS_MAX)):
        try:
            with PLANTS[name]():
                run_history(seed)
        except Broken:
            return
    pytest.fail(f"none of {SEEDS_MAX} histories found {name}")


@pytest.mark.slow
@pytest.mark.parametrize("name", QUORUM_PLANTS)
def test_a_planted_fault_of_votes_is_caught(name: str) -> None:
    for seed in range(SEEDS_MAX):
        try:
            with QUORUM_PLANTS[name]():
                run_history(seed, by_quorum=True, is_whole=False)
        except Broken:
            return
    pytest.fail(f"none of {SEEDS_MAX} histories found {name}")
