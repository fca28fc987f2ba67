"""What the driver does when a step fails, and that no reply leaves before what it says is stored."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from crdtsyncd.backup.backup import Backups
from crdtsyncd.config.model import Config
from crdtsyncd.loop.driver import Driver
from crdtsyncd.loop.recovery import Recovery
from crdtsyncd.security.node_key import load_or_make_key
from crdtsyncd.security.trusted_members import Trust
from crdtsyncd.storage.database import Store

from crdtsync.core import heal_forks
from crdtsync.core.access.agent import User
from crdtsync.core.agents.frames import Reply
from crdtsync.core.cluster.admission import INVITES_META, Reach
from crdtsync.core.interface import AgentFrame, Tick
from crdtsync.errors import StorageError
from crdtsync.wire.codec import pack, unpack


async def test_an_error_of_the_disk_in_the_middle_of_a_step_ends_it_and_is_no_bug() -> None:
    """Whoever reads brings rows of the journal into their tables: that may fail."""
    driver = Driver.__new__(Driver)
    driver.failed = asyncio.get_running_loop().create_future()
    Recovery(driver).step_failed(Tick(), StorageError("the disk is gone"))
    assert driver.failed.result() == "the disk is gone"


async def test_after_an_error_of_the_disk_nothing_is_acknowledged_that_was_not_committed() -> None:
    """Writes of the same agent were stepped before it, and wait for a commit that does not come."""
    driver: Any = Driver.__new__(Driver)
    driver.failed, driver._is_stopped, driver._flush_due = asyncio.get_running_loop().create_future(), False, None
    agent = Mock()
    driver._agents, driver.progress, driver.times = {1: agent}, 0, Mock()
    driver._node = Mock(take_replies=lambda: [Reply(1, 1, b"done")], dispatcher=Mock(replies=[]), rows_to_write=0)
    driver._gate = Mock()
    driver.agent_served()
    agent.write.assert_called_once_with(b"done")
    agent.write.reset_mock()
    driver.fail(StorageError("the disk is gone"))
    driver._flush()
    driver.agent_frame(1, b"more")
    driver.agent_served()
    agent.write.assert_not_called()


def test_leftovers_that_cannot_be_looked_for_keep_nobody_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "glob", fail)
    Backups(tmp_path / "db", dict, 0)


class Root:
    """The connection of an agent that runs this node; what it was answered, and how many invites were stored then."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.heard: list[tuple[list[Any], int]] = []
        connection: Any = self
        self.conn = driver.agent_opened(connection, User(os.geteuid()), 1)

    def ask(self, request: int, operation: str, **args: Any) -> None:
        self._driver.agent_frame(self.conn, pack([request, operation, args]))

    def write(self, data: bytes) -> None:
        stored = len(self._driver.store.metas(INVITES_META))
        while data:
            end = 4 + int.from_bytes(data[:4], "big")
            self.heard.append((unpack(data[4:end]), stored))
            data = data[end:]

    def close(self) -> None:
        """Nothing to close."""


@pytest.fixture
async def driver(tmp_path: Path) -> AsyncIterator[Driver]:
    data = tmp_path / "data"
    config = Config(data_dir=data, socket=tmp_path / "agent.sock", ballast_bytes=0, free_bytes_min=0)
    store = Store(data, tmp_path, lambda: load_or_make_key(data).node, b"c" * 16)
    made = Driver(config, store, Store, Trust(lambda: load_or_make_key(data), store.cluster, is_plain=False), "0")
    try:
        yield made
    finally:
        await made.finish()
        store.close()


async def test_a_plan_between_a_request_and_its_turn_lets_no_reply_out_before_the_commit(driver: Driver) -> None:
    """The plan's timer may run out just then. What is due is not to be worked out from what has been stepped only."""
    key = driver.trust.key
    driver.feed(Reach(((key.pin, key.certificate),), ("127.0.0.1:1",), "", 0, (os.geteuid(),)))
    root = Root(driver)
    root.ask(1, "hello", protocol=1, client=b"c" * 16, agent="root")
    root.ask(2, "cluster_init")
    await driver.breathe()
    driver._planner.plan()
    root.ask(3, "cluster_invite", local=True)
    driver._planner.plan()
    await driver.breathe()
    answers = {answer[0]: (answer[1], stored) for answer, stored in root.heard}
    assert answers[3] == (0, 1)


class Leaving(Root):
    """An agent whose connection ends while it is answered, as a socket's does that takes no more."""

    is_known = False  # to the node, right after that

    def write(self, data: bytes) -> None:
        super().write(data)
        self._driver.agent_closed(self.conn)
        self.is_known = self.conn in self._driver.core.dispatcher.agents


