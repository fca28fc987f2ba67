"""A sliding time to live: a key lives on as long as somebody reads it.

The problem. Were a read to write the value anew, two hosts that read at once would leave two equal siblings, and a read
on one host while another one sets the key would bring the old value back, beside the new one or before it.

So a read writes elsewhere: ``_kept/KEY``, a reserved register without a value, whose own time to live says until when
the key is kept. Every sliding value in KEY lives as long as any entry there. If two were written at once, the later one
counts; to set or delete the key has nothing to do with it.

A host that hears of a read too late has hidden the value, and shows it again; if it is the one that deletes it, the
value is gone. A read keeps what has less than half of its time left, so that is how long the hosts may be cut off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.wire.change import Op, value_hash
from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import SLIDING_KINDS, Kind
from crdtsync.wire.limits import KEY_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crdtsync.core.crdt.entries import Entries
    from crdtsync.core.crdt.entry import Entry
    from crdtsync.core.crdt.schemas import Schemas

KEPT_PREFIX = "_kept/"
SLIDES = "slides"
"""The attribute of values that live on when they are read."""
KEPT_AT_ONCE_MAX = 256
"""Keys that one read of many keeps; of the others the next one."""
_NOTHING = pack(None)


def slides(entry: Entry) -> bool:
    """Whether an entry lives on when its key is read."""
    return entry.attrs is not None and entry.attrs.get(SLIDES) is True and entry.kind in SLIDING_KINDS


def kept_by(entry: Entry) -> str | None:
    """The key that an entry keeps; None: it keeps none."""
    return entry.key[len(KEPT_PREFIX) :] if entry.key.startswith(KEPT_PREFIX) else None


def keep(entries: Entries, schemas: Schemas, keys: Iterable[str], now_ms: int) -> list[Op]:
    """The writes that follow from a read of these keys: one for each key of which half the time to live is over. The
    names of longer keys have no room for the prefix; they live no longer.
    """
    ops: list[Op] = []
    for key in dict.fromkeys(keys):
        if len(ops) == KEPT_AT_ONCE_MAX:
            break
        rules = schemas.of(key).rules
        if rules is None or not rules.slides or rules.ttl_ms is None:
            continue
        times = [entry.expires_ms() for entry in entries.live(key, now_ms) if slides(entry)]
        name = KEPT_PREFIX + key
        if len(name.encode()) > KEY_BYTES_MAX or not any(time and time - now_ms < rules.ttl_ms / 2 for time in times):
            continue
        gone = tuple(entry.dot for entry in entries.held(name))
        ops.append(Op(name, None, Kind.REGISTER, _NOTHING, value_hash(_NOTHING), gone, {"ttl": rules.ttl_ms}))
    return ops
