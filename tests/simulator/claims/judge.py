"""What must never be, by the real time: two holders whose hosts see each other, a fence that goes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

from crdtsync.coordination import AsyncLease
from tests.simulator.claims.machines import Machine, Machines
from tests.simulator.claims.virtual_loop import Process

TOLD_S = 4.0
"""So long after two hosts have met, or a process has gone on, one of two holders may not have been told."""


class Broken(AssertionError):
    """A promise is broken."""


@dataclass
class Holding:
    """A claim that somebody got: asked for at ``asked_s``, held from ``held_s``, by the real time."""

    agent: str
    machine: Machine
    process: Process
    lease: AsyncLease
    asked_s: float
    held_s: float
    fence: int
    is_confirmed: bool
    is_held: Callable[[], bool]


class Judge:
    """Is told of every claim that somebody gets; looks at all of them again and again."""

    def __init__(self, world: Machines) -> None:
        self.world = world
        self.held: dict[str, list[Holding]] = {}
        self.crossings = 0
        self.count = 0

    def got(self, new: Holding) -> None:
        """Somebody has got a claim."""
        self.count += 1
        others = self.held.setdefault(new.lease.key, [])
        for old in others:
            if old.fence == new.fence:
                raise Broken(f"one fence twice: {_both(new, old)}")
            self._compare(new, old)
        others.append(new)

    def _compare(self, new: Holding, old: Holding) -> None:
        was_before = old.held_s < new.asked_s
        began_s = new.asked_s if was_before else min(new.asked_s, old.asked_s)
        if not new.is_confirmed or not (was_before or old.is_confirmed) or not self._saw(new, old, began_s):
            return
        if old.is_held():
            raise Broken(f"two hold {_both(new, old)}, and their hosts see each other since before it was asked for")
        if new.fence <= old.fence:  # also of two who asked at one moment: it was over when this one began
            raise Broken(f"the fence has not grown: {_both(new, old)}")

    def look(self) -> None:
        """Whether two hold one key whose hosts have met long enough."""
        now_s = self.world.loop.time()
        for holdings in self.held.values():
            held = [one for one in holdings if one.is_held()]
            for first, second in combinations(held, 2):
                self.crossings += 1
                awake = all(
                    not one.process.is_frozen and one.process.thawed_s < now_s - TOLD_S for one in (first, second)
                )
                met_s = self.world.sees_since_s(first.machine, second.machine, is_quick=True)
                if awake and met_s <= now_s - TOLD_S:
                    raise Broken(f"two still hold {_both(first, second)}, and their hosts have met")

    def _saw(self, first: Holding, second: Holding, since_s: float) -> bool:
        return self.world.sees_since_s(first.machine, second.machine) <= since_s


class QuorumJudge(Judge):
    """The same of claims by quorum: never two holders, whatever is cut off, and fences grow, by the real time."""

    def got(self, new: Holding) -> None:
        """Somebody has got a claim. One whose answer came when its time was over is none."""
        self.count += 1
        if not new.is_held():
            return
        others = self.held.setdefault(new.lease.key, [])
        for old in others:
            if old.is_held():
                raise Broken(f"two hold {_both(new, old)}")
            if new.fence <= old.fence:
                raise Broken(f"the fence has not grown: {_both(new, old)}")
        others.append(new)

    def look(self) -> None:
        """Whether two hold one key."""
        for holdings in self.held.values():
            for first, second in combinations([one for one in holdings if one.is_held()], 2):
                raise Broken(f"two hold {_both(first, second)}")


def _both(first: Holding, second: Holding) -> str:
    told = [
        f"{one.agent} on {one.machine.name} from {one.held_s:.3f} (asked {one.asked_s:.3f}) with fence {one.fence}"
        for one in (second, first)
    ]
    return f"{first.lease.key}: " + " and ".join(told)
