"""Random histories: a seed says everything that happens, and any of its steps can be left out.

``run_history(seed)`` plays one to its end and checks everything. Each step draws from a generator of its own, so what
is left of a history when some of its steps are dropped does what it did before, as far as it still makes sense.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from random import Random
from typing import NamedTuple, Protocol, Self

from crdtsync.core.background.retention_caps import Caps
from tests.simulator.kinds import KEYS
from tests.simulator.model import Broken
from tests.simulator.nemesis import TROUBLE
from tests.simulator.player import SKEWS_MS, TINY_CAPS, WEIGHTS, Player
from tests.simulator.world import World

STEPS = 120


class Step(NamedTuple):
    """One thing that happens: which, and from what its choices are drawn."""

    number: int
    name: str
    seed: int


class Plan(NamedTuple):
    """A whole history."""

    seed: int
    hosts: int
    skews_ms: tuple[int, ...]
    is_small: bool
    caps: Caps | None
    is_connected: bool
    is_line: bool
    keys: tuple[str, ...]
    steps: tuple[Step, ...]

    def only(self, numbers: Collection[int]) -> Plan:
        """The same with these steps alone."""
        return self._replace(steps=tuple(step for step in self.steps if step.number in numbers))

    def play(self, told: list[str] | None = None) -> World:
        """Play it to its end and check everything. ``told``: what happens, in words.

        :raises Broken: a promise was not kept.
        """
        return play(self, partial(World, told=told))


class AnyPlan(Protocol):
    """What campaigns, shrinking and traces need of a history, of whatever kind."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """What happens."""

    def only(self, numbers: Collection[int]) -> Self:
        """The same with these steps alone."""

    def play(self, told: list[str] | None = None) -> Played:
        """Play it to its end and check everything."""


class Played(Protocol):
    """A world after its history. ``counts``: what happened how often."""

    counts: Counter[str]


def plan_history(
    seed: int, steps: int = STEPS, keys: tuple[str, ...] = KEYS, is_tight: bool = False, is_troubled: bool = True
) -> Plan:
    """What happens in the history of this seed, from how many hosts there are on.

    ``keys``: what is written to; ``is_tight``: limits and caps are small, which they are in every second one anyway;
    ``is_troubled``: also what only a broken network, disk, clock or administrator does.
    """
    rng = Random(seed)
    hosts, skews_ms, is_small = rng.choice((2, 3, 3, 4)), rng.choice(((0,), SKEWS_MS)), rng.random() < 0.5
    caps = rng.choice(TINY_CAPS if is_tight else (None, None, *TINY_CAPS))
    is_connected, is_line = rng.random() < 0.7, rng.random() < 0.5
    weights = WEIGHTS | (TROUBLE if is_troubled else {})
    names = rng.choices([*weights], [*weights.values()], k=steps)
    drawn = tuple(Step(number, name, rng.getrandbits(48)) for number, name in enumerate(names))
    return Plan(seed, hosts, skews_ms, is_small or is_tight, caps, is_connected, is_line, keys, drawn)


def play(plan: Plan, make_world: Callable[..., World] = World) -> World:
    """Play a history to its end and check everything.

    :raises Broken: a promise was not kept.
    """
    world = make_world(plan.seed, plan.hosts, plan.skews_ms, plan.is_small, plan.caps)
    try:
        player = Player(world, Random(plan.seed).random, plan.keys)
        if plan.is_connected:
            player.connect_all()
        for step in plan.steps:
            player.play(step.name, step.seed)
        world.random.seed(f"the end of {plan.seed}")
        finish(world, plan.is_line)
    finally:
        world.close()
    return world


def run_history(
    seed: int,
    steps: int = STEPS,
    make_world: Callable[..., World] = World,
    keys: tuple[str, ...] = KEYS,
    is_tight: bool = False,
    is_troubled: bool = True,
) -> World:
    """Play the history of ``seed``; see :func:`plan_history` and :func:`play`."""
    try:
        return play(plan_history(seed, steps, keys, is_tight, is_troubled), make_world)
    except Exception as error:
        error.add_note(f"replay it: run_history({seed}, steps={steps})")
        raise


def finish(world: World, is_line: bool) -> None:
    """Heal, along a line of hosts or with every pair connected, and check."""
    world.note("-- all is mended")
    world.heal(is_line)
    world.check_converged()
    if world.caps is not None:
        world.check_bounds()
    world.check_disks()


__all__ = ["AnyPlan", "Broken", "Plan", "Step", "finish", "plan_history", "play", "run_history"]
