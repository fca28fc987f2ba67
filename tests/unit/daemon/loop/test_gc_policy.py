"""What stays is set aside from the search for garbage, and garbage is found all the same."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from weakref import ref

import pytest
from crdtsyncd.loop import gc_policy


class Thing:
    def __init__(self) -> None:
        self.me: Thing | None = self


@pytest.fixture
def clock() -> Iterator[list[float]]:
    now, before = [1000.0], gc.get_threshold()
    looked = gc_policy.begin(lambda: now[0])
    yield now
    gc.set_threshold(*before)
    gc.callbacks.remove(looked)
    gc.unfreeze()


def test_what_a_full_look_finds_alive_is_not_looked_at_again(clock: list[float]) -> None:
    before = gc.get_freeze_count()
    kept = [Thing() for _ in range(1000)]
    gc.collect(1)
    assert gc.get_freeze_count() == before, "the young may still die"
    gc.collect()
    assert gc.get_freeze_count() >= before + len(kept)
    assert not any(isinstance(each, Thing) for each in gc.get_objects())
    thing = Thing()
    died = ref(thing)
    del thing
    gc.collect()
    assert died() is None, "what comes later is found"


def test_what_died_since_is_found_once_a_day(clock: list[float]) -> None:
    thing = Thing()
    died = ref(thing)
    gc.collect()
    del thing
    clock[0] += gc_policy.THAW_INTERVAL_S - 1
    gc.collect()
    assert died() is not None
    clock[0] += 1
    gc.collect()
    assert died() is None
    assert gc.get_freeze_count() > 0


def test_what_comes_and_goes_sets_off_no_look(clock: list[float]) -> None:
    """As the rows of writes do until they are in the tables."""
    looks: list[int] = []
    note = lambda phase, info: looks.append(info["generation"])  # noqa: E731
    gc.collect()
    gc.callbacks.append(note)
    try:
        for _ in range(100):
            waiting = [[n] for n in range(2000)]
            waiting.clear()
    finally:
        gc.callbacks.remove(note)
    assert looks == []


def test_no_look_is_at_many_objects_however_many_stay(clock: list[float]) -> None:
    """One at 600,000 took 75 ms, in the middle of a turn."""
    sizes: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            sizes.append(sum(len(gc.get_objects(generation)) for generation in range(info["generation"] + 1)))

    for _ in range(2):
        gc.collect()  # the second one finds hardly anything that is not set aside
    gc.callbacks.append(note)
    try:
        kept = [[n] for n in range(800_000)]
    finally:
        gc.callbacks.remove(note)
    assert len(kept) == 800_000
    assert 50_000 < max(sizes) < 80_000
