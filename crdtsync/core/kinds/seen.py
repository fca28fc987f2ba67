"""The values that a write replaced: as an operation says it, as a row has it, as agents are told it.

Ann has read ``k``, which bob set, and sets it. Her entry's row says that it took the place of bob's entry, which she
had seen. Had she not read it, the row would say the same, and that it was *blind*.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from crdtsync.causality import Dot, VersionVector
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.change import Op, RemoveRange, flat_removes
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.tokens import encode_dot, encode_token

if TYPE_CHECKING:
    from crdtsync.core.crdt.entry import Entry
    from crdtsync.core.space import SpaceState

_RANGE, _BLIND, _CROWDED, _READ = 0, 2, 3, 4
BLINDLY = b"\x81\x02"
"""The map {_BLIND: …}."""
NOTHING_SEEN = pack(None)


class Seen(NamedTuple):
    """The values that an operation replaced: single ``dots``, or all of the key that ``vector`` covers.

    ``blind``: its author had not read it. ``crowded``: what it took along unread, since the key was full.
    """

    dots: tuple[Dot, ...] = ()
    vector: VersionVector | None = None
    blind: bool = False
    crowded: tuple[Dot, ...] = ()


def seen_by(op: Op) -> bytes:
    """The values that an operation replaces, as an entry's row has it."""
    if not op.removes:
        return NOTHING_SEEN
    if op.crowded and not isinstance(op.removes, RemoveRange):
        end = len(op.removes) - op.crowded
        known, crowded = flat_removes(op.removes[:end]), flat_removes(op.removes[end:])
        return pack({_BLIND if op.blind else _READ: known, _CROWDED: crowded})
    plain = flat_removes(op.removes)
    return pack({_BLIND: plain}) if op.blind and not isinstance(op.removes, RemoveRange) else pack(plain)


def decode_seen(packed: bytes) -> Seen:
    """The opposite."""
    plain = unpack(packed, strict_map_key=False)
    if not isinstance(plain, dict):
        return Seen(_dots(plain))
    if _RANGE in plain:
        flat = plain[_RANGE]
        return Seen((), dict(zip(flat[::2], flat[1::2], strict=True)))
    is_blind = _BLIND in plain
    return Seen(_dots(plain[_BLIND if is_blind else _READ]), None, is_blind, _dots(plain.get(_CROWDED)))


def _dots(flat: list[Any] | None) -> tuple[Dot, ...]:
    flat = flat or []
    return tuple(Dot(*parts) for parts in zip(flat[::3], flat[1::3], flat[2::3], strict=True))


def seen_of(space: SpaceState, entry: Entry) -> bytes | None:
    """The values that an entry's operation replaced, if the entry was alive at the last commit or is now; None: not
    known here.
    """
    rows = space.ledger.batch.entries
    if rows and entry.row >= rows[0].row:
        at = bisect_left(rows, entry.row, key=itemgetter(0))
        if at < len(rows) and rows[at].row == entry.row:
            return rows[at].seen
    return space.storage.seen(entry.row)


def describe_seen(space: SpaceState, packed: bytes | None) -> dict[str, Any]:
    """The values that a write replaced, as agents see it: ``seen`` is None if that is not known here.

    ``blind`` are those that it had not read; ``seen_all`` stands for all of the key that its token covers.
    """
    try:
        seen = None if packed is None else decode_seen(packed)
    except (LookupError, TypeError, ValueError):  # a damaged page of the disk: what else is known is told
        seen = None
    if seen is None:
        return {"seen": None}
    if seen.vector is not None:
        return {"seen": [], "seen_all": encode_token([(space.name, space.epoch, seen.vector)])}
    dots, crowded = ([encode_dot(dot) for dot in dots] for dots in (seen.dots, seen.crowded))
    if seen.blind or crowded:
        return {"seen": [], "blind": dots + crowded} if seen.blind else {"seen": dots, "blind": crowded}
    return {"seen": dots}
