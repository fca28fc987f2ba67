"""A failing history made small: steps are left out for as long as it still fails, and the rest is told in words.

Delta debugging (Zeller and Hildebrandt, 2002): halves first, then ever smaller parts, down to single steps.
"""

from __future__ import annotations

import traceback
from time import monotonic
from typing import NamedTuple, TypeVar

from tests.simulator.histories import AnyPlan
from tests.simulator.model import Broken

P = TypeVar("P", bound=AnyPlan)
SHRINK_S_MAX = 60.0
SHRINK_TRIES_MAX = 1000


class Failure(NamedTuple):
    """How a history fails: the name that tells failures apart, and what is to be said of it."""

    name: str
    text: str


def failure_of(plan: AnyPlan, told: list[str] | None = None) -> Failure | None:
    """Play a history; None if all is well. A promise broken is one kind of failure, each place of a crash another."""
    try:
        plan.play(told)
    except Broken as broken:
        return Failure("Broken", str(broken))
    except Exception as error:  # noqa: BLE001  # whatever goes wrong is what is looked for
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = "".join(traceback.format_exception(error))
        return Failure(f"{type(error).__name__} in {place.name}", text)
    return None


def shrink(
    plan: P, failure: Failure, seconds_max: float = SHRINK_S_MAX, tries_max: int = SHRINK_TRIES_MAX
) -> tuple[P, Failure]:
    """The plan with as few steps as can be found in the time, and how it fails."""
    end, tries = monotonic() + seconds_max, 0
    numbers = [step.number for step in plan.steps]
    part = max(1, len(numbers) // 2)
    while numbers:
        start, is_smaller = 0, False
        while start < len(numbers):
            if monotonic() > end or tries >= tries_max:
                return plan.only(numbers), failure
            tries += 1
            fewer = numbers[:start] + numbers[start + part :]
            found = failure_of(plan.only(fewer))
            if found is not None and found.name == failure.name:
                numbers, failure, is_smaller = fewer, found, True
            else:
                start += part
        if part == 1 and not is_smaller:
            break
        part = max(1, part // 2)
    return plan.only(numbers), failure


def trace(plan: AnyPlan) -> list[str]:
    """What happens in a history, in words."""
    told: list[str] = []
    failure = failure_of(plan, told)
    return [*told, f"!! {failure.text}" if failure is not None else "all is well"]
