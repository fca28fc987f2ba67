"""Claims for asyncio: ask, wait until every host that can be reached has heard of it, hold, renew, give back."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from crdtsync.client import Entry
from crdtsync.client.aio.background import AsyncBackground, call, wake_up, woken
from crdtsync.client.values.patterns import check_prefix
from crdtsync.coordination.claim_record import (
    ASK,
    HELD,
    PREFIX,
    Claim,
    Patience,
    claims_in,
    kept_s,
    listed,
    path_of,
    record,
    refusal,
)
from crdtsync.errors import (
    ClaimHeld,
    ClaimLost,
    CrdtSyncError,
    DaemonUnavailable,
    InvalidRequest,
    NotAllowed,
    Timeout,
    VersionMismatch,
)

if TYPE_CHECKING:
    from crdtsync.client.aio.client import AsyncSession
    from crdtsync.client.aio.watch import AsyncWatch
    from crdtsync.client.operations.batch import Batch
    from crdtsync.client.values.write_result import Written

ANSWER_S = 2.0
"""How long other hosts may take to answer an ask. A host that takes longer is left out, as one that is cut off."""
SHORT_S = 0.1
"""An agent that gives a claim back within so much is spared a connection on which others' claims would be told."""
ASKED_S = 10.0
"""How long others wait at most for who has asked to hold or to go."""
TTL_MIN_S, TTL_MAX_S = 1.0, 7 * 24 * 3600.0
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _now_s() -> float:
    """The holder's clock. It goes on while the machine sleeps, so that who wakes up knows that its time is over."""
    return time.clock_gettime(_BOOT_CLOCK)


