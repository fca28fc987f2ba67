"""Connections of nodes that ask to be let into the cluster: they say that once, soon, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from crdtsyncd.telemetry.event_log import log
from crdtsyncd.telemetry.log_rate_limit import stranger_refused

from crdtsync.core.interface import Event, JoinAsked, JoinOpened
from crdtsync.errors import InvalidEncoding
from crdtsync.wire.peer.joining import Join, decode_join_message

if TYPE_CHECKING:
    from crdtsyncd.peers.websocket_peer import PeerConnection

JOIN_TIMEOUT_S = 15.0
"""How long a node that asks to join may take."""


class PendingJoins:
    """``bound``: the bytes that the request on a connection has to be signed over."""

    def __init__(self, feed: Callable[[Event], None], bound: Callable[[int, Join], bytes]) -> None:
        self._feed = feed
        self._bound = bound
        self._waiting: dict[int, asyncio.TimerHandle] = {}

    def __contains__(self, conn: int) -> bool:
        return conn in self._waiting

    def opened(self, conn: int, connection: PeerConnection) -> None:
        """Somebody is there; without a word in time it is closed."""
        give_up = asyncio.get_running_loop().call_later(JOIN_TIMEOUT_S, connection.close, "nothing was asked in time")
        self._waiting[conn] = give_up
        self._feed(JoinOpened(conn))

    def asked(self, conn: int, connection: PeerConnection, data: bytes) -> None:
        """A node without a key that is known here asks to be let in. Whether its signature holds is found here."""
        try:
            join = decode_join_message(data)
            if not isinstance(join, Join):
                raise InvalidEncoding("the first message must ask to join")
        except InvalidEncoding as error:
            stranger_refused(log, connection.url, error.message)
            connection.close(error.message)
            return
        from crdtsyncd.security.node_key import pin_of, verifies  # by now it is there

        is_signed = verifies(join.certificate, join.signature, self._bound(conn, join))
        self._feed(JoinAsked(conn, join, pin_of(join.certificate) if is_signed else "", is_signed))

    def closed(self, conn: int) -> None:
        """It is gone."""
        timer = self._waiting.pop(conn, None)
        if timer is not None:
            timer.cancel()