async def test_what_delivering_brings_about_is_taken_in_once_it_is_over(driver: Driver) -> None:
    agent = Leaving(driver)
    agent.ask(1, "hello", protocol=1, client=b"c" * 16, agent="leaving")
    await driver.breathe()
    assert [answer[:2] for answer, _ in agent.heard] == [[1, 0]]
    assert agent.is_known
    await driver.breathe()
    await driver.breathe()
    assert agent.conn not in driver.core.dispatcher.agents


class Pausing(Root):
    """An agent whose socket is full while it is answered, and is not before anything else happens."""

    def write(self, data: bytes) -> None:
        super().write(data)
        asyncio.get_running_loop().call_soon(self._driver.agent_flow, self.conn, False)
        self._driver.agent_flow(self.conn, blocked=True)


async def test_whose_socket_is_full_for_a_moment_is_told_on(driver: Driver) -> None:
    """That it takes more again is said before the turn for which it was noted that it takes no more."""
    agent = Pausing(driver)
    agent.ask(1, "hello", protocol=1, client=b"c" * 16, agent="pausing")
    agent.ask(2, "watch", prefix="")
    for _ in range(3):
        await driver.breathe()
    (watch,) = driver.core.dispatcher.watches.of_conn(agent.conn)
    assert not watch.blocked
    agent.ask(3, "set", key="k", value=b"\x01", n=1)
    await driver.breathe()
    assert [answer[0] for answer, _ in agent.heard][-2:] == [3, 2]


async def test_while_much_waits_for_a_fork_to_heal_nobody_is_read_further(driver: Driver) -> None:
    went_on: list[str] = []
    healing = driver.core.fork_healing
    healing.wait(AgentFrame(99, bytes(heal_forks.WAITING_BYTES_MAX + 1)))
    assert not driver.may_go_on("one", lambda: went_on.append("one"))
    assert went_on == []
    driver.feed(Tick())
    await driver.breathe()
    assert not healing.waiting
    assert went_on == ["one"]
    assert driver.may_go_on("one", lambda: went_on.append("again"))


def holds(driver: Driver) -> dict[str, int]:
    """How often the loop was held, by kind; it is free now."""
    assert (driver.times.since_s, driver.times.has_turn, len(driver.times.events)) == (0.0, False, 0)
    return {kind: sum(held.counts) for kind, held in driver.times.held.items()}


async def test_what_holds_the_loop_is_measured_until_it_is_free(driver: Driver) -> None:
    agent = Root(driver)
    agent.ask(1, "hello", protocol=1, client=b"c" * 16, agent="root")
    await driver.breathe()
    before = holds(driver)
    agent.ask(2, "set", key="k", value=b"\x01")
    assert driver.times.has_turn
    await driver.breathe()
    after = holds(driver)
    assert after["full"] + after["short"] == before["full"] + before["short"] + 1
    driver._planner.plan()  # from now on it is known that nothing is due
    for request in (3, 4):
        agent.ask(request, "get", key="k")
    assert driver.times.since_s > 0.0
    driver.agent_served()
    assert holds(driver) == after | {"at_once": after["at_once"] + 1}
    assert [answer[0] for answer, _ in agent.heard] == [1, 2, 3, 4]


class Waiting(Root):
    """An agent who notes whether somebody could be looking for garbage while it waits."""

    could_wait = False

    def write(self, data: bytes) -> None:
        super().write(data)
        self.could_wait |= gc.isenabled()


async def test_garbage_is_looked_for_when_a_turn_is_over_and_not_amid_it(driver: Driver) -> None:
    assert gc.isenabled()
    agent = Waiting(driver)
    agent.ask(1, "hello", protocol=1, client=b"c" * 16, agent="waiting")
    agent.ask(2, "set", key="k", value=b"\x01", n=1)
    assert not gc.isenabled()
    await driver.breathe()
    assert [answer[0] for answer, _ in agent.heard] == [1, 2]
    assert not agent.could_wait
    assert gc.isenabled()


async def test_a_step_or_a_turn_that_fails_frees_the_loop_too(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    times = driver.times
    for owner, method in ((driver.core, "step"), (driver.core, "ready"), (driver.store, "commit")):
        before = sum(sum(held.counts) for held in times.held.values())
        with monkeypatch.context() as patched:
            patched.setattr(owner, method, fail)
            driver.feed(Tick())
            await asyncio.sleep(0)
        assert gc.isenabled() or driver._flush_due is not None
        assert sum(sum(held.counts) for held in times.held.values()) > before
        assert bool(times.since_s) == times.has_turn == (driver._flush_due is not None), "but for a turn that followed"
