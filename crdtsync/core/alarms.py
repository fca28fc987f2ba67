"""The alarms that are raised: each is logged once, and shown in the status until it clears."""

from __future__ import annotations

from collections.abc import Callable, Collection

from crdtsync.core.alarm_catalogue import Alarm
from crdtsync.named_tuple import NamedTuple

ALARM_KEYS_MAX = 100
"""Keys that an alarm remembers as its subject; with more, it may be about any."""


class Raised(NamedTuple):
    """An alarm that is raised.

    :param code: for programs
    :param message: for people
    :param since_ms: in ms since 1970 UTC
    :param keys: which ones it is about; None: about any
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
    """Alarms that are raised at once."""

    def __init__(self, log: Callable[..., None]) -> None:
        self.now_ms = 0
        self.raised_count = 0
        self._log = log
        self._raised: dict[tuple[str, str], Raised] = {}

    def raise_once(self, alarm: Alarm, scope: str, message: str, keys: Collection[str] | None = None) -> None:
        """Raise an alarm, unless it is raised already: then it is about these ``keys`` too."""
        raised = self._raised.get((alarm.code, scope))
        if raised is not None:
            self._raised[alarm.code, scope] = raised._replace(keys=_united(raised.keys, keys))
        elif len(self._raised) < self.ALARMS_MAX:
            self._raised[alarm.code, scope] = Raised(alarm.code, message, self.now_ms, _united(frozenset(), keys))
            self.raised_count += 1
            self._log("alarm", level="error", code=alarm.code, message=message)

    def set(self, alarm: Alarm, scope: str, message: str, keys: Collection[str] | None = None) -> None:
        """Raise an alarm or renew its message; clear the alarm if the message is empty."""
        if not message:
            self.clear(alarm, scope)
            return
        self.raise_once(alarm, scope, message, keys)
        raised = self._raised.get((alarm.code, scope))
        if raised is not None:
            self._raised[alarm.code, scope] = raised._replace(message=message)

    def journal(self, event: str, **fields: object) -> None:
        """Log what happened, each time that it does."""
        self._log(event, level="warning", **fields)

    def clear(self, alarm: Alarm, scope: str) -> None:
        """The reason for an alarm is gone."""
        if self._raised.pop((alarm.code, scope), None) is not None:
            self._log("alarm_cleared", code=alarm.code, scope=scope)

    def of(self, scope: str) -> list[Raised]:
        """Those of one scope."""
        return [raised for (_, of), raised in sorted(self._raised.items()) if of == scope]

    def scopes(self, alarm: Alarm) -> list[str]:
        """Where an alarm is raised."""
        return sorted(scope for code, scope in self._raised if code == alarm.code)

    def raised(self) -> list[Raised]:
        """All that are raised, in order of code and scope."""
        return [raised for _, raised in sorted(self._raised.items())]


def _united(one: frozenset[str] | None, other: Collection[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return None
    keys = one.union(other)
    return keys if len(keys) <= ALARM_KEYS_MAX else None
