"""Who is no member gets in nowhere: every way of being none, on real sockets, and the refusing side logs the reason."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from crdtsyncd.peers import join_protocol
from crdtsyncd.peers.join_protocol import ask_to_join
from crdtsyncd.security.node_key import NodeKey, load_or_make_key, self_signed
from crdtsyncd.security.tls import JOIN_NAME, dialling_context, joining_context, listening_context, member_name
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from crdtsync.errors import Refused
from crdtsync.wire.invites import Invite, decode_invite, encode_invite
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.messages import decode_message
from tests.harness.daemon import HOST, Daemon

pytestmark = pytest.mark.integration
SHORT_S = 3.0


class Stage:
    """A cluster of one daemon, whose members beside it are keys in this process."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.daemon = Daemon("host-a", insecure_loopback=False)
        self.client = self.daemon.client()
        self.cluster = bytes.fromhex(self.client.cluster_init()["cluster"])
        self.own = load_or_make_key(self.daemon.data)
        self.count = 0

    def key(self, valid_s: float | None = None) -> NodeKey:
        """A new node's key; its certificate expires after ``valid_s``."""
        self.count += 1
        place = self.place / f"key-{self.count}"
        made = load_or_make_key(place)
        if valid_s is None:
            return made
        until = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=valid_s)
        certificate = x509.load_der_x509_certificate(self_signed(made.key, until))
        made.certificate_path.write_bytes(certificate.public_bytes(Encoding.PEM))
        return load_or_make_key(place)

    def invite(self, **options: Any) -> Invite:
        return decode_invite(self.client.cluster_invite(local=True, **options)["invite"])

    async def member(self, valid_s: float | None = None, name: str = "") -> NodeKey:
        """A node that was let in."""
        key = self.key(valid_s)
        await ask_to_join(self.invite(), key, name or f"member-{self.count}", [])
        return key

    def mark(self) -> int:
        return len(self.daemon.log_lines())

    async def refusal(self, after: int, is_it: Callable[[str], object]) -> None:
        """Until the daemon has logged a refusal with such a reason; one of an earlier test may come late."""

        def is_such(event: dict[str, Any]) -> object:
            return event.get("event") == "peer_refused" and is_it(event["reason"])

        await asyncio.to_thread(self.daemon.wait_log, is_such, after=after)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("refused"))
    try:
        yield made
    finally:
        made.daemon.close()


def dialling(url: str, key: NodeKey | None, stage: Stage, name: str | None = None, **limits: Any) -> Any:
    context = joining_context() if key is None else dialling_context(key, [stage.own.certificate])
    for attribute, value in limits.items():
        setattr(context, attribute, value)
    return connect(url, ssl=context, server_hostname=name or member_name(stage.cluster), compression=None, proxy=None)


async def refused(connecting: Any) -> None:
    """Nothing of the daemon's protocol comes over this connection, if there is one at all."""
    with pytest.raises((OSError, WebSocketException, EOFError)):
        async with connecting as socket:
            await asyncio.wait_for(socket.recv(), 20)


async def test_a_member_gets_in_over_tls_1_3(stage: Stage) -> None:
    key = await stage.member()
    async with dialling(f"wss://{stage.daemon.address}", key, stage) as socket:
        assert socket.transport.get_extra_info("ssl_object").version() == "TLSv1.3"
        hello = decode_message(await asyncio.wait_for(socket.recv(), 20))
    assert isinstance(hello, Hello)
    assert hello.node == stage.own.node


Case = Callable[[Stage], Any]


async def unknown(stage: Stage) -> None:
    await refused(dialling(f"wss://{stage.daemon.address}", stage.key(), stage))


async def without_certificate(stage: Stage) -> None:
    await refused(dialling(f"wss://{stage.daemon.address}", None, stage))


async def expired(stage: Stage) -> None:
    key = await stage.member(valid_s=SHORT_S)
    await asyncio.sleep(SHORT_S + 0.5)  # until the certificate has expired
    await refused(dialling(f"wss://{stage.daemon.address}", key, stage))


async def removed(stage: Stage) -> None:
    key = await stage.member(name="to-be-removed")
    await asyncio.to_thread(stage.client.cluster_remove, "to-be-removed")
    await refused(dialling(f"wss://{stage.daemon.address}", key, stage))


async def of_a_foreign_cluster(stage: Stage) -> None:
    await refused(dialling(f"wss://{stage.daemon.address}", stage.key(), stage, member_name(b"another cluster!")))


