"""A copy of some keys that is kept by a watch alone, for checks that watches tell all that happens."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from crdtsync.client import Client, Event
from crdtsync.errors import CrdtSyncError
from tests.harness.cluster import wait_until


class Mirror:
    """``values`` holds what a consumer believes who only looks at events: for each living key the winner's value."""

    def __init__(self, client: Client, prefix: str = "") -> None:
        self.values: dict[str, Any] = {}
        self.events = 0
        self._failure: CrdtSyncError | None = None
        self._watch = client.watch(prefix)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.close()
        self._thread.join(60)

    def wait_for(self, expected: dict[str, Any], timeout_s: float = 60.0) -> None:
        """Until it holds exactly this."""
        with suppress(AssertionError):  # the message below says more
            wait_until(lambda: self._failure or self.values == expected, timeout_s)
        if self._failure is not None:
            raise self._failure
        keys = sorted({*self.values, *expected})
        wrong = {
            key: (self.values.get(key), expected.get(key)) for key in keys if self.values.get(key) != expected.get(key)
        }
        assert not wrong, (
            f"the watch told {len(wrong)} of {len(keys)} keys wrong (told, is): {dict(list(wrong.items())[:4])}"
        )
        assert self.values.keys() == expected.keys()

    def _run(self) -> None:
        try:
            for event in self._watch:
                self.events += 1
                self._take(event)
        except CrdtSyncError as error:
            self._failure = error

    def _take(self, event: Event) -> None:
        for part in event.events:
            self._take(part)
        if event.event == "reset":
            self.values.clear()
        elif event.key is None:
            return
        elif event.event in ("delete", "expired"):
            self.values.pop(event.key, None)
        elif event.event == "set" and event.op in _CHANGES:
            self.values[event.key] = _CHANGES[event.op](self.values.get(event.key), event.value)
        else:
            self.values[event.key] = event.value


def _without(held: list[Any] | None, element: Any) -> list[Any]:
    return [each for each in held or () if each != element]


_CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda held, element: [*_without(held, element), element],
    "discard": _without,
    "merge": lambda held, fields: {**(held or {}), **fields},
    "drop": lambda held, field: {name: value for name, value in held.items() if name != field},
}
"""What an event that tells a part makes of the whole, by its ``op``."""
