"""Messages and closings that leave a node for its peers after the next commit."""

from __future__ import annotations

from crdtsync.core.peers.peer_state import Link
from crdtsync.core.storage.rows import PeerRow
from crdtsync.wire.peer.base import Message


class Outbox:
    """Messages to send, connections to close with the reason, and nodes that were met."""

    __slots__ = ("closes", "met", "seen", "sends")

    def __init__(self) -> None:
        self.sends: list[tuple[int, bytes]] = []
        self.closes: list[tuple[int, str]] = []
        self.met: list[PeerRow] = []
        self.seen: dict[str, PeerRow] = {}
        """Nodes that had been met before, and when they were seen: written down when something else is."""

    def send(self, link: Link, message: Message) -> None:
        """Send a message over a connection."""
        self.sends.append((link.conn, message.encode()))

    def close(self, link: Link, reason: str) -> None:
        """Close a connection."""
        self.closes.append((link.conn, reason))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to take."""
        return not (self.sends or self.closes or self.met)

    def take_sends(self) -> list[tuple[int, bytes]]:
        """The messages alone."""
        sends, self.sends = self.sends, []
        return sends

    def take(self) -> tuple[list[tuple[int, bytes]], list[tuple[int, str]], list[PeerRow]]:
        """Everything since the last call."""
        taken = self.sends, self.closes, self.met
        self.sends, self.closes, self.met = [], [], []
        return taken