async def downgraded(stage: Stage) -> None:
    limits: dict[str, Any] = {"minimum_version": ssl.TLSVersion.TLSv1_2, "maximum_version": ssl.TLSVersion.TLSv1_2}
    key = await stage.member()
    await refused(dialling(f"wss://{stage.daemon.address}", key, stage, **limits))


async def in_plain_text(stage: Stage) -> None:
    await refused(connect(f"ws://{stage.daemon.address}", proxy=None))


@asynccontextmanager
async def introduced(stage: Stage, key: NodeKey, **fields: Any) -> AsyncIterator[ClientConnection]:
    """A connection of a member that introduces itself with these fields of its hello."""
    async with dialling(f"wss://{stage.daemon.address}", key, stage) as socket:
        await socket.recv()
        usual: dict[str, Any] = {"node": key.node, "name": "x", "cluster": stage.cluster, "database": b"d" * 16}
        await socket.send(Hello(**(usual | {"spaces": {}, "time_ms": 0} | fields)).encode())
        yield socket


async def with_the_key_of_another_member(stage: Stage) -> None:
    one, other = await stage.member(), await stage.member()
    await refused(introduced(stage, one, node=other.node))


async def that_names_a_foreign_cluster(stage: Stage) -> None:
    await refused(introduced(stage, await stage.member(), cluster=b"another cluster!"))


MATRIX: list[tuple[Case, str]] = [
    (unknown, "its certificate is of no member of this cluster"),
    (without_certificate, "it shows no certificate"),
    (expired, "its certificate has expired"),
    (removed, "to-be-removed was removed from this cluster by host-a"),
    (of_a_foreign_cluster, "it belongs to another cluster"),
    (that_names_a_foreign_cluster, "belongs to another cluster"),
    (with_the_key_of_another_member, "and its key is that of the member"),
    (downgraded, "it offers no TLS 1.3"),
    (in_plain_text, "it speaks plain text"),
]


@pytest.mark.parametrize("case,reason", MATRIX, ids=[case.__name__ for case, _ in MATRIX])
async def test_a_peer_is_refused_and_the_log_says_why(stage: Stage, case: Case, reason: str) -> None:
    before = stage.mark()
    await case(stage)
    await stage.refusal(before, lambda told: reason in told)


# -- joining -----------------------------------------------------------------------------------------------------------


async def replayed(stage: Stage) -> None:
    invite = stage.invite()
    await ask_to_join(invite, stage.key(), "first", [])
    await ask_to_join(invite, stage.key(), "second", [])


async def late(stage: Stage) -> None:
    invite = stage.invite(ttl=1)
    await asyncio.sleep(1.1)  # until it has expired
    await ask_to_join(invite, stage.key(), "late", [])


async def forged(stage: Stage) -> None:
    await ask_to_join(stage.invite()._replace(secret=bytes(24)), stage.key(), "forger", [])


async def never_given(stage: Stage) -> None:
    await ask_to_join(stage.invite()._replace(invite=bytes(12)), stage.key(), "forger", [])


async def after_removal(stage: Stage) -> None:
    key = await stage.member(name="gone-for-good")
    await asyncio.to_thread(stage.client.cluster_remove, "gone-for-good")
    await ask_to_join(stage.invite(), key, "back-again", [])


async def with_the_certificate_of_another(stage: Stage) -> None:
    mine, other = stage.key(), stage.key()
    await ask_to_join(stage.invite(), replace(mine, certificate=other.certificate), "thief", [])


async def under_the_name_of_another(stage: Stage) -> None:
    await ask_to_join(stage.invite(), stage.key(), "host-a", [])


JOINING: list[tuple[Case, str]] = [
    (replayed, "invite_used"),
    (late, "invite_expired"),
    (forged, "invite_unknown"),
    (never_given, "invite_unknown"),
    (after_removal, "removed"),
    (with_the_certificate_of_another, "bad_signature"),
    (under_the_name_of_another, "name_taken"),
]


@pytest.mark.parametrize("case,code", JOINING, ids=[case.__name__ for case, _ in JOINING])
async def test_who_may_not_join_is_told_and_the_log_says_why(stage: Stage, case: Case, code: str) -> None:
    before = stage.mark()
    with pytest.raises(Refused) as refusal:
        await case(stage)
    assert refusal.value.code == code
    begin, message = "not let in: ", refusal.value.message
    await stage.refusal(before, lambda told: told.startswith(begin) and told.removeprefix(begin) in message)