class AsyncLease:
    """A claim on a key, made by ``state.claim(key)``: held in an ``async with`` block, and renewed meanwhile.

    ``fence`` is a number that grows from claim to claim of the key, on all hosts. ``is_confirmed``: every other host
    that could be reached has answered; if one has not within two seconds, or is cut off, it may have another holder.
    ``on_lost`` is called when it is lost. ``agent`` and ``node`` say under whose name it is held, and on which host.
    """

    def __init__(
        self,
        state: AsyncSession,
        key: str,
        ttl: float,
        wait: bool | float,
        keep: bool,
        on_lost: Callable[[], object] | None,
        patience: Patience | None = None,
    ) -> None:
        if not TTL_MIN_S <= ttl <= TTL_MAX_S:
            raise InvalidRequest(f"the ttl of a claim is {TTL_MIN_S:g} s to 7 days, not {ttl:g} s")
        self.key = key
        self.ttl = ttl
        self.fence = 0
        self.is_confirmed = False
        self.agent = self.node = ""
        self._state = state.session()
        self._path = path_of(key)
        self._wait_s = float("inf") if wait is True else float(wait)
        self._keep = keep
        self.on_lost = on_lost
        self._patience = Patience() if patience is None else patience
        self._id = ""
        self._version: str | None = None
        self._alone = 0
        self._until_s = 0.0
        self._lost = ""
        self._held_at: str | None = None
        self._events: AsyncWatch | None = None
        self._ended, self._over = wake_up(), wake_up()
        self._keeper, self._watchdog = AsyncBackground(self._stay), AsyncBackground(self._end_in_time)
        self._losses = count()

    # -- what its holder asks ----------------------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """Whether it is held still, by all that is known here: not lost, and renewed within its ``ttl``."""
        return self._version is not None and not self._lost and self._left_s > 0

    @property
    def _left_s(self) -> float:
        """How long it is held yet unless it is renewed, by this host's clock."""
        return self._until_s - _now_s()

    def check(self) -> None:
        """Before an effect that nobody else may have at the same time.

        :raises ClaimLost: it is not held any more; the message says why.
        """
        if not self.is_held:
            why = self._lost or ("it was not renewed in time" if self.fence else "it was never held")
            raise ClaimLost(f"the claim on {self.key!r} is lost: {why}", key=self.key, fence=self.fence)

    async def __aenter__(self) -> Self:
        return await self.acquire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        was_held = self.is_held
        await self.release()
        if not was_held and error is None:
            self.check()

    # -- take it, give it back -----------------------------------------------------------------------------------

    async def acquire(self) -> Self:
        """Claim the key. On return it is on this host's disk, and all hosts that could be reached have agreed.

        :raises ClaimHeld: somebody else holds it, at the end of the time that was to be waited.
        :raises InvalidRequest: this lease holds it already.
        """
        self._check_free()
        until_s = time.monotonic() + self._wait_s
        try:
            return await self._take()
        except ClaimHeld:
            if self._wait_s <= 0:
                raise
        async with self._state.watch(self._path, snapshot=False) as events:
            while True:
                try:
                    return await self._take()
                except ClaimHeld:
                    left_s = until_s - time.monotonic()
                    if left_s <= 0:
                        raise
                    over_s = await self._over_in_s()
                with suppress(Timeout):
                    await events.next(timeout=min(left_s, over_s))

    def _check_free(self) -> None:
        if self.is_held:
            raise InvalidRequest(f"this lease holds {self.key!r} already: call claim() for another one")

    async def release(self) -> bool:
        """Give the key back; whether it was held. A key that somebody else has claimed meanwhile stays theirs."""
        was_held = await self._stop()
        with suppress(DaemonUnavailable):  # then the claim ends as the connection has
            await self._withdraw()
        return was_held

    async def release_with(self, write: Callable[[Batch], None]) -> None:
        """Give the key back, and do in the same change what ``write`` records; if that is refused, nothing is done, and
        only :meth:`release` is left.
        """
        await self._stop()
        async with self._state.batch() as batch:
            write(batch)
            if self._version is not None:
                batch.delete(self._path, seen=self._version)
        self._version = None

    async def _stop(self) -> bool:
        """Renew it no more; whether it was held."""
        was_held = self.is_held
        if self.fence:
            self._lost = self._lost or ("it was released" if was_held else "it was not renewed in time")
        self._ended.set()
        if self._events is not None:
            self._events.close()
        await self._keeper.join()
        self._over.set()
        await self._watchdog.join()
        return was_held

    async def _take(self) -> Self:
        state = self._state
        self._id, self._version, self.fence, self._alone = uuid4().hex, None, 0, 0
        sent_s = _now_s()
        await self._ask()
        until_s = sent_s + self._asked_s
        if self._keep and self._alone and _now_s() < until_s - self._asked_s / 2:
            self.fence = self._alone
        else:
            try:
                await self._hold()
            except BaseException:
                with suppress(CrdtSyncError):
                    await self._withdraw()
                raise
            self._alone, until_s = 0, sent_s + self.ttl
        self._until_s, self._lost, self._held_at = until_s, "", state.last_token
        self.agent, self.node = state.agent, state.node
        if self._keep:
            self._start()
        return self

    def _start(self) -> None:
        """Keep it from now on."""
        self._ended, self._over, self._losses = wake_up(), wake_up(), count()
        self._keeper.start()

    async def _ask(self) -> None:
        """Write the ask in the place of nothing, or of claims that are over."""
        try:
            await self._ask_all(if_absent=True)
        except VersionMismatch as mismatch:
            await self._ask_after(mismatch.current)

    async def _ask_after(self, entry: Entry | None) -> None:
        standing = self._patience.standing(claims_in(entry), time.monotonic())
        if standing or entry is None:
            raise refusal(self.key, standing)
        try:
            await self._ask_all(if_version=entry.version)
        except VersionMismatch as mismatch:
            raise refusal(self.key, claims_in(mismatch.current)) from None

    async def _ask_all(self, **over: Any) -> None:
        """Write the ask, until all hosts that can be reached have it, and this one has what they had."""
        try:
            asked = await self._write(ASK, **over, bind=self._keep, w="reached", timeout=ANSWER_S)
            self.is_confirmed, self.fence, self._alone = True, asked.clock, asked.alone
        except Timeout as late:
            if late.written is None:  # it may or may not be there; then it is soon over
                raise
            self._version, self.is_confirmed = late.written.version, False

    async def _hold(self) -> None:
        """Write that it is held, when no other claim is there. One that was asked for at the same moment, and counts
        less, soon goes by itself; on a host that was cut off it may be held, and is written so soon.
        """
        if not self.fence:
            await self._bind()
        until_s = time.monotonic() + ANSWER_S
        while True:
            try:
                held = await self._write(HELD, if_version=self._version)
                if held.hybrid_time > self.fence:  # else its daemon was started anew, and forgot the fence
                    return
            except VersionMismatch as mismatch:
                others = [claim for claim in claims_in(mismatch.current) if claim.id != self._id]
                if self._is_behind(claims_in(mismatch.current)) or time.monotonic() > until_s:
                    raise refusal(self.key, others) from None
            await woken(wake_up(), SHORT_S / 20)
            await self._bind()

    async def _bind(self) -> None:
        """Let the claim go with the connection, if it is to be kept, and get the fence."""
        self.fence = await self._state.bind(self._path, self._version if self._keep else None)

    async def _write(self, what: str, **over: Any) -> Written:
        """Write the claim, ``over`` what it may replace, and on what condition. An ask is soon over, for whoever makes
        it may stop before it is held.
        """
        value = record(what, self._id, self._asked_s if what == ASK else self.ttl, self.fence)
        written = await self._state.set(self._path, value, ttl=self._kept_s, **over)
        self._version = written.version
        return written

    @property
    def _asked_s(self) -> float:
        """How long an ask stands."""
        return min(self.ttl, ASKED_S)

    @property
    def _kept_s(self) -> float:
        return kept_s(self.ttl) if self._keep else self.ttl

    def _is_behind(self, claims: list[Claim]) -> bool:
        """Whether the claim of somebody else comes before this one, or this one is gone."""
        return not claims or claims[0].id != self._id

    async def _withdraw(self) -> None:
        version, self._version = self._version, None
        if version is not None:
            await self._state.delete(self._path, seen=version)

    async def _over_in_s(self) -> float:
        """When the next of the claims in the way is over, if it is not renewed."""
        claims = claims_in(await self._state.entry(self._path))
        now_s = time.monotonic()
        return min((self._patience.left_s(claim, now_s) for claim in claims), default=0.0) + 0.01

    # -- keep it ---------------------------------------------------------------------------------------------------

    async def _stay(self) -> None:
        if not await woken(self._ended, SHORT_S):
            self._watchdog.start()
            await self._renew()

    async def _end_in_time(self) -> None:
        """Lose the claim when its time is over, whatever the daemon does: the keeper may wait for it."""
        while (left_s := self._left_s) > 0:
            if await woken(self._over, left_s):
                return
        await self._lose("it was not renewed in time")
        if self._events is not None:
            self._events.close()

    async def _renew(self) -> None:
        """Renew the claim at a third of its time, at first at once if it is only asked for, and look at what others
        write to it.
        """
        self._events = events = self._state.watch(self._path, after=self._held_at)
        try:
            if not self._ended.is_set():  # else who released it has not seen these events, and did not close them
                await self._follow(events)
        finally:
            events.close()

    async def _follow(self, events: AsyncWatch) -> None:
        due_s = _now_s() + (0.0 if self._alone else self.ttl / 3)
        while not self._lost:
            try:
                if await events.next(timeout=max(0.0, due_s - _now_s())) is None:
                    return
                await self._look()
            except Timeout:
                due_s = _now_s() + (self.ttl / 3 if await self._renewed() else self.ttl / 30)
            except NotAllowed as error:
                await self._lose(error.message)
            except DaemonUnavailable:
                due_s = _now_s() + self.ttl / 30
            except CrdtSyncError as error:
                await self._lose(error.message)
            if self._left_s <= 0:
                await self._lose("it was not renewed in time")

    async def _renewed(self) -> bool:
        sent_s = _now_s()
        try:
            entry = await self._look()
            if entry is None:
                return False
            others = [claim for claim in claims_in(entry) if claim.id != self._id]
            stands = self._patience.standing(others, time.monotonic())
            seen = self._version if stands else entry.version
            over = {"if_version": entry.version, "seen": seen, "bind": self._keep}  # bound at the daemon of now
            await self._write(HELD, **over, timeout=self._patient_s)
        except (VersionMismatch, Timeout, DaemonUnavailable):
            return False
        self._until_s = sent_s + self.ttl
        return True

    async def _look(self) -> Entry | None:
        """The key as it is now, if this claim counts; else it is lost."""
        entry = await self._state.entry(self._path, timeout=self._patient_s)
        claims = claims_in(entry)
        own = next((claim for claim in claims if claim.id == self._id), None)
        if own is not None:
            own = replace(own, is_held=True, fence=self.fence)  # as it is soon, if it is only asked for yet
        others = [claim for claim in claims if own is None or claim.rank > own.rank]
        if own is not None and not others:
            return entry
        first = others[0] if others else None
        whose = "the key was freed" if first is None else f"{first.agent} on {first.node} holds it, fence {first.fence}"
        await self._lose(whose)
        return None

    @property
    def _patient_s(self) -> float:
        return max(self.ttl / 3, 0.1)

    async def _lose(self, why: str) -> None:
        if self._lost or next(self._losses):  # the keeper or the watchdog, whichever comes first
            return
        self._lost = why
        try:
            if self.on_lost is not None:
                await call(self.on_lost)
        finally:
            with suppress(CrdtSyncError):
                await self._withdraw()


async def claims(state: AsyncSession, prefix: str = "") -> list[Claim]:
    """The claims on keys that start with ``prefix``, by key."""
    entries = await state.session().entries(PREFIX + check_prefix(prefix))
    return [claim for entry in entries if (claim := listed(entry)) is not None]


async def release(state: AsyncSession, key: str, fence: int | None) -> bool:
    """Free a key whoever holds it, or only if it is held with ``fence``; whether it was held so. If its holder's host
    renews it at the same moment, it is freed again.
    """
    session = state.session()
    is_freed = False
    while True:
        entry = await session.entry(path_of(key))
        claim = None if entry is None else listed(entry)
        if entry is None or claim is None or (fence is not None and claim.fence != fence):
            return is_freed
        fence = claim.fence
        try:
            is_freed |= await session.delete(path_of(key), if_version=entry.version, w="reached", timeout=ANSWER_S)
        except Timeout:  # here it is done
            return True
        except VersionMismatch:
            continue
