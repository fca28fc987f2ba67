"""The short path of the write that is made most: a plain ``set`` of a register that holds one value or none.

:mod:`crdtsync.core.writes`, :class:`~crdtsync.core.draft.Draft` and :meth:`Replica.commit` do for it a great deal that
only other writes need. This does the same to the same state in one go. Where anything is not as plain as it thinks
(options, conditions, siblings, expiry, schemas, rights, a first change, a value that cannot be stored), it does
nothing at all and leaves the request to them. A test makes every write both ways and compares all that comes of it.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from crdtsync.causality import Dot, hlc_ms
from crdtsync.core.access.rights import Right
from crdtsync.core.attached import Reply
from crdtsync.core.entries import Entry
from crdtsync.core.fates import Fate
from crdtsync.core.replica import Applied, Effect
from crdtsync.core.storage import EntryRow, PastRow, Removal, RemovalRow, RemovedRow
from crdtsync.errors import InvalidEncoding, NotAllowed
from crdtsync.wire.change import FORMAT, Change, Kind, Op, value_hash
from crdtsync.wire.codec import check_value, pack, unpack
from crdtsync.wire.limits import VALUE_BYTES_MAX, is_name, key_fault
from crdtsync.wire.tokens import TOKEN_PREFIX, VERSION_PREFIX

if TYPE_CHECKING:
    from crdtsync.core.agents import Desk
    from crdtsync.core.arguments import Result
    from crdtsync.core.attached import Agent
    from crdtsync.core.replica import Replica

DEPS_MAX = 64
"""With more of them a change may come near to its bound, which is not looked at here."""
VERSIONS_KNOWN_MAX = 4096
"""So many versions are kept as the text that readers are told: what is read or replaced is most often read before."""
_ARGUMENTS = frozenset({"key", "value", "n", "seen", "agent", "space"})
_PLAIN_TYPES = frozenset({str, int, bytes, bool, type(None)})
_REGISTER = int(Kind.REGISTER)
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_NOTHING_SEEN = pack(None)
_BLINDLY = b"\x81\x02"  # the map {2: …}, see crdtsync.core.past
_row: Any = tuple.__new__  # what a NamedTuple's own constructor does in the end, without a call of Python's
_SET = "set"
_REPLACED, _LOST = Fate.REPLACED, Fate.LOST


def write_plainly(desk: Desk, agent: Agent, request: int, args: Mapping[str, Any]) -> bool:
    """Do and answer a ``set`` that is plain all through. False: it is not, or is to be refused; nothing was done."""
    host = desk.host
    space, author = session_of(desk, agent, args)
    replica = host.replicas.get(space)
    if replica is None or host.read_only or not author:
        return False
    done = plain_set(agent, author, replica, args, host.now_ms)
    if done is None:
        return False
    applied, result = done
    host.applied(replica, [applied])
    packed = pack(result)
    host.outcome(desk.outcomes.remember(agent.client, args["n"], result, packed, host.now_ms))
    payload = b"\x93" + pack(request) + b"\x00" + packed
    reply = len(payload).to_bytes(4, "big") + payload
    desk.replies.append(_row(Reply, (agent.conn, request, reply, False)))
    return True


def session_of(desk: Desk, agent: Agent, args: Mapping[str, Any]) -> tuple[str, str]:
    """The space that a request is about, and under what name: those of the hello, or its own. Both empty: the general
    way has to look at them.
    """
    space, author = agent.space, agent.name
    if not author:
        return "", ""
    if "space" in args:
        space = args["space"]
        if not is_name(space):
            return "", ""
    if "agent" in args:
        author = args["agent"]
        if not is_name(author):
            return "", ""
        try:
            desk.host.guard.check_label(agent, author)
        except NotAllowed:
            return "", ""
    return space, author


def plain_set(
    agent: Agent, author: str, replica: Replica, args: Mapping[str, Any], now_ms: int
) -> tuple[Applied, Result] | None:
    """Do a ``set`` that is plain all through; also what its author is to be told. None: it is not, or is to be
    refused, and nothing was done.
    """
    key: Any = args.get("key")
    value, number = args.get("value"), args.get("n")
    if (
        not args.keys() <= _ARGUMENTS
        or agent.everywhere < Right.WRITE
        or type(number) is not int
        or not 0 <= number < 2**63
        or key_fault(key) is not None
        or key[0] == "_"
        or type(value) is not bytes
        or len(value) > VALUE_BYTES_MAX
        or not replica.is_plain
        or len(replica.since_own) > DEPS_MAX
    ):
        return None
    held = replica.entries.held(key)
    gone: Entry | None = None
    if held:
        gone = held[0]
        if len(held) > 1 or gone.kind != _REGISTER or gone.attrs is not None:
            return None
    seen = args.get("seen")
    if seen is not None and (gone is None or seen != known_version_text(gone.hlc, *gone.dot)):
        return None
    if not _can_be_stored(value):
        return None
    is_blind = seen is None and gone is not None
    result: Result = {"behind": False, "replaced": None}
    if gone is not None:
        if is_blind:
            result["replaced"] = _described(replica, gone)
        else:
            replica.clock.witness(gone.hlc, now_ms)
    result["siblings"] = 0
    idempotency = agent.client[:8] + number.to_bytes(8, "big")
    applied = _commit(replica, key, value, gone, is_blind, author, idempotency, now_ms)
    change = applied.change
    result["version"] = version_text(change.hlc, change.writer, change.seq)
    result["token"] = _text(TOKEN_PREFIX, [[replica.name, replica.epoch, [change.writer, change.seq]]])
    return applied, result


def _commit(
    replica: Replica, key: str, value: bytes, gone: Entry | None, is_blind: bool, agent: str, idempotency: bytes,
    now_ms: int,
) -> Applied:  # fmt: skip
    """Make the change that writes ``value`` in the place of ``gone``, and apply it: as :meth:`Replica.commit` does."""
    writer, seq = replica.next_dot()
    hashed = value_hash(value)
    removed = [] if gone is None else [*gone.dot]
    removes = () if gone is None else (gone.dot,)
    op = _row(Op, (key, None, Kind.REGISTER, value, hashed, removes, None, is_blind))
    deps = replica.deps() if replica.since_own else ()
    hlc = replica.clock.tick(now_ms)
    change = Change(writer, seq, deps, replica.hashes[writer], hlc, agent, idempotency, (op,))
    plain_op = [key, None, _REGISTER, True, removed or None, None]
    if is_blind:
        plain_op.append(True)
    flat_deps = [part for dep in deps for part in dep] if deps else []
    header = pack([FORMAT, writer, seq, flat_deps, change.prev_hash, hlc, agent, idempotency, [plain_op], None])
    replica.codec.seal_one(change, header, value, hashed)
    applied = put_plainly(replica, change, gone, now_ms, own=True)
    replica.since_own.clear()
    return applied


def put_plainly(replica: Replica, change: Change, gone: Entry | None, now_ms: int, own: bool) -> Applied:
    """Apply a change that writes one register in the place of ``gone``, all that the key holds."""
    position = replica.advance(change, now_ms, own)
    op, ledger = change.ops[0], replica.ledger
    key, value, hashed, is_blind = op.key, op.value, op.value_hash, op.blind
    writer, seq, hlc, agent = change.writer, change.seq, change.hlc, change.agent
    ledger.row += 1
    dot = _row(Dot, (writer, seq, 0))
    assert hashed is not None
    entry = Entry(ledger.row, dot, key, None, _REGISTER, hlc, agent, value, hashed, None)
    seen = _NOTHING_SEEN
    if gone is None:
        replica.entries.add(entry)
    else:
        replica.entries.put_in_place(gone, entry)
        packed = pack([*gone.dot])
        seen = _BLINDLY + packed if is_blind else packed
        _bury(replica, change, gone, dot, packed, position, now_ms)
    row = (ledger.row, replica.id, writer, seq, 0, key, None, _REGISTER, hlc, agent, value, hashed, None, seen)
    ledger.batch.entries.append(_row(EntryRow, row))
    effect = _row(Effect, (op, entry, [] if gone is None else [gone]))
    applied: Applied = _row(Applied, (replica.name, change, position, own, [effect]))
    return applied


def _bury(replica: Replica, change: Change, gone: Entry, dot: Dot, removes: bytes, position: int, now_ms: int) -> None:
    """As :meth:`Past.bury` does."""
    past, batch = replica.past, replica.ledger.batch
    writer, seq, _ = dot
    hlc, agent, op = change.hlc, change.agent, change.ops[0]
    fate = _LOST if op.blind and not past.is_same_author(gone, change) else _REPLACED
    past.buried.setdefault(op.key, []).append(
        _row(PastRow, (gone, None, position, fate, _row(Removal, (dot, hlc, agent, _SET))))
    )
    batch.removed_rows.append(_row(RemovedRow, (gone.row, position, now_ms, 0, fate)))
    row = (replica.id, op.key, writer, seq, 0, removes, position, now_ms, hlc.to_bytes(8, "big"), agent, _SET)
    batch.removals.append(_row(RemovalRow, row))


def _can_be_stored(value: bytes) -> bool:
    try:
        plain = unpack(value)
        if type(plain) not in _PLAIN_TYPES:
            check_value(plain)
    except InvalidEncoding:
        return False
    return True


def _described(replica: Replica, entry: Entry) -> dict[str, Any]:
    writer, seq, n = entry.dot
    return {
        "kind": "register",
        "value": entry.value,
        "dot": f"{writer}.{seq}.{n}",
        "agent": entry.agent,
        "node": replica.node_of(writer),
        "time": hlc_ms(entry.hlc),
        "confidence": None,
        "meta": None,
        "ttl": None,
    }


@lru_cache(VERSIONS_KNOWN_MAX)
def known_version_text(hlc: int, writer: int, seq: int, n: int) -> str:
    """The same, of an entry that is read, and most often not for the first time."""
    return version_text(hlc, writer, seq, n)


def version_text(hlc: int, writer: int, seq: int, n: int = 0) -> str:
    """The version of a reader who was handed one entry alone, as users see it."""
    return _text(VERSION_PREFIX, [hlc, 0, [writer, seq, n]])


def _text(prefix: str, plain: list[Any]) -> str:
    return prefix + b2a_base64(pack(plain), newline=False).rstrip(b"=").translate(_URL_SAFE).decode("ascii")