async def test_a_malformed_name_is_the_reason_on_both_sides(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match="'Host A' cannot name a node"):
        await ask_to_join(stage.invite(), stage.key(), "Host A", [])
    monkeypatch.setattr(
        join_protocol, "check_name", lambda name, _what: name
    )  # as a node of another version might send it
    before = stage.mark()
    with pytest.raises(Refused, match="'Host A' cannot name a node"):
        await ask_to_join(stage.invite(), stage.key(), "Host A", [])
    await stage.refusal(before, lambda told: "'Host A' cannot name a node" in told)


async def test_an_address_that_leads_to_another_does_not_hide_the_true_one(stage: Stage) -> None:
    """A host has addresses, such as that of a bridge for containers, that other hosts have too."""
    invite = stage.invite()
    with answering(impostor(stage)) as address:
        both = invite._replace(addresses=(address, *invite.addresses))
        assert (await ask_to_join(both, stage.key(), "by-the-second", [])).cluster == stage.cluster


async def test_the_same_key_may_ask_again(stage: Stage) -> None:
    """Its answer may have been lost."""
    invite, key = stage.invite(), stage.key()
    first = await ask_to_join(invite, key, "twice", [])
    assert await ask_to_join(invite, key, "twice", []) == first


async def test_a_joining_node_refuses_another_key_than_the_invite_names(stage: Stage) -> None:
    with pytest.raises(Refused) as refusal:
        await ask_to_join(stage.invite()._replace(pin=bytes(32)), stage.key(), "careful", [])
    assert refusal.value.code == "wrong_pin"


async def test_who_asks_to_join_is_told_nothing_of_the_cluster_before(stage: Stage) -> None:
    async with dialling(f"wss://{stage.daemon.address}", None, stage, JOIN_NAME) as socket:
        challenge = await asyncio.wait_for(socket.recv(), 20)
        assert stage.cluster not in challenge
        assert b"host-a" not in challenge
        await socket.send(Hello("n" * 32, "x", stage.cluster, b"d" * 16, {}, 0).encode())
        async with asyncio.timeout(20):
            with suppress(WebSocketException):
                async for message in socket:
                    assert b"host-a" not in message


# -- this side dials ---------------------------------------------------------------------------------------------------


@contextmanager
def answering(context: ssl.SSLContext | None) -> Iterator[str]:
    """A server of the plain kind, which sends its alerts before it closes, as most do."""
    listening = socket.create_server((HOST, 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection, suppress(OSError):
                    if context is not None:
                        context.wrap_socket(connection, server_side=True).close()
                    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield "{}:{}".format(*listening.getsockname())
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(60)


def impostor(stage: Stage) -> ssl.SSLContext:
    return listening_context(stage.key(), [], member_name(stage.cluster))


def old_fashioned(stage: Stage) -> ssl.SSLContext:
    context = listening_context(stage.key(), [], member_name(stage.cluster))
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


@pytest.mark.parametrize(
    "make,reason",
    [(impostor, "its certificate is of no member"), (old_fashioned, "TLS 1.3"), (lambda _: None, "plain text")],
    ids=["another key", "an older TLS", "plain text"],
)
async def test_a_daemon_refuses_what_answers_at_an_address(
    stage: Stage, make: Callable[[Stage], ssl.SSLContext | None], reason: str
) -> None:
    with answering(make(stage)) as address:
        before = stage.mark()
        await asyncio.to_thread(stage.daemon.reload, peers=[f"wss://{address}"])
        await stage.refusal(before, lambda told: reason in told)
        status = await asyncio.to_thread(stage.daemon.status)
        states = [(peer["state"], peer["last_error"]) for peer in status["peers"] if address in (peer["url"] or "")]
        assert [state for state, _ in states] == ["refused"]
    await asyncio.to_thread(stage.daemon.reload, peers=[])


def test_an_invite_survives_a_restart_of_the_inviter(tmp_path: Path) -> None:
    with Daemon("host-a", insecure_loopback=False) as daemon:
        daemon.client().cluster_init()
        invite = decode_invite(daemon.client().cluster_invite(local=True)["invite"])
        first, second = (load_or_make_key(tmp_path / name) for name in ("first", "second"))
        daemon.kill()
        daemon.start()
        asyncio.run(ask_to_join(invite, first, "first", []))
        daemon.kill()
        daemon.start()
        with pytest.raises(Refused, match="used already"):
            asyncio.run(ask_to_join(decode_invite(encode_invite(invite)), second, "second", []))
