"""Acknowledgements that no turn brings: sent when they are due, by one timer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import uvloop
from crdtsyncd.loop.timers import AckTimer


@dataclass
class Owing:
    ack_due_s: float | None = None


async def test_what_is_owed_is_sent_when_it_is_due_and_once() -> None:
    loop, owing, sent = asyncio.get_running_loop(), Owing(), asyncio.Queue[float]()

    def send() -> None:
        owing.ack_due_s = None
        sent.put_nowait(loop.time())

    acks = AckTimer(send, lambda: owing.ack_due_s)
    acks.mind()
    assert acks._timer is None, "nothing is owed"
    owing.ack_due_s = due_s = loop.time() + 0.02
    for _ in range(3):
        acks.mind()
    assert await asyncio.wait_for(sent.get(), 10) >= due_s - 0.002
    assert acks._timer is None
    assert sent.empty()


async def test_what_is_due_sooner_is_not_kept_waiting_and_what_was_not_sent_is_minded_again() -> None:
    loop, owing, sent = asyncio.get_running_loop(), Owing(asyncio.get_running_loop().time() + 3600), asyncio.Event()

    def send() -> None:
        if owing.ack_due_s == 0.0:
            owing.ack_due_s = loop.time() + 0.001  # a turn was due; nothing could be sent
        else:
            owing.ack_due_s = None
            sent.set()

    acks = AckTimer(send, lambda: owing.ack_due_s)
    acks.mind()
    owing.ack_due_s = 0.0
    acks.mind()
    await asyncio.wait_for(sent.wait(), 10)
    owing.ack_due_s = loop.time() + 3600
    acks.mind()
    acks.stop()
    assert acks._timer is None


def test_it_does_with_what_the_daemons_event_loop_has_for_what_is_overdue() -> None:
    async def mind_twice() -> None:
        acks = AckTimer(lambda: None, lambda: 0.0)
        acks.mind()
        acks.mind()
        assert acks._timer is not None

    uvloop.run(mind_twice())
