"""Mutated requests to join, and mutated handshakes, against a real daemon that speaks TLS: nobody gets in by them."""

from __future__ import annotations

import random
import socket
import ssl
import tempfile
from contextlib import suppress
from pathlib import Path

from crdtsyncd.security.node_key import load_or_make_key
from crdtsyncd.security.tls import JOIN_NAME, joining_context
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import connect

from crdtsync.errors import InvalidEncoding
from crdtsync.wire.codec import unpack
from crdtsync.wire.invites import decode_invite
from crdtsync.wire.peer.joining import (
    Admitted,
    Challenge,
    Join,
    binding,
    decode_join_message,
    encode_join_message,
    proof_of,
    secret_key,
)
from fuzz.frames import Totals
from fuzz.mutation import Mutator, packed
from tests.harness import Daemon

ANSWER_TIMEOUT_S = 10.0


class Joiners:
    """Asks to join in every wrong way. The invite that they have is good, and so are key and secret."""

    def __init__(self, daemon: Daemon, rng: random.Random, totals: Totals) -> None:
        self._daemon = daemon
        self._rng = rng
        self._totals = totals
        self._mutator = Mutator(rng)
        self._client = daemon.client()
        self._client.cluster_init()
        self._invite = decode_invite(self._client.cluster_invite(local=True, uses=1000)["invite"])
        self._key = load_or_make_key(Path(tempfile.mkdtemp(dir=daemon.base)))
        self._context = joining_context()
        self._hello = _client_hello()

    def attack(self) -> None:
        """One connection."""
        (self._attack_handshake if self._rng.random() < 0.3 else self._attack_joining)()

    def _attack_handshake(self) -> None:
        data = self._mutator.octets(self._hello)[:20_000]
        self._totals.last.append(data)
        with suppress(OSError), socket.create_connection(self._address(), ANSWER_TIMEOUT_S) as raw:
            raw.sendall(data)
            raw.shutdown(socket.SHUT_WR)
            raw.recv(1 << 16)
        self._totals.outcomes["handshake ended"] += 1

    def _attack_joining(self) -> None:
        try:
            with connect(
                f"wss://{self._daemon.address}", ssl=self._context, server_hostname=JOIN_NAME, compression=None,
                max_size=None, proxy=None, open_timeout=ANSWER_TIMEOUT_S,
            ) as peer:  # fmt: skip
                challenge = decode_join_message(_bytes(peer.recv(ANSWER_TIMEOUT_S)))
                assert isinstance(challenge, Challenge)
                genuine = self._genuine(challenge)
                data = self._mutated(genuine)
                self._totals.last.append(data)
                peer.send(data)
                answer = decode_join_message(_bytes(peer.recv(ANSWER_TIMEOUT_S)))
                self._judge(genuine, data, answer)
        except ConnectionClosed as error:
            reason = error.rcvd.reason if error.rcvd is not None else "cut"
            self._totals.outcomes[f"closed: {reason[:40]}"] += 1
        except (WebSocketException, OSError, TimeoutError) as error:
            self._totals.failures.append(f"no answer to a request to join: {type(error).__name__}: {error}")

    def _judge(self, genuine: Join, data: bytes, answer: object) -> None:
        if not isinstance(answer, Admitted):
            self._totals.outcomes[f"refused: {getattr(answer, 'code', answer)}"] += 1
            return
        self._totals.outcomes["admitted"] += 1
        with suppress(InvalidEncoding):
            said = decode_join_message(data)
            if isinstance(said, Join) and said._replace(protocol=genuine.protocol) == genuine:
                return  # what was changed means nothing
        self._totals.failures.append("a request that is not what was signed was admitted")

    def _genuine(self, challenge: Challenge) -> Join:
        plain = Join(self._invite.invite, self._key.certificate, "fuzzed", ("127.0.0.1:1",))
        bound = binding(challenge.nonce, self._invite.pin, plain)
        proof, signature = proof_of(secret_key(self._invite.secret), bound), self._key.sign(bound)
        return plain._replace(proof=proof, signature=signature)

    def _mutated(self, genuine: Join) -> bytes:
        data = encode_join_message(genuine)
        tree = unpack(data)
        self._mutator.learn(tree)
        if self._rng.random() < 0.3:
            return self._mutator.octets(data)
        return packed(self._mutator.tree(tree, self._rng.choice((1, 1, 2, 5))))

    def _address(self) -> tuple[str, int]:
        host, _, port = self._daemon.address.rpartition(":")
        return host, int(port)

    def close(self) -> None:
        """Nothing stands between two attacks."""


def _client_hello() -> bytes:
    """The first flight of a genuine handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    connection = joining_context().wrap_bio(incoming, outgoing, server_hostname=JOIN_NAME)
    with suppress(ssl.SSLWantReadError):
        connection.do_handshake()
    return outgoing.read()


def _bytes(message: str | bytes) -> bytes:
    return message if isinstance(message, bytes) else message.encode()
