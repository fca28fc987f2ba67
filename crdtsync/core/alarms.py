"""What a person should know: alarms, each raised once and logged, shown in the status until it clears."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Alarm(NamedTuple):
    """``code`` is for programs, ``message`` for people; ``since_ms`` in ms since 1970 UTC."""

    code: str
    message: str
    since_ms: int


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

    def raise_once(self, code: str, scope: str, message: str) -> None:
        """Raise an alarm, unless it is raised already."""
        if (code, scope) not in self._raised and len(self._raised) < self.ALARMS_MAX:
            self._raised[code, scope] = Alarm(code, message, self.now_ms)
            self.raised_count += 1
            self._log("alarm", level="error", code=code, message=message)

    def raise_now(self, code: str, scope: str, message: str) -> None:
        """Raise an alarm whose figures change, or renew its message."""
        self.raise_once(code, scope, message)
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
