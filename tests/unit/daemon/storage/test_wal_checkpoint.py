"""When rows leave the journal for their tables: a step behind each turn; and all of them where few come."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from crdtsyncd.storage import wal_checkpoint
from crdtsyncd.storage.open_database import WAL_CHECKPOINT_BYTES
from crdtsyncd.storage.wal_checkpoint import WalCheckpoints


class Store:
    """As much of a store as is looked at."""

    commits = 1
    has_pending = True
    backlog_records = 0
    is_crowded = False
    has_ended = False

    log_bytes = 0

    def __init__(self) -> None:
        self.settled = asyncio.Event()
        self.times = self.slices = self.some = self.emptied = 0

    def bring_some_in(self) -> bool:
        self.slices += 1
        self.backlog_records = max(0, self.backlog_records - 1)
        self.is_crowded = self.backlog_records > 0
        return True

    def wal_bytes(self) -> int:
        return self.log_bytes

    def checkpoint(self) -> None:
        """Nothing is written meanwhile."""

    def finish_checkpoint(self) -> bool:
        self.emptied += 1
        return True

    def work(self, _name: str) -> AbstractContextManager[None]:
        return nullcontext()

    def settle_some(self) -> bool:
        self.some += 1
        has_ended, self.has_ended = self.has_ended, False
        return has_ended

    def settle(self) -> None:
        self.times += 1
        self.settled.set()


class Owner:
    is_over = False

    def __init__(self) -> None:
        self.store: Any = Store()
        self.moved = 0

    def fail(self, error: Exception) -> None:
        raise error

    def recover_rows(self, error: Exception) -> None:
        raise error

    def rows_moved(self) -> None:
        self.moved += 1


async def test_what_comes_behind_the_end_of_a_transaction_has_time_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_checkpoint, "SETTLE_DELAY_S", 3600)
    owner = Owner()
    minding, store = WalCheckpoints(owner), owner.store
    minding.mind()
    monkeypatch.setattr(wal_checkpoint, "SETTLE_DELAY_S", 0.001)
    store.has_ended = True
    await asyncio.wait_for(store.settled.wait(), 10)
    assert store.times == 1


async def test_a_backlog_that_a_slice_brings_is_brought_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_checkpoint, "SETTLE_DELAY_S", 3600)
    owner = Owner()
    store = owner.store
    WalCheckpoints(owner).mind()
    store.has_ended, store.has_pending, store.backlog_records = True, False, 2
    for _ in range(20):
        await asyncio.sleep(0)
    assert (store.slices, store.times) == (2, 0)


async def test_what_came_to_the_journal_begins_its_way_behind_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_checkpoint, "SETTLE_DELAY_S", 3600)
    owner = Owner()
    minding, store = WalCheckpoints(owner), owner.store
    for turn in range(3):
        minding.mind()
        assert store.some == turn, "not within the turn: somebody waits for what it says"
        await asyncio.sleep(0)
    assert (store.some, store.times) == (3, 0)


async def test_one_that_is_not_full_is_emptied_a_little_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_checkpoint, "SETTLE_DELAY_S", 0.001)
    owner = Owner()
    WalCheckpoints(owner).mind()
    await asyncio.wait_for(owner.store.settled.wait(), 10)


async def test_rows_come_in_by_slices_and_then_nothing_is_done_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_checkpoint, "SETTLE_DELAY_S", 3600)
    owner = Owner()
    owner.store.backlog_records = 3
    WalCheckpoints(owner).mind()
    for _ in range(20):
        await asyncio.sleep(0)
    assert (owner.store.slices, owner.moved, owner.store.times) == (3, 3, 0), "what is in the journal has time"


async def test_while_somebody_waits_for_the_end_the_journal_is_emptied_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_checkpoint, "SETTLE_DELAY_S", 3600)
    owner = Owner()
    owner.store.is_crowded = True
    WalCheckpoints(owner).mind()
    for _ in range(20):
        await asyncio.sleep(0)
    assert (owner.store.times, owner.store.slices, owner.moved) == (1, 1, 1)


async def test_a_log_that_begins_anew_is_left_alone_until_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_checkpoint, "WAL_CHECKPOINT_BYTES", 4_194_304)
    owner = Owner()
    minding, store = WalCheckpoints(owner), owner.store
    emptied = []
    for size_bytes in (5_000_000, 5_000_000, 4_194_304, 4_300_000):  # the next transaction cuts the file to 4 MiB
        store.log_bytes, store.commits = size_bytes, store.commits + wal_checkpoint.WAL_LOOK_COMMITS
        minding.mind_wal()
        await minding.ended()
        emptied.append(store.emptied)
    assert emptied == [1, 1, 1, 2]


async def test_space_that_goes_back_while_nothing_is_committed_does_not_pile_up_in_the_log() -> None:
    """It left the file as long as it was: 51 MB lay in the write-ahead log of an idle daemon."""
    owner = Owner()
    minding, store = WalCheckpoints(owner), owner.store
    for rounds in range(1, 4):
        store.log_bytes = WAL_CHECKPOINT_BYTES + rounds
        minding.mind_wal()
        await minding.ended()
        assert store.emptied == rounds
