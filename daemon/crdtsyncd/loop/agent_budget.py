"""Shares of each user of this host in the agents' socket: connections, and room for large requests.

The socket may be open to everybody on the host. A program that leaks connections, or that begins large requests and
never ends them, must not shut out agents of other users, least of all the operator who looks for the reason. For
example, 4,096 agents may be attached, none is, and a user without any right connects again and again: that user gets
3,072 places and then waits for its own to become free; another one still gets 768, and root always gets one.

The rule is that of dynamic thresholds (Choudhury and Hahne 1998): a user may hold :data:`SHARE` times what is free.
Nothing is reserved for users who are not there, and whoever comes finds something free.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

from crdtsync.errors import QuotaExceeded

SHARE = 3
"""How many times what is free of that budget, or of ``agents_max``, one user may hold."""
OPERATOR_PLACES = 16
"""Places of ``agents_max`` for the service's own user and root alone, and as many more for root; of few, a quarter."""
LARGE_REQUESTS_BYTES_MAX = 32 * 1024 * 1024
"""Large requests of all agents that are not handled yet; the others are read no further, but one of each user."""

_ROOT = 0


class Shares:
    """So much of something, divided among users as they come."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: Counter[int] = Counter()
        self.taken = 0

    def fits(self, uid: int, amount: int) -> bool:
        """Whether a user may have so much more."""
        return self._held[uid] + amount <= SHARE * (self._most - self.taken - amount)

    def holds_none(self, uid: int) -> bool:
        """Whether a user has nothing."""
        return not self._held[uid]

    def take(self, uid: int, amount: int) -> None:
        """A user takes so much."""
        self._held[uid] += amount
        self.taken += amount

    def give_back(self, uid: int, amount: int) -> None:
        """A user has so much less."""
        self.taken -= amount
        self._held[uid] -= amount
        if not self._held[uid]:
            del self._held[uid]


class AgentPlaces:
    """The connections of agents. ``own_uid``: whose process this is."""

    def __init__(self, agents_max: int, own_uid: int) -> None:
        self._agents_max = agents_max
        self._own_uid = own_uid
        self._kept = min(OPERATOR_PLACES, agents_max // 4)
        self._shares = Shares(agents_max - self._kept)

    def refusal(self, uid: int) -> QuotaExceeded | None:
        """Why a user may not attach one more agent; None: it may."""
        taken, most = self._shares.taken, self._agents_max
        if uid == self._own_uid:
            is_free = taken < most
        elif uid == _ROOT:
            is_free = taken < most + self._kept
        else:
            is_free = self._shares.fits(uid, 1)
        if is_free:
            return None
        if taken < most - self._kept:
            return QuotaExceeded(
                f"user {uid} has as many agents attached as one user may while {taken:,} are in all: detach some, or "
                "raise agents_max"
            )
        return QuotaExceeded(
            f"{taken:,} agents are attached, the most that this daemon takes: detach some, or raise agents_max"
        )

    def take(self, uid: int) -> None:
        """A user attaches an agent."""
        self._shares.take(uid, 1)

    def give_back(self, uid: int) -> None:
        """One of a user's agents is gone."""
        self._shares.give_back(uid, 1)


class LargeRequests:
    """Room for requests that do not come whole at once. A request is charged with its length when that is known, until
    it is handled; who finds no room waits unread, in order. A user that has none may always have one.
    """

    def __init__(self) -> None:
        self._shares = Shares(LARGE_REQUESTS_BYTES_MAX)
        self._waiting: deque[tuple[int, int, Callable[[], None]]] = deque()

    @property
    def taken_bytes(self) -> int:
        """How much is in use."""
        return self._shares.taken

    def take(self, uid: int, size_bytes: int, admitted: Callable[[], None]) -> bool:
        """Make room, now or later: then ``admitted`` is called. Whether it is there."""
        if self._fits(uid, size_bytes):
            self._shares.take(uid, size_bytes)
            return True
        self._waiting.append((uid, size_bytes, admitted))
        return False

    def give_back(self, uid: int, size_bytes: int) -> None:
        """A request has been handled, or will not come."""
        self._shares.give_back(uid, size_bytes)
        waiting, self._waiting = self._waiting, deque()
        for place in waiting:
            if self._fits(place[0], place[1]):
                self._shares.take(place[0], place[1])
                place[2]()
            else:
                self._waiting.append(place)

    def forget(self, admitted: Callable[[], None]) -> None:
        """Somebody who waits is gone."""
        self._waiting = deque(place for place in self._waiting if place[2] != admitted)

    def _fits(self, uid: int, size_bytes: int) -> bool:
        return self._shares.holds_none(uid) or self._shares.fits(uid, size_bytes)
