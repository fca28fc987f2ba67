"""Waiting between attempts: longer each time, never alike, and from the beginning after one that worked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from crdtsync.client import AsyncClient, Client
from crdtsync.client.protocol import backoff
from crdtsync.client.protocol.backoff import FIRST_S, MAX_S, Backoff
from tests.unit.client.mirror.test_mirrors import current, state, token

PATIENCE_S = 60.0


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The longest that each wait could have been; none waits."""
    seen: list[float] = []

    def none_of(limit_s: float) -> float:
        seen.append(limit_s)
        return 0.0

    monkeypatch.setattr(backoff, "random_up_to", none_of)
    return seen


def test_each_wait_may_be_twice_as_long_up_to_a_bound_and_what_worked_begins_anew(limits):
    waits = Backoff()
    for _ in range(50):
        waits.next_s()
    assert limits[:5] == [FIRST_S * 2**n for n in range(5)]
    assert limits[-1] == MAX_S
    assert limits == sorted(limits)
    waits.reset()
    waits.next_s()
    assert limits[-1] == FIRST_S


def test_two_that_begin_at_once_do_not_come_back_at_once():
    """Full jitter: anything from nothing to the bound, and no two processes alike."""
    waits = []
    for _ in range(200):
        one = Backoff()
        for _ in range(10):
            one.next_s()
        waits.append(one.next_s())
    assert len(set(waits)) > 190
    assert 0 <= min(waits) < 0.2 * MAX_S
    assert 0.8 * MAX_S < max(waits) <= MAX_S
    assert 0.35 * MAX_S < sum(waits) / len(waits) < 0.65 * MAX_S


TIMES = 4


def hang_up(peer):
    peer.greet()
    peer.receive()


def answer(peer):
    peer.greet()
    number, operation, _ = peer.receive()
    assert operation == "get"
    peer.reply(number, None)
    peer.wait_for_end()


def test_after_each_connection_that_worked_a_client_waits_shortly(daemon, limits):
    daemon.play(*[hang_up] * TIMES, answer)
    with Client(socket=daemon.path) as client:
        assert client.get("k") is None
    assert limits == [FIRST_S] * TIMES


async def test_so_does_an_asyncio_client(daemon, limits):
    daemon.play(*[hang_up] * TIMES, answer)
    async with AsyncClient(socket=daemon.path) as client:
        assert await client.get("k") is None
    assert limits == [FIRST_S] * TIMES


def show_and_hang_up(peer):
    peer.greet()
    peer.receive()
    peer.reply(2, {"token": token(0)})
    peer.events(2, state("k", 1), current(1))


def until(happened: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def test_so_does_a_mirror(daemon, limits):
    daemon.play(daemon.idle, *[show_and_hang_up] * TIMES, daemon.idle)
    with Client(socket=daemon.path) as client, client.mirror(""):
        until(lambda: len(limits) >= TIMES)
    assert limits[:TIMES] == [FIRST_S] * TIMES


async def test_so_does_an_asyncio_mirror(daemon, limits):
    daemon.play(daemon.idle, *[show_and_hang_up] * TIMES, daemon.idle)
    async with AsyncClient(socket=daemon.path) as client, client.mirror(""):
        await asyncio.to_thread(until, lambda: len(limits) >= TIMES)
    assert limits[:TIMES] == [FIRST_S] * TIMES
