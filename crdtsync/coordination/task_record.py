"""Tasks in the shared state, and which of two versions of one counts, whatever the clocks.

A task is a register under a key of the caller's choice. Its state goes ``open``, ``claimed`` (a worker holds the claim
of the same name, or has died), ``done`` or ``failed``. Two hosts that were cut off may both have worked on it; then
there are siblings, and ``done`` comes before ``failed`` before ``claimed`` before ``open``, and among equals the
highest fence. So a result is never lost to an older state, and a second result is told in ``crossed``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crdtsync.client import Entry
from crdtsync.errors import InvalidRequest

OPEN, CLAIMED, DONE, FAILED = "open", "claimed", "done", "failed"
STATES = (OPEN, CLAIMED, FAILED, DONE)
"""A later one comes first."""
KEPT_S = 7 * 24 * 3600.0
"""How long a task is kept when it is done or has failed."""
ATTEMPTS_MAX = 3
VANISHED_MAX = 5
"""So often a worker may vanish with a task before that counts as failed: it may be what kills them."""
BACKOFF_S, BACKOFF_MAX_S = 1.0, 3600.0
AFTER_MAX = 100
ERROR_CHARS_MAX = 2000
AT_MOST = {"error": "\U0010ffff" * ERROR_CHARS_MAX, "worker": "w" * 300}
"""What is added to a task while it is worked on, where it is longest."""


class TaskFailed(Exception):
    """Raised by a handler: the attempt has failed, and this says why, to people. Any other exception does it too, but
    tells the name of its class as well.
    """


class GiveBack(Exception):
    """Raised by a handler: the attempt does not count. The task is open again after its backoff; at once, if its worker
    was told to stop.
    """


@dataclass(frozen=True, slots=True)
class Task:
    """A task as it is now. ``input``: what its worker gets; ``result``: of one that is done; ``error``: why the last
    attempt failed.

    ``role``: only workers of that role take it; ``priority``: higher ones go first; ``not_before_ms``: since 1970;
    ``after``: tasks that must be done first; ``attempts``: begun so far, of ``attempts_max``; ``vanished``: how often
    its worker did not come back; ``worker`` and ``fence``: of the last attempt; ``crossed``: results of others, where
    hosts that were cut off did it too.
    """

    key: str
    state: str
    input: Any
    role: str | None = None
    priority: int = 0
    not_before_ms: int = 0
    after: tuple[str, ...] = ()
    attempts: int = 0
    attempts_max: int = ATTEMPTS_MAX
    vanished: int = 0
    backoff_s: float = BACKOFF_S
    worker: str = ""
    fence: int = 0
    result: Any = None
    error: str = ""
    crossed: tuple[Any, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether nobody will work on it any more."""
        return self.state in (DONE, FAILED)

    @property
    def rank(self) -> tuple[int, int]:
        """The highest one counts."""
        return STATES.index(self.state), self.fence

    def record(self, **changes: Any) -> dict[str, Any]:
        """The stored record of it, with changes."""
        stored = {name: getattr(self, name) for name in _STORED} | changes
        return {**stored, "after": list(stored["after"])}


_STORED = (
    "state", "input", "role", "priority", "not_before_ms", "after", "attempts", "attempts_max", "vanished", "backoff_s",
    "worker", "fence", "result", "error",
)  # fmt: skip
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "state": str, "role": (str, type(None)), "priority": int, "not_before_ms": int, "after": list, "attempts": int,
    "attempts_max": int, "vanished": int, "backoff_s": (int, float), "worker": str, "fence": int, "error": str,
}  # fmt: skip


def task_in(entry: Entry | None) -> Task | None:
    """The task that a key holds; None: it holds none."""
    parts = [] if entry is None else [entry, *entry.siblings]
    found = sorted((task for part in parts if (task := _task(part)) is not None), key=lambda task: task.rank)
    if not found:
        return None
    first = found.pop()
    others = tuple(task.result for task in reversed(found) if task.state == DONE)
    return Task(first.key, **(first.record() | {"after": first.after}), crossed=others)


def _task(entry: Entry) -> Task | None:
    value = entry.value
    if not isinstance(value, dict) or value.get("state") not in STATES or not set(_STORED) <= value.keys():
        return None
    if not all(isinstance(value[name], kind) for name, kind in _TYPES.items()):
        return None
    stored = {name: value[name] for name in _STORED}
    return Task(entry.key, **(stored | {"after": tuple(str(key) for key in value["after"])}))


def new_task(
    now_ms: int,
    key: str,
    input: Any,  # noqa: A002  # the word of the field
    role: str | None,
    priority: int,
    delay_s: float,
    after: str | Iterable[str],
    attempts: int,
    backoff_s: float,
) -> Task:
    """A task that nobody has begun.

    :raises InvalidRequest: workers could make nothing of it.
    """
    keys = (after,) if isinstance(after, str) else tuple(after)
    for name, number in (("priority", priority), ("attempts", attempts)):
        if type(number) is not int:
            raise InvalidRequest(f"{name} of a task is a whole number, not {number!r}")
    if not isinstance(role, (str, type(None))):
        raise InvalidRequest(f"role of a task is a string, not {role!r}")
    if not all(isinstance(each, str) for each in keys):
        raise InvalidRequest(f"what a task comes after is keys of tasks, not {keys!r}")
    if attempts < 1:
        raise InvalidRequest(f"a task has 1 attempt or more, not {attempts}")
    if len(keys) > AFTER_MAX or key in keys:
        raise InvalidRequest(f"a task comes after {AFTER_MAX} others at most, and not after itself")
    not_before_ms = now_ms + round(delay_s * 1000) if delay_s else 0
    return Task(key, OPEN, input, role, priority, not_before_ms, keys, attempts_max=attempts, backoff_s=backoff_s)


def told(error: Exception) -> str:
    """Why an attempt has failed, in words."""
    said = str(error) if isinstance(error, TaskFailed) else f"{type(error).__name__}: {error}"
    return said[:ERROR_CHARS_MAX] or TaskFailed.__name__


def backoff_ms(task: Task) -> int:
    """How long until the next attempt."""
    return round(1000 * min(BACKOFF_MAX_S, task.backoff_s * 2.0 ** min(task.attempts - 1, 30)))


def blocked_by(task: Task, tasks: Mapping[str, Task]) -> str:
    """Why a task will not begin by itself, in words; empty: it waits for nothing, or for what may still be done."""
    for key in task.after:
        first = tasks.get(key)
        if first is None:
            return f"{key} is not there"
        if first.state == FAILED:
            return f"{key} has failed"
    return "it waits for itself" if _is_in_circle(task.key, task.after, tasks) else ""


def _is_in_circle(key: str, after: Sequence[str], tasks: Mapping[str, Task]) -> bool:
    waiting, seen = list(after), set[str]()
    while waiting:
        first = waiting.pop()
        if first == key:
            return True
        if first not in seen and first in tasks:
            seen.add(first)
            waiting += tasks[first].after
    return False
