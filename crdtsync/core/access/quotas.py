"""Quotas: how much one agent may ask of its daemon, over all its connections."""

from __future__ import annotations

from collections.abc import Callable

from crdtsync.errors import QuotaExceeded
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX

ACCOUNTS_MAX = 10_000
"""Agents that are remembered; beyond that the ones that are not attached are forgotten."""
REQUESTS_BURST_S = 2
BYTES_BURST_S = 10
"""How much time's worth may come at once."""


class Limits(NamedTuple):
    """The quotas of one agent on one daemon. The bytes are those of requests that write."""

    requests_per_s: int = 100_000
    bytes_per_s: int = 256 * 1024 * 1024
    watches: int = 10_000
    connections: int = 1024


DEFAULT_LIMITS = Limits()


class Account:
    """The use of one agent. ``who`` is its identity, as rules name it; ``connections`` counts those that are open.

    Requests and bytes are two buckets that fill with time. If one is empty, a request is refused; if a request is
    larger than what is left, it is let through, and paid for with time.
    """

    __slots__ = ("_at_s", "bytes_left", "connections", "limits", "requests_left", "who")

    def __init__(self, who: str, limits: Limits, now_s: float) -> None:
        self.who = who
        self.connections = 0
        self._at_s = now_s
        self.limit(limits)

    def limit(self, limits: Limits) -> None:
        """Other limits hold from now on."""
        self.limits = limits
        self.requests_left: float = self._requests_max
        self.bytes_left: float = self._bytes_max

    @property
    def _requests_max(self) -> int:
        return self.limits.requests_per_s * REQUESTS_BURST_S

    @property
    def _bytes_max(self) -> int:
        return max(self.limits.bytes_per_s * BYTES_BURST_S, AGENT_FRAME_BYTES_MAX)

    def charge(self, now_s: float, written_bytes: int) -> None:
        """One request, of so many bytes if it writes.

        :raises QuotaExceeded: there were too many; the message says when there will be room.
        """
        if self.requests_left < 1 or self.bytes_left < written_bytes:
            self._refill(now_s)
            if self.requests_left < 1:
                raise self._refusal("requests_per_s", "requests a second", 1 - self.requests_left)
            if self.bytes_left <= 0 < written_bytes:
                raise self._refusal("bytes_per_s", "bytes written a second", 1 - self.bytes_left)
        self.requests_left -= 1
        self.bytes_left -= written_bytes

    def _refill(self, now_s: float) -> None:
        passed_s = max(0.0, now_s - self._at_s)
        self._at_s = now_s
        self.requests_left = min(self._requests_max, self.requests_left + passed_s * self.limits.requests_per_s)
        self.bytes_left = min(self._bytes_max, self.bytes_left + passed_s * self.limits.bytes_per_s)

    def used(self, now_s: float) -> tuple[tuple[int, int], tuple[int, int]]:
        """How much of the requests and of the bytes that may come at once is used up now, and how much that is."""
        passed_s = max(0.0, now_s - self._at_s)
        requests = self._requests_max - self.requests_left - passed_s * self.limits.requests_per_s
        written_bytes = self._bytes_max - self.bytes_left - passed_s * self.limits.bytes_per_s
        return (max(0, round(requests)), self._requests_max), (max(0, round(written_bytes)), self._bytes_max)

    def check_room(self, name: str, held: int) -> None:
        """Whether one more is allowed beside the ``held``: of ``watches`` or ``connections``.

        :raises QuotaExceeded: no.
        """
        if held >= getattr(self.limits, name):
            raise self._refusal(name, name)

    def _refusal(self, name: str, unit: str, lacking: float = 0) -> QuotaExceeded:
        limit = getattr(self.limits, name)
        retry_ms = round(1000 * lacking / max(limit, 1)) + 1 if lacking else None
        wait = "end some" if retry_ms is None else f"go slower (there is room in {retry_ms:,} ms)"
        return QuotaExceeded(
            f"{self.who} has used up its quota of {limit:,} {unit} on this daemon: {wait}, or have it raised: "
            f"crdtsync access quota {self.who} --{name.replace('_', '-')} N",
            quota=name,
            limit=limit,
            who=self.who,
            **({} if retry_ms is None else {"retry_ms": retry_ms}),
        )


class Accounts:
    """All agents' accounts. ``limits_of`` gives the limits of an identity."""

    def __init__(self, limits_of: Callable[[str], Limits]) -> None:
        self._limits_of = limits_of
        self._accounts: dict[str, Account] = {}

    def open(self, who: str, now_s: float) -> Account:
        """The account of an agent that attaches.

        :raises QuotaExceeded: it has too many connections.
        """
        account = self._accounts.get(who)
        if account is None:
            if len(self._accounts) >= ACCOUNTS_MAX:
                self._accounts = {name: kept for name, kept in self._accounts.items() if kept.connections}
            account = self._accounts[who] = Account(who, self._limits_of(who), now_s)
        account.check_room("connections", account.connections)
        account.connections += 1
        return account

    def attached(self) -> list[Account]:
        """Those of agents that are attached."""
        return [account for account in self._accounts.values() if account.connections]

    def changed(self, whos: list[str] | None) -> None:
        """Limits of these agents have changed; None: perhaps of all."""
        for who in self._accounts if whos is None else whos:
            account = self._accounts.get(who)
            if account is not None:
                limits = self._limits_of(who)
                if limits != account.limits:
                    account.limit(limits)
