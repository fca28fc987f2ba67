"""Asking a member to be let in, on the new node's side, and checking what a new node has signed, on the member's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from crdtsyncd.peers.websocket_peer import NOT_CONNECTED, OPEN_TIMEOUT_S, OPTIONS
from crdtsyncd.security.node_key import NodeKey, pin_of
from crdtsyncd.security.tls import JOIN_NAME, joining_context, reason_of
from websockets.asyncio.client import connect
from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed

from crdtsync.errors import DaemonUnavailable, InvalidEncoding, Refused
from crdtsync.wire.invites import Invite
from crdtsync.wire.limits import check_name
from crdtsync.wire.peer.joining import (
    Admitted,
    Challenge,
    Join,
    NotAdmitted,
    binding,
    decode_join_message,
    encode_join_message,
    proof_of,
    secret_key,
)

ANSWER_TIMEOUT_S = 30.0


class WrongPin(Refused):
    """Another node answers than the invite says."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "wrong_pin")


async def ask_to_join(invite: Invite, key: NodeKey, name: str, addresses: Sequence[str]) -> Admitted:
    """Be let in by the member that gave the invite.

    :raises InvalidRequest: no node can have this ``name``.
    :raises Refused: it refuses, or another node than the invite says answers at its addresses.
    :raises DaemonUnavailable: none of its addresses leads to it.
    """
    check_name(name, "a node")
    if not invite.addresses:
        raise Refused("the invite names no address", "unreachable")
    failures, wrong = [], None
    for address in invite.addresses:
        try:
            return await _ask(address, invite, key, name, addresses)
        except WrongPin as error:  # an address of a network of its own leads to somebody else here
            wrong = error
            failures.append(f"{address}: another node answers")
        except NOT_CONNECTED as error:
            why = reason_of(error) or getattr(error, "strerror", "") or str(error) or type(error).__name__
            failures.append(f"{address}: {why}")
    if wrong is not None:
        raise wrong if len(failures) == 1 else WrongPin(f"{wrong.message} ({'; '.join(failures)})")
    raise DaemonUnavailable(
        f"the inviting node cannot be reached from here ({'; '.join(failures)}): see that it runs, and that no "
        "firewall is in between; crdtsync cluster invite --address HOST:PORT names another address"
    )


async def _ask(address: str, invite: Invite, key: NodeKey, name: str, addresses: Sequence[str]) -> Admitted:
    async with connect(
        f"wss://{address}", ssl=joining_context(), server_hostname=JOIN_NAME, open_timeout=OPEN_TIMEOUT_S, **OPTIONS
    ) as socket:
        certificate = socket.transport.get_extra_info("ssl_object").getpeercert(True)
        if certificate is None or pin_of(certificate) != invite.pin.hex():
            raise WrongPin(
                f"what answers at {address} has another key than the invite says: it is another node, somebody in "
                "between, or the inviting node has changed its key; ask for a new invite"
            )
        challenge = await _receive(socket)
        if not isinstance(challenge, Challenge):
            raise Refused("what answers there does not speak of joining as it should", "peer")
        plain = Join(invite.invite, key.certificate, name, tuple(addresses))
        bound = binding(challenge.nonce, invite.pin, plain)
        proof, signature = proof_of(secret_key(invite.secret), bound), key.sign(bound)
        join = Join(plain.invite, plain.certificate, plain.name, plain.addresses, proof, signature)
        await socket.send(encode_join_message(join))
        answer = await _receive(socket)
    if isinstance(answer, NotAdmitted):
        raise Refused(f"the inviting node refuses: {answer.reason}", answer.code)
    if not isinstance(answer, Admitted) or answer.cluster != invite.cluster:
        raise Refused("what answers there belongs to another cluster than the invite says", "foreign_cluster")
    return answer


async def _receive(socket: Connection) -> object:
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            message = await socket.recv(decode=False)
        return decode_join_message(message)
    except ConnectionClosed as error:
        if error.rcvd is None or not error.rcvd.reason:
            raise
        raise Refused(f"the inviting node closed the connection: {error.rcvd.reason}", "closed") from None
    except InvalidEncoding as error:
        raise Refused(f"what answers there does not speak of joining as it should: {error.message}", "peer") from None
