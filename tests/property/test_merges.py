"""A fork that is merged again and again, on several hosts and cut off: each thing once, nothing overwritten unseen."""

from __future__ import annotations

import pytest

from tests.simulator.merges import run_merges


@pytest.mark.parametrize("seed", range(3))
def test_history_of_merges(seed: int) -> None:
    assert run_merges(seed)["merged"], "no merge came to its end"


@pytest.mark.parametrize("seed", range(3))
def test_history_of_merges_by_hosts_that_are_cut_off(seed: int) -> None:
    assert run_merges(seed, is_apart=True)["merged"], "no merge came to its end"
