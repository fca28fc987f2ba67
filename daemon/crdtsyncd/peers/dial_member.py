"""Keeping a connection to a member, at whichever of its addresses it answers itself."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from time import monotonic

from crdtsyncd.peers.websocket_peer import AnotherAnswers, PeerSink, Tries, attempt, backoff_s
from crdtsyncd.telemetry.event_log import log

IDLE_S = (0.5, 1.5)
"""Between two looks at a member that is connected, or has no address to try."""
ASTRAY_S_FIRST = 15.0
ASTRAY_S_MAX = 600.0
"""Until an address at which another member answers is tried again."""


class Detours:
    """The addresses of one member at which another answered: left alone for a while, longer each time.

    An address may be the same on many hosts, as that of a bridge for containers is; or was the member's, and is not any
    more; or was never its own.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._until_s: dict[str, tuple[float, float]] = {}

    def left(self, addresses: tuple[str, ...]) -> list[str]:
        """Those to try now. It forgets an address that is no longer the member's."""
        self._until_s = {address: until for address, until in self._until_s.items() if address in addresses}
        now_s = self._clock()
        return [address for address in addresses if self._until_s.get(address, (0.0, 0.0))[0] <= now_s]

    def note(self, address: str) -> bool:
        """Another node answered there. Whether that is news."""
        _, waited_s = self._until_s.get(address, (0.0, 0.0))
        wait_s = min(ASTRAY_S_MAX, 2 * waited_s) if waited_s else ASTRAY_S_FIRST
        self._until_s[address] = (self._clock() + wait_s, wait_s)
        return not waited_s


async def dial_member_forever(
    node: str, sink: PeerSink, is_linked: Callable[[str], bool], addresses_of: Callable[[str], tuple[str, ...]]
) -> None:
    """Keep a connection to a member at whichever of its addresses answers; names are resolved again at each attempt.

    Where another one answers, nothing is said to it.
    """
    tries, turn = Tries(), 0
    detours = Detours()
    while True:
        found = detours.left(addresses_of(node))
        if is_linked(node) or not found:
            await asyncio.sleep(random.uniform(*IDLE_S))
            continue
        address = found[turn % len(found)]
        turn += 1
        try:
            tries = await attempt(f"wss://{address}", sink, tries, node)
        except AnotherAnswers as another:
            if detours.note(address):
                log("address_of_another", level="warning", node=node, address=address, found=another.node)
            sink.misled(node, address, another.node)
            continue
        await asyncio.sleep(backoff_s(tries))
