"""A log as it grows: what is there, then what comes, each element once.

A reading names the point that it shows, and a watch goes on right behind it. A watch that is lost (it was too slow, or
was reset) begins again behind the last event that it brought: then the daemon's log tells what came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsyncd.cli.show import output

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from crdtsync.client import Client, Event, Listing, LogItem, Session

PAGE_ITEMS = 1000
_GAPS = ("lagged", "reset", "snapshot")  # from here on a watch tells what there is, and no longer what was done


def log_pages(client: Session, key: str, start: int | LogItem = 0) -> Iterator[Listing[LogItem]]:
    """The elements from ``start`` on, page by page, so that the first are out before the last are read."""
    while True:
        page = client.log_items(key, start=start, limit=PAGE_ITEMS)
        yield page
        if len(page) < PAGE_ITEMS:
            return
        start = page[-1]


class LogFollower:
    """One log being followed."""

    def __init__(self, client: Client, key: str) -> None:
        self._client = client
        self._key = key
        self._token: str | None = None  # the next watch goes on from here
        self._newest: LogItem | None = None
        self._ahead: set[str] = set()  # dots that were shown, and that a watch after the token brings again

    def pages(self, count: int | None) -> Iterator[list[LogItem]]:
        """The last ``count`` elements, or all, then for ever what is appended: lists, each as soon as it is there."""
        if count == 0:
            self._skip()
        else:
            yield from self._read(-count if count else 0)
        while True:
            can_resume = yield from self._watch()
            if not can_resume:
                output.warning(
                    f"history does not reach back: elements of {self._key!r} may be missing here, or come twice"
                )
                yield from self._read(self._newest or 0)

    def _skip(self) -> None:
        page = self._client.log_items(self._key, last=1)
        self._token, self._newest = page.token, page[-1] if page else None

    def _read(self, start: int | LogItem) -> Iterator[list[LogItem]]:
        """Read from ``start`` on; the watch goes on from the point that the first page shows."""
        for number, page in enumerate(log_pages(self._client, self._key, start)):
            yield self._new(page, page.token if number == 0 or page.token == self._token else None)

    def _watch(self) -> Generator[list[LogItem], None, bool]:
        """The items that come, until the watch is lost; returns whether another one can go on from the token."""
        has_begun = False
        with self._client.watch(self._key, after=self._token) as events:
            for event in events:
                if event.event in _GAPS:
                    return has_begun
                appends = [part for part in event.events or (event,) if part.key == self._key and part.op == "append"]
                if any(part.event == "conflict" for part in appends):
                    return (
                        True  # it tells the winner, which may be a rival of the log; the daemon's log tells the element
                    )
                yield self._new([_item(part) for part in appends], event.token)
                has_begun = True
        return True

    def _new(self, items: list[LogItem], token: str | None) -> list[LogItem]:
        """Those that were not shown before. The next watch goes on from ``token``; None: from where it did so far."""
        new = [item for item in items if item.dot not in self._ahead]
        if token is None:
            self._ahead.update(item.dot for item in new)
        else:
            self._token = token
        for item in new:
            if self._newest is None or _time(item) >= _time(self._newest):
                self._newest = item
        return new


def _item(event: Event) -> LogItem:
    """An appended element. A watch does not tell its index, and nobody asks for it."""
    from crdtsync.client import LogItem

    assert event.dot is not None, "an append adds an entry"
    return LogItem(-1, event.value, event.dot, event.agent, event.node, event.time)


def _time(item: LogItem) -> float:
    return item.time.timestamp() if item.time else 0
