"""Agents that keep what they have seen, by the client's own means, and the judge of whether they really do.

What such an agent was shown is noted as a version vector, without looking at any token. Every answer must come from
a state that includes all that it had been shown before it asked, and every change that it makes be based on such a one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.causality import VersionVector, Writer, covers, merge
from crdtsync.client.protocol.seen_point import Horizon
from crdtsync.wire.tokens import decode_token
from tests.simulator.model import require

if TYPE_CHECKING:
    from tests.simulator.agents import Request
    from tests.simulator.hosts import Host

FOREVER = float("inf")


class Keeping:
    """What one agent has been shown (``past``), and what its client makes of it (``horizon``)."""

    def __init__(self) -> None:
        self.horizon = Horizon(clock=lambda: 0.0)
        self.past: VersionVector = {}

    def prepare(self, request: Request) -> None:
        """The client adds what it needs."""
        self.horizon.prepare(request.name, request.args, FOREVER)
        request.past = dict(self.past)

    def sent(self, request: Request, conn: int, number: int, home: Host) -> None:
        """Note the state that an answer given at once was given from. A repeated write is answered as it was before."""
        request.shown = None
        if (
            "again" not in request.args
            and not home.is_busy
            and any((reply.conn, reply.request) == (conn, number) for reply in home.running.dispatcher.replies)
        ):
            request.shown = dict(home.replica.vector)

    def answered(self, request: Request, status: int, content: Any) -> None:
        """An answer has come: it must not show less than was known to be there when it was asked for."""
        if status == 1:
            self.horizon.failed(request.args, content)
        else:
            self.horizon.done(request.name, request.args, content)
        if status == 1 and content["code"] != "version_mismatch":
            return
        if request.shown is not None:
            require(
                covers(request.shown, request.past),
                "a session was shown less than before:", request, "at", request.shown, "after", request.past,
            )  # fmt: skip
            merge(self.past, request.shown)
        if request.change is not None:
            merge(self.past, {Writer(request.change[0]): request.change[1]})


def check_follows(request: Request, held: dict[int, int]) -> None:
    """Its author's node held all that the author had been shown: so it comes after that, everywhere."""
    require(
        all(held.get(writer, 0) >= seq for writer, seq in request.past.items()),
        "a session wrote before what it had been shown:", request, "at", held, "after", request.past,
    )  # fmt: skip


def is_here(request: Request, home: Host) -> bool:
    """Whether the daemon answers at once, as far as it depends on what it holds."""
    if home.is_busy:
        return False
    tokens = [request.args[name] for name in ("after", "need") if name in request.args]
    return all(covers(home.replica.vector, decode_token(token).get("default", (0, {}))[1]) for token in tokens)
