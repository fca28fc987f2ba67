"""Which task a worker takes next: what it knows of tasks and claims, without a socket or a clock.

Among tasks of the highest priority it takes any at random: if all workers took the first one, all but one would ask for
it in vain, again and again (5.9 asks a task in a model, and 1.03 so).
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from crdtsync.coordination.claim_record import Claim, Patience
from crdtsync.coordination.task_record import DONE, Task


class Board:
    """The tasks of one worker's pattern, and the claims on them. ``role``: the worker's."""

    def __init__(self, role: str | None, patience: Patience) -> None:
        self._role = role
        self._patience = patience
        self.tasks: dict[str, Task] = {}
        self.is_done_elsewhere: dict[str, bool] = {}
        """Of tasks that others come after and that the worker's pattern does not match: whether they are done."""
        self._claims: dict[str, list[Claim]] = {}
        self._unfinished: dict[int, dict[str, None]] = {}  # by priority

    def put(self, key: str, task: Task | None) -> None:
        """A task is like this now; None: it is gone, or no task."""
        before = self.tasks.pop(key, None)
        if before is not None:
            self._unfinished.get(before.priority, {}).pop(key, None)
        if task is not None:
            self.tasks[key] = task
            if not task.is_over and task.role == self._role:
                self._unfinished.setdefault(task.priority, {})[key] = None

    def put_claims(self, key: str, claims: list[Claim]) -> None:
        """The claims on a task are these now."""
        if claims:
            self._claims[key] = claims
        else:
            self._claims.pop(key, None)

    def pick(self, now_ms: int, now_s: float, random: Random) -> str | None:
        """The task to take; None: there is none to take now."""
        for _, unfinished in sorted(self._unfinished.items(), reverse=True):
            keys = list(unfinished)
            first = random.randrange(len(keys)) if keys else 0
            for key in keys[first:] + keys[:first]:
                if self._wait_s(self.tasks[key], now_ms, now_s) == 0.0:
                    return key
        return None

    def due_in_s(self, now_ms: int, now_s: float) -> float | None:
        """When there may be one, if nothing changes; None: not by itself."""
        waits = (self._wait_s(self.tasks[key], now_ms, now_s) for keys in self._unfinished.values() for key in keys)
        return min((wait_s for wait_s in waits if wait_s is not None), default=None)

    def elsewhere(self) -> list[str]:
        """The keys that ``is_done_elsewhere`` should know of."""
        unfinished = [self.tasks[key] for keys in self._unfinished.values() for key in keys]
        return sorted({key for task in unfinished for key in task.after if key not in self.tasks})

    def _is_done(self, key: str) -> bool:
        task = self.tasks.get(key)
        return self.is_done_elsewhere.get(key, False) if task is None else task.state == DONE

    def _wait_s(self, task: Task, now_ms: int, now_s: float) -> float | None:
        if not all(map(self._is_done, task.after)):
            return None
        claimed_s = max(self._left_s(self._claims.get(task.key, ()), now_s), default=0.0)
        return max(claimed_s, (task.not_before_ms - now_ms) / 1000, 0.0)

    def _left_s(self, claims: Iterable[Claim], now_s: float) -> list[float]:
        return [self._patience.left_s(claim, now_s) for claim in claims]
