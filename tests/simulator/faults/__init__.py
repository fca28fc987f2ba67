"""Planted faults: a harness that finds none of them proves nothing."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulator.faults import (
    clusters,
    cuts,
    forks,
    kinds,
    machines,
    merges,
    past,
    replication,
    sessions,
    short,
    sleeping,
    snapshots,
    storage,
    watching,
)
from tests.simulator.faults.known import KNOWN
from tests.simulator.faults.planting import FAULTS, SEEDS_MAX, Caught, Fault, catch, judge_of

_PLACES = (
    sessions,
    replication,
    storage,
    machines,
    snapshots,
    kinds,
    past,
    cuts,
    forks,
    merges,
    watching,
    clusters,
    short,
    sleeping,
)


def seeds_of(fault: Fault, count: int = SEEDS_MAX, is_hinted: bool = True) -> list[int]:
    """In which order histories are played; one that is known to find the fault comes first."""
    known = [KNOWN[fault.name]] if is_hinted and fault.name in KNOWN else []
    return [*known, *(seed for seed in range(count) if seed not in known)]


def names() -> list[str]:
    """Of all planted faults, as the documentation writes them."""
    return [fault.name.replace("_", " ") for fault in FAULTS]


def chosen_by(word: str | None) -> list[Fault]:
    """The faults with this in their name, with spaces or underscores; None: all."""
    return [fault for fault in FAULTS if word is None or word.replace(" ", "_") in fault.name]


def catch_all(word: str | None, count: int, tell: Callable[[str], None], is_hinted: bool = False) -> int:
    """Plant each fault and tell, as a table, who finds it, after how many histories; 1 if one was not found."""
    missed = 0
    tell("| fault | breaks | found by | seeds played | found by seed | CPU s |\n|---|---|---|---|---|---|")
    chosen = chosen_by(word)
    for fault in chosen:
        caught = catch(fault, seeds_of(fault, count, is_hinted))
        name = fault.name.replace("_", " ")
        if caught is None:
            missed += 1
            tell(f"| {name} | {fault.breaks} | **nobody** | {count} | | |")
        else:
            told = f"{judge_of(caught.said)} | {caught.tried} | {caught.seed} | {caught.cpu_s:.1f}"
            tell(f"| {name} | {fault.breaks} | {told} |")
    tell(f"\n{len(chosen) - missed} of {len(chosen)} planted faults were found")
    return 1 if missed else 0


__all__ = ["FAULTS", "Caught", "Fault", "catch", "catch_all", "chosen_by", "names", "seeds_of"]
