"""Apply the change that is made most: one value of a register in the place of one other, or of none.

:meth:`Replica.commit` does for any change what this does for such a one, to the same state. The way of a plain ``set``
of an agent and of a plain change of a peer both end here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.causality import Dot
from crdtsync.core.crdt.entries import Entry
from crdtsync.core.history.removal_reason import Fate
from crdtsync.core.replica.replica import Applied, Effect
from crdtsync.core.storage.interface import EntryRow, PastRow, Removal, RemovalRow, RemovedRow
from crdtsync.wire.change import Change, Kind
from crdtsync.wire.codec import pack

if TYPE_CHECKING:
    from crdtsync.core.replica.replica import Replica

DEPS_MAX = 64
"""With more of them a change may come near to its bound, which is not looked at here."""
_REGISTER = int(Kind.REGISTER)
_NOTHING_SEEN = pack(None)
_BLINDLY = b"\x81\x02"  # the map {2: …}, see crdtsync.core.history.recorder
_row: Any = tuple.__new__  # what a NamedTuple's own constructor does in the end, without a call of Python's
_SET = "set"
_REPLACED, _LOST = Fate.REPLACED, Fate.LOST


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
