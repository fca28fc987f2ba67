"""The histories find what they are there to find: each fault, planted alone, is caught within a few seeds."""

from __future__ import annotations

import pytest

from tests.simulator.faults import FAULTS, Fault, catch, seeds_of


@pytest.mark.slow  # a test of the simulator: a hundred histories, some 25 s of processor time together
@pytest.mark.parametrize("fault", [pytest.param(fault, id=fault.name) for fault in FAULTS])
def test_planted_fault_is_caught(fault: Fault) -> None:
    seeds = seeds_of(fault)
    assert catch(fault, seeds) is not None, f"none of {len(seeds)} histories said {fault.says!r}"
