"""What a node says of itself through its agents' socket: its status, and the newest of its keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    from crdtsyncd.devfleet.process import DevNode

    from crdtsync.client import AsyncClient, Entry, Event

POLL_S = 0.5
ANSWER_TIMEOUT_S = 1.0
RECORDS_MAX = 100
READ_AT_ONCE_MAX = 16
VALUE_CHARS_MAX = 200


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key as one node shows it now. Nodes that hold the same of it have the same ``stamp``."""

    key: str
    shown: str
    is_conflict: bool
    agent: str
    node: str
    time: datetime
    stamp: object


class Observer:
    """Follows one member. ``status`` is None while it does not answer, though it should if ``is_silent``."""

    def __init__(self, member: DevNode) -> None:
        self.member = member
        self.status: dict[str, Any] | None = None  # Any: as docs/reference/agent-protocol.md has it
        self.is_silent = False
        self.records: dict[str, KeyRecord] = {}
        self._touched: dict[str, None] = {}

    async def run(self) -> None:
        """Follow it for ever, through its restarts."""
        from crdtsync.client import AsyncClient

        socket = self.member.place.socket
        while True:
            try:
                async with AsyncClient(socket=socket, agent="cluster-view", timeout=ANSWER_TIMEOUT_S) as client:
                    await self._follow(client)
            except CrdtSyncError:
                self.status = None
                await asyncio.sleep(POLL_S)

    async def _follow(self, client: AsyncClient) -> None:
        watching = asyncio.create_task(self._watch(client))
        try:
            while not watching.done():
                await self._poll(client)
                await asyncio.sleep(POLL_S)
            watching.result()
        finally:
            watching.cancel()

    async def _watch(self, client: AsyncClient) -> None:
        self.records.clear()
        async for event in client.watch():
            for part in event.events or [event]:
                self._take(part)

    async def _poll(self, client: AsyncClient) -> None:
        was_ready = self.member.is_ready
        try:
            self.status = await client.status()
            self.is_silent = False
            keys = list(self._touched)[-READ_AT_ONCE_MAX:]
            entries = await asyncio.gather(*(client.entry(key) for key in keys))
        except CrdtSyncError:
            self.status = None
            self.is_silent = was_ready
            return
        for key, entry in zip(keys, entries, strict=True):
            self._touched.pop(key, None)
            self._put(key, None if entry is None else _record(entry))

    def _take(self, event: Event) -> None:
        if event.event == "reset":
            self.records.clear()
            self._touched.clear()
        if event.key is None:
            return
        if event.event == "delete":
            self._touched.pop(event.key, None)
            self._put(event.key, None)
        elif event.kind == "log":
            self._take_log(event)
        else:  # read at the next poll: the event of a text's edit does not have the text
            self._touched.pop(event.key, None)
            self._touched[event.key] = None
            while len(self._touched) > RECORDS_MAX:
                del self._touched[next(iter(self._touched))]

    def _take_log(self, event: Event) -> None:
        """A log is not read again, for it may be long; what was appended last stands for it."""
        assert event.key is not None
        if event.time is None or event.op == "trim":
            return
        value = (event.value or [None])[-1] if event.op == "state" else event.value
        stamp = (event.time, event.agent, event.node)
        old = self.records.get(event.key)
        if old is None or old.time <= event.time:
            record = KeyRecord(
                event.key, f"+ {short(value)}", False, event.agent or "", event.node or "", event.time, stamp
            )
            self._put(event.key, record)

    def _put(self, key: str, record: KeyRecord | None) -> None:
        self.records.pop(key, None)
        if record is not None:
            self.records[key] = record
            while len(self.records) > RECORDS_MAX:
                del self.records[next(iter(self.records))]


def newest(observers: Iterable[Observer], count: int) -> list[KeyRecord]:
    """The keys written last, newest first, each as the node shows it that has the newest of it."""
    best: dict[str, KeyRecord] = {}
    for observer in filter(is_answering, observers):
        for record in observer.records.values():
            if record.key not in best or best[record.key].time < record.time:
                best[record.key] = record
    return sorted(best.values(), key=lambda record: (record.time, record.key), reverse=True)[:count]


def short(value: object) -> str:
    """A value as JSON on one line without anything that could upset a terminal, cut to what a screen can show."""
    from crdtsyncd.cli.data.json_values import dumps

    text = dumps(value)[:VALUE_CHARS_MAX]
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def _record(entry: Entry) -> KeyRecord:
    values = [entry.value, *(sibling.value for sibling in entry.siblings)]
    newest_time = max((e.time for e in (entry, *entry.siblings) if e.time is not None), default=datetime.min)  # noqa: DTZ901
    return KeyRecord(
        entry.key,
        "  ≠  ".join(short(value) for value in values),
        len(values) > 1,
        entry.agent or "",
        entry.node or "",
        newest_time,
        entry.version,
    )


def is_answering(observer: Observer) -> bool:
    """Whether the node runs and has answered the last question."""
    return observer.member.is_ready and observer.status is not None
