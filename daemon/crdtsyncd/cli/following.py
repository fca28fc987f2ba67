"""A log as it grows: what is there, then what comes, each element once.

A reading names the point that it shows, and a watch goes on right behind it; a watch that was too slow, or was reset,
begins again behind the last event that it brought.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsyncd.cli import output

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from crdtsync.client import Client, Event, Listing, LogItem

PAGE_ITEMS = 1000
_GAPS = ("lagged", "reset", "snapshot")  # from here on the watch tells what there is, and no longer what was done


def log_pages(client: Client, key: str, start: int | LogItem = 0) -> Iterator[Listing[LogItem]]:
    """The elements from ``start`` on, page by page, so that the first are out before the last are read."""
    while True:
        page = client.log_items(key, start=start, limit=PAGE_ITEMS)
        yield page
        if len(page) < PAGE_ITEMS:
            return
        start = page[-1]


class Follower:
    """One log being followed."""

    def __init__(self, client: Client, key: str) -> None:
        self._client = client
        self._key = key
        self._token: str | None = None  # the watch goes on from here
        self._last: LogItem | None = None
        self._ahead: set[str] = set()  # dots that a reading showed and the watch brings again

    def pages(self, count: int | None) -> Iterator[list[LogItem]]:
        """The last ``count`` elements, or all, and for ever after what is appended; each list as soon as it is there."""
        if count == 0:
            newest = self._client.log_items(self._key, last=1)
            self._token, self._last = newest.token, newest[-1] if newest else None
        else:
            yield from self._begin(-count if count else 0)
        while True:
            has_begun = yield from self._watch()
            if not has_begun:
                output.warning(f"the history of {self._key!r} has gaps: some elements may be missing here")
                yield from self._begin(self._last or 0)

    def _begin(self, start: int | LogItem) -> Iterator[list[LogItem]]:
        """Read, and let the watch go on from the point that the first page shows."""
        self._token = None
        yield from self._read(start)

    def _read(self, start: int | LogItem) -> Iterator[list[LogItem]]:
        for page in log_pages(self._client, self._key, start):
            self._token = self._token or page.token
            new = [item for item in page if item.dot not in self._ahead]
            if page.token != self._token:
                self._ahead.update(item.dot for item in new)
            yield from self._shown(new)

    def _shown(self, items: list[LogItem]) -> Iterator[list[LogItem]]:
        if items:
            self._last = items[-1]
            yield items

    def _watch(self) -> Iterator[list[LogItem]]:
        """What comes, up to a gap; returns whether anything came before it."""
        has_begun = False
        with self._client.watch(self._key, after=self._token) as events:
            for event in events:
                if event.event in _GAPS:
                    break
                yield from self._came(event)
                self._token = event.token or self._token
                has_begun = True
        return has_begun

    def _came(self, event: Event) -> Iterator[list[LogItem]]:
        appends = [part for part in _parts(event) if part.key == self._key and part.op == "append"]
        if any(part.event == "conflict" for part in appends):  # it brings the winner, which may be something else
            yield from self._read(self._last or 0)
        else:
            yield from self._shown([_item(part) for part in appends if part.dot not in self._ahead])


def _parts(event: Event) -> Iterable[Event]:
    return event.events if event.event == "batch" else (event,)


def _item(event: Event) -> LogItem:
    """An appended element. A watch does not tell its index, and nobody asks for it."""
    from crdtsync.client import LogItem

    assert event.dot is not None, "an append adds an entry"
    return LogItem(-1, event.value, event.dot, event.agent, event.node, event.time)
