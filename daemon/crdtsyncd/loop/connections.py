"""The connections of agents and peers by number, and what a turn lets out over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from crdtsyncd.loop.agent_budget import AgentPlaces
from crdtsyncd.loop.agent_socket import AgentConnection
from crdtsyncd.security.peer_identity import DUPLICATE
from crdtsyncd.telemetry.event_log import log
from crdtsyncd.telemetry.log_rate_limit import stranger_refused
from crdtsyncd.wording import counted

from crdtsync.core.agents.frames import Reply
from crdtsync.core.interface import Ready
from crdtsync.wire.peer.changes import Ack
from crdtsync.wire.peer.messages import type_of

if TYPE_CHECKING:
    from crdtsyncd.peers.websocket_peer import PeerConnection


class Connections:
    """The open connections. A number names one connection of this process, and is never used again."""

    def __init__(self, places: AgentPlaces) -> None:
        self.places = places
        self.agents: dict[int, AgentConnection] = {}
        self._uids: dict[int, int] = {}
        self.peers: dict[int, PeerConnection] = {}
        self._last = 0

    def add_agent(self, connection: AgentConnection, uid: int) -> int:
        """The number of a new connection of a user's agent."""
        self._last += 1
        self.agents[self._last] = connection
        self._uids[self._last] = uid
        self.places.take(uid)
        return self._last

    def remove_agent(self, conn: int) -> None:
        """It is gone, or concerns nobody any more."""
        if self.agents.pop(conn, None) is not None:
            self.places.give_back(self._uids.pop(conn))

    def add_peer(self, connection: PeerConnection) -> int:
        """The number of a new connection of a peer."""
        self._last += 1
        self.peers[self._last] = connection
        return self._last

    def send_all(self, ready: Ready) -> None:
        """Let out what is on disk, and close what has to be closed."""
        later = []
        for conn, data in ready.sends:
            if ready.replies and type_of(data) == Ack.TYPE:
                later.append((conn, data))  # agents wait for what they are told, and nearly nobody for this
            elif conn in self.peers:
                self.peers[conn].send(data)
        if ready.replies:
            write_replies(self.agents, ready.replies)
        self.send_to_peers(later)
        for conn, reason in ready.peer_closes:
            if conn in self.peers:
                if self.peers[conn].joins:
                    stranger_refused(log, self.peers[conn].url, reason)
                elif reason.startswith(DUPLICATE):
                    log("peer_closed", level="debug", url=self.peers[conn].url, reason=reason)
                else:
                    log("peer_refused", level="warning", url=self.peers[conn].url, reason=reason)
                self.peers[conn].close(reason)
        for conn, reason in ready.agent_closes:
            if conn in self.agents:
                log("agent_closed", level="warning", conn=conn, reason=reason)
                self.agents[conn].close()

    def send_to_peers(self, sends: list[tuple[int, bytes]]) -> None:
        """Send these messages to those that are still connected."""
        for conn, data in sends:
            if conn in self.peers:
                self.peers[conn].send(data)

    def close_all(self, reason: str) -> None:
        """Close every connection; peers are told the reason."""
        for agent in list(self.agents.values()):
            agent.close()
        for peer in list(self.peers.values()):
            peer.close(reason)

    def forget_all(self) -> None:
        """Nothing that their ends say concerns anybody any more."""
        for conn in list(self.agents):
            self.remove_agent(conn)
        self.peers.clear()

    def summary(self) -> str:
        """How many there are, for people."""
        return f"{counted(len(self.agents), 'agent')}, {counted(len(self.peers), 'peer connection')}"


def write_replies(agents: Mapping[int, AgentConnection], replies: list[Reply]) -> None:
    """Write all frames of a connection at once: one system call instead of one a frame."""
    if len(replies) == 1:
        reply = replies[0]
        if reply.conn in agents:
            agents[reply.conn].write(reply.data)
        return
    together: dict[int, list[bytes]] = {}
    for reply in replies:
        together.setdefault(reply.conn, []).append(reply.data)
    for conn, frames in together.items():
        if conn in agents:
            agents[conn].write(b"".join(frames))
