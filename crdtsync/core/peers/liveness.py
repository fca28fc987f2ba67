"""Whether a peer still gets anywhere: probes that its turns must answer, however its sockets look.

A connection can stand for hours while nothing happens at its other end: the process is frozen, its loop is stuck, or it
accepts everything and reads nothing. So each side asks now and then, and the answer comes from where changes are
applied, not from the websocket's own pongs. On a slow link the answer may wait behind megabytes: as long as bytes flow
at a rate worth the name (the shell says so), it is waited for. The answer also says what time it is there.
"""

from __future__ import annotations

from collections.abc import Mapping

from crdtsync.core.peers.outbox import Outbox
from crdtsync.core.peers.peer_state import Link, Peer
from crdtsync.wire.peer.probes import Probe, Probed

PROBE_INTERVAL_S = 10.0
"""Between a peer's answer and the next probe."""
PROBE_TIMEOUT_S = 20.0
"""Without an answer and without bytes that flow, until a peer is gone."""
SKEW_RTT_S_MAX = 1.0
"""An answer that was longer under way says too little about the time there: it may have been all of that one way."""
PROBE_ANSWER_S_MAX = 600.0
"""However fast bytes flow: until then the answer itself must be there."""


class Liveness:
    """Probes every connection, and closes those that give no answer."""

    def __init__(self, links: Mapping[int, Link], outbox: Outbox) -> None:
        self._links = links
        self._outbox = outbox

    def tick(self, now_s: float) -> None:
        """Ask, and give up on those that have not answered."""
        for link in self._links.values():
            if link.is_given_up or not link.takes(Probe):
                continue
            if link.probe_sent_s is None:
                if now_s >= link.probe_due_s:
                    link.probe_number += 1
                    link.probe_sent_s = now_s
                    self._outbox.send(link, Probe(link.probe_number))
            elif now_s >= _end_s(link):
                link.is_given_up = True
                waited_s = now_s - link.probe_sent_s
                self._outbox.close(link, f"it has got nowhere for {waited_s:.0f} s: it does not answer")

    def answer(self, link: Link, probe: Probe, now_ms: int) -> None:
        """The peer probes this node."""
        self._outbox.send(link, Probed(probe.number, now_ms))

    @staticmethod
    def answered(link: Link, peer: Peer, answer: Probed, now_s: float, now_ms: int) -> None:
        """The peer answers a probe."""
        if link.probe_sent_s is None or answer.number != link.probe_number:
            return
        rtt_s = now_s - link.probe_sent_s
        link.rtt_ms = rtt_s * 1000
        if rtt_s <= SKEW_RTT_S_MAX:
            peer.clock_skew_ms = round(answer.time_ms + rtt_s * 500 - now_ms)
        link.probe_sent_s = None
        link.probe_due_s = now_s + PROBE_INTERVAL_S

    @staticmethod
    def flowed(link: Link, now_s: float) -> None:
        """Bytes flow over the connection, at a rate worth the name."""
        link.flowed_s = now_s

    def deadline_s(self) -> float | None:
        """When :meth:`tick` wants to be called again."""
        due = [
            link.probe_due_s if link.probe_sent_s is None else _end_s(link)
            for link in self._links.values()
            if link.takes(Probe) and not link.is_given_up
        ]
        return min(due, default=None)


def _end_s(link: Link) -> float:
    """When a connection whose probe is not answered is given up."""
    assert link.probe_sent_s is not None
    waiting_s = max(link.probe_sent_s, link.flowed_s) + PROBE_TIMEOUT_S
    return min(waiting_s, link.probe_sent_s + PROBE_ANSWER_S_MAX)
