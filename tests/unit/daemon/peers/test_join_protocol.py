"""Asking to be let in: nothing of the invite is said to another than the node that gave it."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from crdtsyncd.peers.join_protocol import WrongPin, ask_to_join
from crdtsyncd.security.key_files import CERTIFICATE_NAME, KEY_NAME
from crdtsyncd.security.node_key import NodeKey, load_or_make_key
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from crdtsync.errors import Refused
from crdtsync.wire.invites import Invite
from crdtsync.wire.peer.joining import Challenge, NotAdmitted, decode_join_message, encode_join_message


class Member:
    """What answers at an address: it asks for the join, and notes all that it hears."""

    def __init__(self, place: Path) -> None:
        self.key = load_or_make_key(place)
        self.heard: list[bytes | str] = []
        self.ended = asyncio.Event()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(place / CERTIFICATE_NAME, place / KEY_NAME)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        async with serve(self._answer, "127.0.0.1", 0, ssl=self._context, compression=None) as server:
            yield f"127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"

    async def _answer(self, connection: ServerConnection) -> None:
        try:
            await connection.send(encode_join_message(Challenge(b"n" * 32)))
            async for message in connection:
                self.heard.append(message)
                await connection.send(encode_join_message(NotAdmitted("closed", "it is closed")))
        except ConnectionClosed:
            pass
        finally:
            self.ended.set()


def invite_of(key: NodeKey, *addresses: str) -> Invite:
    later_ms = int(time.time() * 1000) + 60_000
    return Invite(b"c" * 16, bytes.fromhex(key.pin), b"i" * 12, b"s" * 24, later_ms, addresses)


@pytest.fixture
def own(tmp_path: Path) -> NodeKey:
    (tmp_path / "own").mkdir()
    return load_or_make_key(tmp_path / "own")


def member(place: Path) -> Member:
    place.mkdir()
    return Member(place)


async def test_an_impostor_hears_nothing_of_the_invite(tmp_path: Path, own: NodeKey) -> None:
    """Its certificate is looked at before anything is said: the proof would let it try secrets at leisure."""
    real, impostor = member(tmp_path / "real"), member(tmp_path / "impostor")
    async with impostor.listening() as address:
        with pytest.raises(WrongPin, match="it is another node, somebody in between"):
            await ask_to_join(invite_of(real.key, address), own, "new", ())
        await asyncio.wait_for(impostor.ended.wait(), 10)
    assert impostor.heard == []


async def test_the_one_who_gave_it_does_also_where_an_impostor_answers_first(tmp_path: Path, own: NodeKey) -> None:
    real, impostor = member(tmp_path / "real"), member(tmp_path / "impostor")
    async with impostor.listening() as first, real.listening() as second:
        with pytest.raises(Refused, match="it is closed"):
            await ask_to_join(invite_of(real.key, first, second), own, "new", ("192.0.2.1:7420",))
    assert impostor.heard == []
    (said,) = real.heard
    assert isinstance(said, bytes)
    assert b"s" * 24 not in said  # nor is the secret itself said to anybody
    assert getattr(decode_join_message(said), "name", "") == "new"
