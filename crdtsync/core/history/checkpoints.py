"""Checkpoints: points of a space's past with a name, to which one can go back.

Ann is about to let an agent rewrite the plan, and makes the checkpoint ``before-refactor``. That is one small write: a
register ``_checkpoint/before-refactor`` which says what Ann's node held just then, as a version vector. Nothing is
copied. From then on every node keeps the values that the checkpoint holds, also those that are overwritten or deleted
later: its history reaches back to that point while the checkpoint is there
(:mod:`crdtsync.core.background.trimming`).

A node that came later, by a snapshot, never had the values that were gone by then. It says so (``too_old``), and shows
nothing in their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crdtsync.causality import Dot, VersionVector, Writer, covers, flatten, hlc_ms
from crdtsync.core.crdt.entries import Entry
from crdtsync.core.storage.interface import pack_vector
from crdtsync.errors import InvalidRequest
from crdtsync.wire.change import Kind
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.limits import is_name, shown

if TYPE_CHECKING:
    from crdtsync.core.replica.replica import Replica

CHECKPOINT_PREFIX = "_checkpoint/"
AT_CHECKPOINT = "checkpoint:"
"""What a name begins with where a token or a time may stand in its place."""
CHECKPOINTS_MAX = 100
"""Checkpoints of a space when one more is made; merging takes what others have made."""


class Checkpoint(NamedTuple):
    """A record: the cut, when it was made and by whom; ``keys`` and ``digest`` of the whole space then."""

    name: str
    entry: Entry
    vector: VersionVector
    note: str
    prefixes: tuple[str, ...]
    keys: int
    digest: bytes

    @property
    def time_ms(self) -> int:
        """When it was made."""
        return hlc_ms(self.entry.hlc)


def check_name(name: object) -> str:
    """A checkpoint's name.

    :raises InvalidRequest: it cannot be one.
    """
    if not is_name(name):
        raise InvalidRequest(
            f"{shown(name)} cannot name a checkpoint: use letters, digits, '.', '_' and '-', as in names of spaces"
        )
    return str(name)


def packed_record(replica: Replica, note: str, prefixes: list[str]) -> bytes:
    """The value of the record of a checkpoint of what the replica holds now."""
    entries = replica.entries
    return pack(
        {
            "cut": flatten(replica.vector),
            "digest": entries.digest.to_bytes(16, "big"),
            "keys": entries.key_count,
            "note": note,
            "prefixes": prefixes,
        }
    )


def record_of(entry: Entry) -> Checkpoint | None:
    """What a record says; None: somebody's careless bytes."""
    try:
        plain = unpack(entry.value or b"")
        flat = plain["cut"]
        vector = {Writer(int(writer)): int(seq) for writer, seq in zip(flat[::2], flat[1::2], strict=True)}
        name, prefixes = entry.key.removeprefix(CHECKPOINT_PREFIX), tuple(map(str, plain["prefixes"]))
        note, keys, digest = str(plain["note"]), int(plain["keys"]), bytes(plain["digest"])
        return Checkpoint(name, entry, vector, note, prefixes, keys, digest)
    except (LookupError, TypeError, ValueError):
        return None


class Checkpoints:
    """Of one replica: the records in its live entries, and where their cuts stand in this node's log."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._positions: dict[Dot, int] | None = None

    def all(self) -> list[Checkpoint]:
        """All of them, the oldest first; those of one name that were made at once, too."""
        entries = self._replica.entries
        held = [entry for key in entries.keys(CHECKPOINT_PREFIX) for entry in entries.held(key)]
        records = [record for entry in held if entry.kind == Kind.REGISTER and (record := record_of(entry))]
        return sorted(records, key=lambda record: record.entry.order)

    def get(self, name: str) -> Checkpoint:
        """One of them.

        :raises InvalidRequest: there is none of that name, or there are several.
        """
        found = [
            record for entry in self._replica.entries.held(CHECKPOINT_PREFIX + name) if (record := record_of(entry))
        ]
        if not found:
            raise InvalidRequest(f"there is no checkpoint {name} in space {self._replica.name}")
        if len(found) > 1:
            raise InvalidRequest(
                f"the checkpoint {name} was made {len(found)} times at once, on several hosts: delete it, and make it "
                "anew under another name"
            )
        return found[0]

    def is_whole(self, record: Checkpoint) -> bool:
        """Whether this node can show all of it."""
        return covers(record.vector, self._replica.past.floor)

    # -- where their cuts stand in the log -----------------------------------------------------------------------

    def pins(self) -> dict[Dot, int]:
        """By the dot of its record, up to where in the log each checkpoint holds everything. What died behind that is
        kept for it. Found out once, while the log still reaches back to it, and kept on disk.
        """
        replica = self._replica
        known = self._known()
        records = {record.entry.dot: record for record in self.all()}
        durable = replica.durable_vector()
        for dot in known.keys() - records.keys():
            del known[dot]
            replica.ledger.batch.metas.append((self._meta(dot), None))
        for dot, record in records.items():
            if dot in known or not (covers(record.vector, replica.floor) and covers(durable, record.vector)):
                continue
            known[dot] = replica.storage.position_missing(replica.id, record.vector, durable)
            replica.ledger.batch.metas.append((self._meta(dot), pack([*dot, known[dot], pack_vector(record.vector)])))
        return known

    def position_of(self, vector: VersionVector) -> int:
        """The same of a vector that the log does not reach back to; 0: nobody knows."""
        known = self._known()
        places = [known[r.entry.dot] for r in self.all() if r.entry.dot in known and r.vector == vector]
        return max(places, default=0)

    def _known(self) -> dict[Dot, int]:
        if self._positions is None:
            rows = map(unpack, self._replica.storage.metas(self._meta(None)))
            self._positions = {Dot(Writer(row[0]), row[1], row[2]): row[3] for row in rows}
        return self._positions

    def _meta(self, dot: Dot | None) -> str:
        name = "" if dot is None else f"{dot.writer}.{dot.seq}.{dot.n}"
        return f"checkpoint/{self._replica.id}/{name}"
