"""What a person should know: alarms, each raised once and logged, shown in the status until it clears."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

ALARM_KEYS_MAX = 100
"""Of which an alarm remembers that it is about them; with more, it may be about any."""


class Alarm(NamedTuple):
    """``code`` is for programs, ``message`` for people; ``since_ms`` in ms since 1970 UTC. ``keys``: about which it is,
    None: about any.
    """

    code: str
    message: str
    since_ms: int
    keys: frozenset[str] | None = None

    def concerns(self, key: str) -> bool:
        """Whether it may be about this key."""
        return self.keys is None or key in self.keys


class Alarms:
    """The alarms of a node. ``scope`` tells those of one code apart, by space for example.

    ``now_ms`` is set from outside; ``raised_count``: how often one was raised so far.
    """

    ALARMS_MAX = 1000

    def __init__(self, log: Callable[..., None]) -> None:
        self.now_ms = 0
        self.raised_count = 0
        self._log = log
        self._raised: dict[tuple[str, str], Alarm] = {}

    def raise_once(self, code: str, scope: str, message: str, keys: Collection[str] | None = None) -> None:
        """Raise an alarm, unless it is raised already: then it is about these ``keys`` too."""
        raised = self._raised.get((code, scope))
        if raised is not None:
            self._raised[code, scope] = raised._replace(keys=_united(raised.keys, keys))
        elif len(self._raised) < self.ALARMS_MAX:
            self._raised[code, scope] = Alarm(code, message, self.now_ms, _united(frozenset(), keys))
            self.raised_count += 1
            self._log("alarm", level="error", code=code, message=message)

    def raise_now(self, code: str, scope: str, message: str, keys: Collection[str] | None = None) -> None:
        """Raise an alarm whose figures change, or renew its message."""
        self.raise_once(code, scope, message, keys)
        raised = self._raised.get((code, scope))
        if raised is not None and raised.message != message:
            self._raised[code, scope] = raised._replace(message=message)

    def journal(self, event: str, **fields: object) -> None:
        """Log what happened, each time that it does."""
        self._log(event, level="warning", **fields)

    def clear(self, code: str, scope: str) -> None:
        """The reason for an alarm is gone."""
        if self._raised.pop((code, scope), None) is not None:
            self._log("alarm_cleared", code=code, scope=scope)

    def of(self, scope: str) -> list[Alarm]:
        """Those of one scope."""
        return [alarm for (_, of), alarm in sorted(self._raised.items()) if of == scope]

    def raised(self) -> list[Alarm]:
        """All that are raised, in order of code and scope."""
        return [alarm for _, alarm in sorted(self._raised.items())]


def _united(one: frozenset[str] | None, other: Collection[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return None
    keys = one.union(other)
    return keys if len(keys) <= ALARM_KEYS_MAX else None
