"""What a member of the cluster can do by the peer protocol once it is let in: over TLS, with a key that is trusted.

It also writes the cluster's own records, which no agent can: names that nobody should have, and records of every type
with fields of any kind.
"""

from __future__ import annotations

import random
import ssl
import tempfile
from pathlib import Path
from typing import Any

from crdtsyncd.security.node_key import NodeKey, load_or_make_key
from crdtsyncd.security.tls import JOIN_NAME, dialling_context, joining_context, member_name
from websockets.sync.client import connect

from crdtsync.wire.change import Op, value_hash
from crdtsync.wire.invites import decode_invite
from crdtsync.wire.kinds import Kind
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
from fuzz.frames import CONNECTING, Peers
from fuzz.messages import Chain
from fuzz.mutation import Mutator, packed

CLUSTER_SPACE = "_cluster"


class Members(Peers):
    """A member that has gone mad."""

    _tls: ssl.SSLContext

    def _identity(self) -> tuple[str, bytes]:
        key = load_or_make_key(Path(tempfile.mkdtemp(dir=self.daemon.base)))
        self._address, self._key = f"wss://{self.daemon.address}", key
        with self.daemon.client() as client:
            client.cluster_init()
            invite = client.cluster_invite(local=True)["invite"]
        cluster = self._join(invite, key)
        self._name = member_name(cluster)
        return key.node, cluster

    def _join(self, text: str, key: NodeKey) -> bytes:
        invite = decode_invite(text)
        with connect(self._address, ssl=joining_context(), server_hostname=JOIN_NAME, compression=None) as peer:
            challenge = decode_join_message(_bytes(peer.recv(10)))
            assert isinstance(challenge, Challenge)
            plain = Join(invite.invite, key.certificate, "mad", ("127.0.0.1:1",))
            bound = binding(challenge.nonce, invite.pin, plain)
            proof = proof_of(secret_key(invite.secret), bound)
            peer.send(encode_join_message(plain._replace(proof=proof, signature=key.sign(bound))))
            answer = decode_join_message(_bytes(peer.recv(10)))
            assert isinstance(answer, Admitted), answer
            tls: Any = peer.socket
            self._tls = dialling_context(key, [tls.getpeercert(binary_form=True)])
            return answer.cluster

    def _connect(self) -> Any:
        return connect(self._address, ssl=self._tls, server_hostname=self._name, **CONNECTING)

    def _new_chain(self) -> Chain:
        return Records(self.rng, self.cluster) if self.rng.random() < 0.4 else Chain(self.rng, self.cluster)


class Records(Chain):
    """Changes of the cluster's own records. Not the removal of the node under attack, which would rightly end it."""

    def __init__(self, rng: random.Random, cluster: bytes) -> None:
        super().__init__(rng, cluster, CLUSTER_SPACE)
        self._mutator = Mutator(rng)

    def ops(self) -> list[Op]:
        """Records that are nearly right."""
        node = f"{self.rng.getrandbits(128):032x}"
        records: list[tuple[str, Any]] = [
            (f"member/{node}", {"name": "x", "keys": [["00" * 32, b"c"]], "addresses": ["127.0.0.1:1"], "at": 1}),
            (f"space/s{self.rng.randrange(20)}", {"epoch": self.rng.randrange(5), "exists": True, "nodes": None}),
            (f"space/{node}", {"epoch": 0, "exists": False, "nodes": [node], "time": 1, "agent": "a"}),
            (f"removed/{node}", {"by": node, "name": "x", "at": 1}),
            (f"access/{node}", {"rules": [["a", "r", "k/**"]], "agents": {}}),
            (f"unknown/{node}", {"a": 1}),
        ]
        made = []
        for key, record in records:
            value = packed(self._mutator.tree(record, self.rng.choice((0, 1, 2))))
            made.append(Op(key, None, Kind.REGISTER, value, value_hash(value), (), None))
        return made


def _bytes(message: str | bytes) -> bytes:
    return message if isinstance(message, bytes) else message.encode()
