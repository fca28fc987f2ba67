"""The short path of the message that comes most from peers: changes that set one register, of one value at most.

:func:`~crdtsync.wire.peer.messages.decode_message`, :class:`~crdtsync.core.sync.protocol.Sync` and
:meth:`Replica.receive` do for it a great deal that only other changes need. This does the same to the same state in one
go. Where a change is not as plain as it thinks (early, repeated, the first of its writer, of a fork, of several
operations, malformed), it is left to them, with all that come after it. A test takes in every change both ways and
compares all that comes of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.causality import HLC_MAX, SEQ_MAX, Dot
from crdtsync.errors import ForkDetected, InvalidEncoding
from crdtsync.wire.change import FORMAT, SHORT_HASH_BYTES, Change, Dep, Kind, Op, value_hash
from crdtsync.wire.codec import new_row, unpack
from crdtsync.wire.limits import (
    CHANGE_BYTES_MAX,
    CHANGE_OPS_MAX,
    CLUSTER_SPACE,
    IDEMPOTENCY_BYTES_MAX,
    KEY_BYTES_MAX,
    NAME_CHARS_MAX,
    VALUE_BYTES_MAX,
)
from crdtsync.wire.peer.changes import FRAME_CHANGES_MAX, Changes

if TYPE_CHECKING:
    from crdtsync.core.peers.peer_state import Link, SpaceLink
    from crdtsync.core.replica.replica import Applied, Replica
    from crdtsync.core.sync.protocol import Sync

CHANGES_HEADS = frozenset({b"\x94\x02", b"\x95\x02"})
"""How a message of the type ``CHANGES`` begins that has nothing newer to say."""
MESSAGE_BYTES_MAX = 512 * 1024
DEPS_MAX = 64
_REGISTER = int(Kind.REGISTER)


def take_plainly(sync: Sync, link: Link, data: bytes, now_s: float, now_ms: int) -> list[Applied] | None:
    """Take in a message of changes from a peer that has introduced itself; what could be applied of it.

    None: it is for the long way, and nothing was done.
    """
    found = _plain_message(sync, link, data)
    if found is None:
        return None
    here, replica, bodies, is_patient = found
    space = replica.name
    assert link.hello is not None
    applied: list[Applied] = []
    is_plain = True
    for number, body in enumerate(bodies):
        plain = _plain_change(replica, body)
        if plain is None:
            is_plain = False
            if number:
                applied += sync.changes(link, Changes(space, replica.epoch, bodies[number:], is_patient), now_s, now_ms)
            break
        change = plain
        writer, seq = change.writer, change.seq
        origin = replica.origins.get(writer)
        if origin is not None:
            sync.mesh.relaying.came(link, space, origin[0], is_new=True)
        replica.arrivals.note(writer, seq, link.hello.node, now_ms)
        if not replica.clock.witness(change.hlc, now_ms):
            replica.witness(change.hlc, replica.node_of(writer), now_ms)
        applied.append(replica.apply(change, now_ms, own=False))
        if seq > here.known.get(writer, 0):
            here.known[writer] = seq
        link.received_bytes += len(body)
        sync.received_count += 1
    if not applied:
        return None
    sync.took_plainly = is_plain
    sync.peers[link.hello.node].last_seen_ms = now_ms
    link.busy.add(space)
    sync.owe_ack(link, now_s, is_patient)
    sync.mesh.relaying.answer(link)
    return applied


def _plain_message(sync: Sync, link: Link, data: bytes) -> tuple[SpaceLink, Replica, list[bytes], bool] | None:
    """What a message is about, and the changes in it; None: nothing can be said of it here."""
    if len(data) > MESSAGE_BYTES_MAX:
        return None
    try:
        _, space, epoch, bodies, *patient = unpack(data)
    except InvalidEncoding:
        return None
    if type(space) is not str or space == CLUSTER_SPACE or type(epoch) is not int or type(bodies) is not list:
        return None
    here, replica = link.spaces.get(space), sync.replicas.get(space)
    if here is None or replica is None or here.stopped or epoch != replica.epoch:
        return None
    if replica.barred or not replica.gate.is_empty or not 1 <= len(bodies) <= FRAME_CHANGES_MAX:
        return None
    if any(type(body) is not bytes for body in bodies):
        return None
    return here, replica, bodies, bool(patient) and patient[0] is True


def _plain_change(replica: Replica, body: bytes) -> Change | None:
    """A change that is plain; None: it is not, or is malformed."""
    try:
        header, value = unpack(body)
        if type(header) is not bytes or type(value) is not bytes or len(value) > VALUE_BYTES_MAX:
            return None
        form, writer, seq, flat_deps, prev_hash, hlc, agent, idempotency, ops, origin = unpack(header)
        key, sub, kind, has_value, removes, attrs, *blind = ops[0]
    except (InvalidEncoding, ValueError, TypeError, LookupError):
        return None
    if (
        form != FORMAT
        or type(writer) is not int
        or type(seq) is not int
        or seq > SEQ_MAX
        or replica.vector.get(writer) != seq - 1  # type: ignore[call-overload]
        or writer == replica.writer
        or prev_hash != replica.hashes[writer]  # type: ignore[index]
        or type(hlc) is not int
        or not 0 <= hlc <= HLC_MAX
        or type(agent) is not str
        or len(agent) > NAME_CHARS_MAX
        or not (idempotency is None or (type(idempotency) is bytes and len(idempotency) <= IDEMPOTENCY_BYTES_MAX))
        or type(ops) is not list
        or len(ops) != 1
        or origin is not None
        or type(key) is not str
        or not key
        or key[0] == "_"
        or len(key) > KEY_BYTES_MAX
        or not key.isascii()
        or not key.isprintable()
        or sub is not None
        or type(kind) is not int
        or kind != _REGISTER
        or has_value is not True
        or attrs is not None
        or (blind and (len(blind) > 1 or blind[0] is not True))
        or len(body) > CHANGE_BYTES_MAX
    ):
        return None
    deps = _deps(replica, flat_deps)
    held = replica.entries.held(key)
    if deps is None or len(held) > 1:
        return None
    dots: tuple[Dot, ...] = ()
    if held:
        gone = held[0]
        if gone.kind != _REGISTER or gone.attrs is not None or not _is_dot(removes, gone.dot):
            return None
        dots = (gone.dot,)
    elif removes is not None:
        return None
    op = new_row(Op, (key, None, _REGISTER, value, value_hash(value), dots, None, bool(blind)))
    change = Change(writer, seq, deps, prev_hash, hlc, agent, idempotency, (op,))  # type: ignore[arg-type]
    return replica.codec.opened(change, header, body)


def _is_dot(plain: Any, dot: Dot) -> bool:
    return (
        type(plain) is list
        and len(plain) == 3
        and type(plain[0]) is int
        and type(plain[1]) is int
        and type(plain[2]) is int
        and (plain[0], plain[1], plain[2]) == dot
        and plain[2] <= CHANGE_OPS_MAX
    )


def _deps(replica: Replica, flat: Any) -> tuple[Dep, ...] | None:
    """What a change comes after, all of which is held here; None: it is not, or may be of a fork."""
    if flat == []:
        return ()
    if type(flat) is not list or len(flat) % 3 or len(flat) > 3 * DEPS_MAX:
        return None
    deps: list[Dep] = []
    for at in range(0, len(flat), 3):
        writer, seq, short_hash = flat[at : at + 3]
        if type(writer) is not int or type(seq) is not int or type(short_hash) is not bytes:
            return None
        if len(short_hash) != SHORT_HASH_BYTES or not 1 <= seq <= replica.vector.get(writer, 0):  # type: ignore[call-overload]
            return None
        try:
            replica.check_head(writer, seq, short_hash)  # type: ignore[arg-type]
        except ForkDetected:
            return None
        deps.append(new_row(Dep, (writer, seq, short_hash)))
    return tuple(deps)
