"""A member is dialled where it answers, and not for ever where another one does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from crdtsyncd.peers import dial_member
from crdtsyncd.peers.dial_member import ASTRAY_S_FIRST, ASTRAY_S_MAX, Detours, dial_member_forever
from crdtsyncd.peers.websocket_peer import AnotherAnswers, Tries

OWN, FALSE = "192.0.2.1:7420", "172.17.0.1:7420"


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_false_address_is_left_alone_longer_each_time():
    clock = Clock()
    detours = Detours(clock)
    assert detours.left((OWN, FALSE)) == [OWN, FALSE]
    assert detours.note(FALSE)
    waits = []
    for _ in range(9):
        began_s = clock.now_s
        while FALSE not in detours.left((OWN, FALSE)):
            clock.now_s += 1
        waits.append(clock.now_s - began_s)
        assert not detours.note(FALSE)
    assert waits[:3] == [ASTRAY_S_FIRST, 2 * ASTRAY_S_FIRST, 4 * ASTRAY_S_FIRST]
    assert waits[-1] == ASTRAY_S_MAX


def test_an_address_that_goes_and_comes_back_is_tried_at_once():
    detours = Detours(Clock())
    detours.note(FALSE)
    assert detours.left((OWN,)) == [OWN]
    assert detours.left((OWN, FALSE)) == [OWN, FALSE]


async def test_another_that_answers_is_told_and_the_true_address_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    dialled: list[str] = []
    told: list[tuple[str, str, str]] = []
    connected = asyncio.Event()

    async def attempt(url: str, _sink: Any, _tries: Tries, wanted: str) -> Tries:
        dialled.append(url)
        if url == f"wss://{FALSE}":
            raise AnotherAnswers("a" * 32)
        assert wanted == "b" * 32
        if len(dialled) > 5:
            connected.set()
            await asyncio.Event().wait()
        return Tries()

    class Sink:
        def misled(self, *what: str) -> None:
            told.append(what)  # type: ignore[arg-type]

    monkeypatch.setattr(dial_member, "attempt", attempt)
    monkeypatch.setattr(dial_member, "backoff_s", lambda _: 0.0)
    sink: Any = Sink()
    task = asyncio.create_task(dial_member_forever("b" * 32, sink, lambda _: False, lambda _: (FALSE, OWN)))
    await asyncio.wait_for(connected.wait(), 10)
    task.cancel()
    assert dialled.count(f"wss://{FALSE}") == 1
    assert told == [("b" * 32, FALSE, "a" * 32)]
