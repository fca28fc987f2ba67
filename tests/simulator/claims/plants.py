"""Faults of claims, each as a way to break the code; the judge finds all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from crdtsync.coordination import AsyncLease
from crdtsync.coordination.aio.quorum import Moment
from crdtsync.coordination.claim_record import ASK, HELD, claims_in, path_of, refusal
from crdtsync.core.peers.voter import Voter
from crdtsync.errors import VersionMismatch
from crdtsync.wire.peer.votes import Vote, Voted
from tests.simulator.claims.machines import KEYS, Machine
from tests.simulator.claims.virtual_loop import PROCESS


def _wall_s() -> float:
    process = PROCESS.get()
    return 0.0 if process is None else process.wall_s()  # whoever looks when all is over holds nothing long


async def _ask_nobody(lease: AsyncLease, **over: Any) -> None:
    asked = await lease._write(ASK, **over, bind=True)
    lease.is_confirmed, lease.fence, lease._alone = True, asked.clock, asked.alone


async def _ask_and_do_not_look(lease: AsyncLease, **over: Any) -> None:
    await _ask_all(lease, **over)
    lease._alone = lease.fence


async def _bind_by_wall_clock(lease: AsyncLease) -> None:
    lease.fence = int(_wall_s())


async def _ask_by_wall_clock(lease: AsyncLease, **over: Any) -> None:
    await _ask_all(lease, **over)
    lease.fence = int(_wall_s())
    lease._alone = lease._alone and lease.fence


@contextmanager
def _fences_by_wall_clock() -> Iterator[None]:
    with (
        patch.object(AsyncLease, "_bind", _bind_by_wall_clock),
        patch.object(AsyncLease, "_ask_all", _ask_by_wall_clock),
    ):
        yield


async def _hold_at_once(lease: AsyncLease) -> None:
    await lease._write(HELD, seen=lease._version)


async def _hold_beside_asks(lease: AsyncLease) -> None:
    await _hold_anyway(lease, lambda _: {"seen": lease._version})


async def _hold_over_asks(lease: AsyncLease) -> None:
    await _hold_anyway(lease, lambda current: {"if_version": current.version})


async def _hold_anyway(lease: AsyncLease, over: Callable[[Any], dict[str, Any]]) -> None:
    try:
        await lease._write(HELD, if_version=lease._version)
    except VersionMismatch as mismatch:
        if lease._is_behind(claims_in(mismatch.current)):
            raise refusal(lease.key, []) from None
        await lease._bind()
        await lease._write(HELD, **over(mismatch.current))


class _Longer:
    """In the place of a lease's ``_until_s``: what is only asked for counts for ``ttl`` from when that was answered."""

    def __get__(self, lease: AsyncLease, _: object = None) -> float:
        return float(lease.__dict__["until_s"])

    def __set__(self, lease: AsyncLease, until_s: float) -> None:
        lease.__dict__["until_s"] = until_s + (lease.ttl - lease._asked_s if lease._alone and until_s else 0)


_start = Machine.start


def _start_without_claims(machine: Machine) -> None:
    _start(machine)
    agent = machine.agent("forgetful")
    for key in KEYS:
        agent.delete(path_of(key))
    agent.close()
    machine.feed()


async def _free_all(lease: AsyncLease) -> None:
    lease._version = None
    await lease._state.delete(lease._path, seen=None)


async def _look_away(lease: AsyncLease) -> Any:
    return await lease._state.entry(lease._path)


def _give_all(voter: Voter, vote: Vote, _sender: str) -> Voted:
    voter._forget(vote.key)
    return voter._voted(vote, True)


def _forget_promises(voter: Voter, now_s: float) -> None:
    _load(voter, now_s)
    voter.promises.clear()


def _admit_oneself(voter: Voter, _now_s: float) -> None:
    voter.is_admitted = True


_ask_all = AsyncLease._ask_all
_load = Voter.load
_QUORUM = "crdtsync.coordination.aio.quorum"
_VOTER = "crdtsync.core.peers.voter"

QUORUM_PLANTS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "a vote forgotten at a restart": lambda: patch.object(Voter, "load", _forget_promises),
    "a voter that has forgotten votes at once": lambda: patch.object(Voter, "settle", _admit_oneself),
    "a lease counted from the wrong clock": lambda: patch.object(
        Moment, "passed_s", lambda asked: _wall_s() - asked.wall_s
    ),
    "a lease counted from the answer": lambda: patch.object(Moment, "passed_s", lambda asked: 0.0),
    "a promise that ends with its time": lambda: patch(f"{_VOTER}.DRIFT", 0.9),
    "a fence reused": lambda: patch.object(Voter, "highest", lambda _voter, _key: 0),
    "a vote without a majority": lambda: patch.object(Voter, "majority", 1),
    "a promise given back by anybody": lambda: patch.object(Voter, "_give", _give_all),
}
"""Those of claims by quorum."""

PLANTS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "nobody is asked": lambda: patch.object(AsyncLease, "_ask_all", _ask_nobody),
    "a lease counted from the wrong clock": lambda: patch("crdtsync.coordination.aio.claims._now_s", _wall_s),
    "a holder that forgets the time": lambda: patch.object(
        AsyncLease, "is_held", property(lambda lease: lease._version is not None and not lease._lost)
    ),
    "a fence reused": _fences_by_wall_clock,
    "a claim forgotten at a restart": lambda: patch.object(Machine, "start", _start_without_claims),
    "a release that frees what others hold": lambda: patch.object(AsyncLease, "_withdraw", _free_all),
    "a loser that is not told": lambda: patch.object(AsyncLease, "_look", _look_away),
    "two who ask at once and do not look": lambda: patch.object(AsyncLease, "_hold", _hold_at_once),
    "two who ask at once and both hold": lambda: patch.object(AsyncLease, "_ask_all", _ask_and_do_not_look),
    "one who has paused holds with an earlier fence": lambda: patch.object(AsyncLease, "_hold", _hold_beside_asks),
    "a claim that ends with what looks like an ask": lambda: patch.object(AsyncLease, "_hold", _hold_over_asks),
    "an ask that counts for as long as a claim": lambda: patch.object(AsyncLease, "_until_s", _Longer(), create=True),
}
"""By what is wrong."""

CAUGHT_BY = {
    "nobody is asked": 0,
    "a lease counted from the wrong clock": 14,
    "a holder that forgets the time": 1,
    "a fence reused": 0,
    "a claim forgotten at a restart": 1,
    "a release that frees what others hold": 3,
    "a loser that is not told": 16,
    "two who ask at once and do not look": 0,
    "two who ask at once and both hold": 0,
    "one who has paused holds with an earlier fence": 45,
    "a claim that ends with what looks like an ask": 347,
    "an ask that counts for as long as a claim": 20,
}
"""The first seed that finds it; played first."""
