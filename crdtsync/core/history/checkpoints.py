"""Checkpoints: points of a space's past with a name, to which one can go back.

Ann is about to let an agent rewrite the plan, and makes the checkpoint ``before-refactor``. That is one small write: a
register ``_checkpoint/before-refactor`` which says what Ann's node held just then, as a version vector. Nothing is
copied. From then on every node keeps the values that the checkpoint holds, also those that are overwritten or deleted
later: its history reaches back to that point while the checkpoint is there
(:mod:`crdtsync.core.background.trimming`).

Which values are in a checkpoint is decided once on each node, when the node has the record. If the node's history
reaches back to the cut, the node is *whole* for the checkpoint from then on: whatever removes a value later is not in
the cut. A node that came later, by a snapshot, never had the values that were gone by then. It asks a whole node for
them (:mod:`crdtsync.core.background.checkpoint_recall`), and keeps them under a number of their own, as rows of no
space. Until it has all of them, it says ``too_old``.
"""

from __future__ import annotations

import re
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING

from crdtsync.causality import WRITER_MAX, Dot, VersionVector, Writer, covers, flatten, hlc_ms
from crdtsync.core.alarm_catalogue import CHECKPOINT_LOST
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.history.checkpoint_policies import POLICY_PREFIX, CheckpointPolicy, policy_of
from crdtsync.core.storage.rows import kept_name
from crdtsync.errors import InvalidRequest
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import NAME_RULE, is_name, shown
from crdtsync.wire.parts import read_blob, read_count
from crdtsync.wire.tokens import encode_dot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crdtsync.core.history.recorder import HistoryRecorder
    from crdtsync.core.space import SpaceState

CHECKPOINT_PREFIX = "_checkpoint/"
AT_CHECKPOINT = "checkpoint:"
"""The prefix of a checkpoint's name where a token or a time may stand in its place."""
CHECKPOINTS_MAX = 100
"""Checkpoints of a space when one more is made; merging takes what others have made."""
VERSIONS_MAX = 100
"""Schemas of which a checkpoint names the version: the first by pattern."""


_DURATION = re.compile(r"\d+(\.\d+)?(ms|s|m|h|d)", re.ASCII)
_LOST = -1
"""Where the cut of a checkpoint stands that this node has let go."""
_RECALLED = -(1 << 61)
"""Numbers of spaces below are of what nodes have recalled."""


class Checkpoint(NamedTuple):
    """A record: the cut, when it was made and by whom; ``keys`` and ``digest`` of the whole space then."""

    name: str
    entry: Entry
    vector: VersionVector
    note: str
    prefixes: tuple[str, ...]
    keys: int
    digest: bytes
    policy: str = ""
    """That by which a node made it by itself."""
    versions: tuple[tuple[str, int], ...] = ()
    """The versions that schemas had, by pattern."""

    @property
    def time_ms(self) -> int:
        """When it was made."""
        return hlc_ms(self.entry.hlc)


class Kept(NamedTuple):
    """How this node keeps what a checkpoint holds: all that its replica held at a ``position`` of the log, as far as
    the checkpoint's cut covers it, and the rows under ``number``, of ``size_bytes``; 0: there are none.

    Not ``is_whole``: some of these rows are still to come, from ``node``, which goes on at ``place``. ``untold``:
    patterns of keys of which that node could not tell.
    """

    space: int
    dot: Dot
    position: int
    number: int = 0
    size_bytes: int = 0
    is_whole: bool = True
    node: str = ""
    place: bytes = b""
    untold: tuple[str, ...] = ()

    def packed(self) -> bytes:
        """As a node keeps it."""
        return pack([self.space, [*self.dot], *self[2:-1], [*self.untold]])

    @property
    def name(self) -> str:
        """Under which name."""
        return kept_name(self.space, self.dot)


def kept_of(packed: bytes) -> Kept:
    """Out of what a node has kept."""
    space, (writer, seq, n), position, number, size_bytes, is_whole, node, place, untold = unpack(packed)
    dot = Dot(Writer(writer), seq, n)
    return Kept(space, dot, position, number, size_bytes, is_whole, node, place, tuple(untold))


def recalled_number(space: int, dot: Dot) -> int:
    """The number under which a node keeps what it recalls of a checkpoint: no space has it."""
    hashed = blake2b(pack([space, *dot]), digest_size=8).digest()
    return _RECALLED - (int.from_bytes(hashed, "big") >> 4)


def check_name(name: object) -> str:
    """A checkpoint's name.

    :raises InvalidRequest: it cannot be one.
    """
    if not is_name(name):
        raise InvalidRequest(f"{shown(name)} cannot name a checkpoint: {NAME_RULE}")
    return str(name)


def check_new_name(name: object) -> str:
    """A checkpoint's name, for a new one.

    :raises InvalidRequest: it cannot be one, or would be taken for a time, a duration or a token where a point of the
        past is asked for.
    """
    checked = check_name(name)
    if _DURATION.fullmatch(checked) or checked.startswith("c1.") or _is_time(checked):
        raise InvalidRequest(
            f"{checked} cannot name a checkpoint: restore would take it for a time or a token; choose a name such as "
            f"at-{checked}"
        )
    return checked


def _is_time(name: str) -> bool:
    try:
        datetime.fromisoformat(name)
    except ValueError:
        return False
    return True


def packed_record(space: SpaceState, note: str, prefixes: list[str], policy: str = "") -> bytes:
    """The value of the record of a checkpoint of what the replica holds now."""
    entries = space.entries
    versions = {schema.pattern: schema.rules.version for schema in space.schemas.all() if schema.rules is not None}
    versioned = [(pattern, version) for pattern, version in versions.items() if version is not None]
    return pack(
        ({"policy": policy} if policy else {})
        | ({"versions": dict(versioned[:VERSIONS_MAX])} if versioned else {})
        | {
            "cut": flatten(space.vector),
            "digest": entries.digest.to_bytes(16, "big"),
            "keys": entries.key_count - sum(1 for _ in entries.keys("_", hidden=True)),
            "note": note,
            "prefixes": prefixes,
        }
    )


def record_of(entry: Entry) -> Checkpoint | None:
    """The checkpoint of a record; None: somebody's careless bytes."""
    try:
        plain = unpack(entry.value or b"")
        flat = plain["cut"]
        dots = zip(flat[::2], flat[1::2], strict=True)
        vector = {Writer(read_count(writer, WRITER_MAX)): read_count(seq) for writer, seq in dots}
        name, prefixes = entry.key.removeprefix(CHECKPOINT_PREFIX), tuple(map(str, plain["prefixes"]))
        note, keys, digest = str(plain["note"]), read_count(plain["keys"]), read_blob(plain["digest"], 16)
        versions = tuple((str(pattern), read_count(version)) for pattern, version in plain.get("versions", {}).items())
        return Checkpoint(
            name, entry, vector, note, prefixes, keys, digest, str(plain.get("policy", "")), versions[:VERSIONS_MAX]
        )
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None


class Checkpoints:
    """The checkpoints of one replica: the records in its live entries, and where their cuts stand in
    this node's log.
    """

    __slots__ = (
        "_all",
        "_kept",
        "_keys",
        "_past",
        "_policies",
        "_policy_keys",
        "_positions",
        "_space",
        "bytes_max",
        "held_bytes",
        "leavings",
        "pins",
    )  # fmt: skip

    def __init__(self, space: SpaceState, past: HistoryRecorder) -> None:
        self._space = space
        self._past = past
        self.pins: list[int] = []
        """Up to where in the log the cuts of checkpoints reach: what died behind the first is kept."""
        self.held_bytes = 0
        """Bytes of the space's past when it was last looked at, and how much checkpoints may hold back."""
        self.bytes_max = 1
        self._keys: dict[str, None] = {}
        self._policy_keys: dict[str, None] = {}
        self._all: list[Checkpoint] | None = None
        self._policies: list[CheckpointPolicy] | None = None
        self._positions: dict[Dot, int] | None = None
        self._kept: dict[Dot, Kept] | None = None
        self.leavings: list[Kept] = []
        """What was kept of checkpoints that are gone, or let go: its rows are to be dropped."""

    def note(self, keys: Iterable[str]) -> None:
        """The entries of these keys, or of some of them, have changed."""
        for key in keys:
            for prefix, known in ((CHECKPOINT_PREFIX, self._keys), (POLICY_PREFIX, self._policy_keys)):
                if key.startswith(prefix):
                    if self._space.entries.held(key):
                        known[key] = None
                    else:
                        known.pop(key, None)
                    self._all = self._policies = None

    def all(self) -> list[Checkpoint]:
        """All of them, the oldest first; those of one name that were made at once, too."""
        if self._all is not None:
            return self._all
        held = [entry for key in self._keys for entry in self._space.entries.held(key)]
        records = [record for entry in held if entry.kind == Kind.REGISTER and (record := record_of(entry))]
        records.sort(key=lambda record: record.entry.order)
        if len(records) == len(held):  # else a disk may have spoilt one, until it is mended
            self._all = records
        return records

    def policies(self) -> list[CheckpointPolicy]:
        """The policies of automatic ones, by name."""
        if not self._policy_keys:  # every space is asked every few seconds
            return []
        if self._policies is None:
            found = [
                policy_of(key.removeprefix(POLICY_PREFIX), self._space.entries.held(key))
                for key in sorted(self._policy_keys)
            ]
            policies = [policy for policy in found if policy is not None]
            if len(policies) < len(found):
                return policies  # as in :meth:`all`
            self._policies = policies
        return self._policies

    def newest_ms(self) -> int | None:
        """When the newest of them was made; None: there is none."""
        return max((hlc_ms(entry.hlc) for key in self._keys for entry in self._space.entries.held(key)), default=None)

    def get(self, name: str) -> Checkpoint:
        """One of them.

        :raises InvalidRequest: there is none of that name, or there are several.
        """
        found = [record for entry in self._space.entries.held(CHECKPOINT_PREFIX + name) if (record := record_of(entry))]
        if not found:
            where = f"in space {self._space.name}"
            raise InvalidRequest(f"there is no checkpoint {name} {where}: see crdtsync checkpoint list")
        if len(found) > 1:
            raise InvalidRequest(
                f"the checkpoint {name} was made {len(found)} times at once, on several hosts: delete it, and make it "
                "anew under another name"
            )
        return found[0]

    def is_whole(self, record: Checkpoint) -> bool:
        """Whether this node can show all of it."""
        kept = self.kept(record)
        return covers(record.vector, self._past.floor) if kept is None else kept.is_whole

    # -- where their cuts stand in the log -----------------------------------------------------------------------

    def find_pins(self, held_bytes: int, bytes_max: int) -> None:
        """Find out where the cuts of new checkpoints stand, while the log reaches back to them, and keep that on disk.

        If the past takes ``held_bytes``, with what was recalled more than ``bytes_max``, a checkpoint is let go here:
        the oldest automatic one, but not the newest of all; else the oldest of all, with an alarm.
        """
        space, known = self._space, self._known()
        records = {record.entry.dot: record for record in self.all()}
        held_bytes += self.recalled_bytes()
        self.held_bytes, self.bytes_max = held_bytes, bytes_max
        if not records and not known and not self._marks():
            return
        for dot in [dot for dot in known if dot not in records]:
            del known[dot]
            space.ledger.batch.metas.append((self._meta(dot), None))
        for dot in [dot for dot in self._marks() if known.get(dot, _LOST) == _LOST]:
            self._stop_keeping(dot)
        for dot, record in records.items():
            if dot not in known and covers(record.vector, space.floor):
                durable = space.durable_vector()
                self._note(dot, space.storage.position_missing(space.id, record.vector, durable))
            position = known.get(dot, _LOST)
            if position != _LOST and dot not in self._marks() and covers(record.vector, self._past.floor):
                self.keep(Kept(space.id, dot, position))
        pinned = {dot: position for dot, position in known.items() if position != _LOST}
        if pinned and held_bytes > bytes_max:
            by_age = sorted(pinned, key=lambda dot: pinned[dot])
            oldest = next((dot for dot in by_age[:-1] if records[dot].policy), by_age[0])
            del pinned[oldest]
            self._let_go(records[oldest])
        self.pins = sorted(pinned.values())

    def newest_pin(self) -> int | None:
        """Where the newest cut stands; 0: there is none; None: where that of a new one stands is not known yet."""
        known, floor = self._known() if self._keys else {}, self._space.floor
        if any(record.entry.dot not in known and covers(record.vector, floor) for record in self.all()):
            return None
        return max(self.pins, default=0)

    def position_of(self, vector: VersionVector) -> int:
        """The same of a vector that the log does not reach back to; 0: nobody knows."""
        known = self._known()
        return max((known.get(record.entry.dot, 0) for record in self.all() if record.vector == vector), default=0)

    # -- those that are kept for good ----------------------------------------------------------------------------

    def kept(self, record: Checkpoint) -> Kept | None:
        """How this node keeps one; None: it has not decided that."""
        return self._marks().get(record.entry.dot)

    def keep(self, kept: Kept) -> None:
        """Keep one in this way from now on."""
        self._marks()[kept.dot] = kept
        self._space.ledger.batch.metas.append((kept.name, kept.packed()))

    def begin_recall(self, record: Checkpoint) -> Kept:
        """Begin to recall what one holds. From now on nothing goes that is in it and is here."""
        space, dot = self._space, record.entry.dot
        self._note(dot, space.position)
        self.pins = sorted([*self.pins, space.position])
        kept = Kept(space.id, dot, space.position, recalled_number(space.id, dot), is_whole=False)
        self.keep(kept)
        return kept

    def give_up(self, record: Checkpoint, *, for_good: bool) -> None:
        """Recall no more of one; ``for_good``: nor begin again."""
        if for_good:
            self._note(record.entry.dot, _LOST)
        else:
            self._known().pop(record.entry.dot, None)
            self._space.ledger.batch.metas.append((self._meta(record.entry.dot), None))
        self._stop_keeping(record.entry.dot)

    def lacking(self) -> list[Checkpoint]:
        """Those that are to be recalled, the newest first."""
        if not self._keys:  # every space is asked every few seconds
            return []
        known, vector = self._known(), self._space.vector
        return [
            record
            for record in reversed(self.all())
            if known.get(record.entry.dot) != _LOST and not self.is_whole(record) and covers(vector, record.vector)
        ]

    def past_bytes(self) -> int:
        """How many bytes the space's past takes now, with what was recalled."""
        stats = self._space.storage.log_stats(self._space.id)
        return stats["history_bytes"] + stats["document_bytes"] + self.recalled_bytes()

    def recalled_bytes(self) -> int:
        """How many bytes were recalled."""
        return sum(kept.size_bytes for kept in self._marks().values()) if self._keys else 0

    def recalled_numbers(self) -> list[int]:
        """Under which numbers this node keeps what it has recalled."""
        return [kept.number for kept in self._marks().values() if kept.number]

    def is_left(self, kept: Kept) -> bool:
        """Whether rows on disk that were kept in this way are so no longer."""
        return kept.number != 0 and kept.dot not in self._marks()

    def _stop_keeping(self, dot: Dot) -> None:
        kept = self._marks().pop(dot, None)
        if kept is not None and kept.number:
            self.leavings.append(kept)
        elif kept is not None:
            self._space.ledger.batch.metas.append((kept.name, None))

    def _marks(self) -> dict[Dot, Kept]:
        if self._kept is None:
            marks = map(kept_of, self._space.storage.metas(kept_name(self._space.id, None)))
            self._kept = {kept.dot: kept for kept in marks}
        return self._kept

    def _let_go(self, record: Checkpoint) -> None:
        self._note(record.entry.dot, _LOST)
        self._stop_keeping(record.entry.dot)
        if record.policy:
            return
        self._space.alarms.raise_once(
            CHECKPOINT_LOST,
            self._space.name,
            f"space {self._space.name}: this node could not keep what the checkpoint {record.name} holds: the past "
            f"of the space takes over {self.bytes_max:,} bytes",
            (record.name,),
        )

    def _note(self, dot: Dot, position: int) -> None:
        self._known()[dot] = position
        self._space.ledger.batch.metas.append((self._meta(dot), pack([*dot, position])))

    def _known(self) -> dict[Dot, int]:
        if self._positions is None:
            rows = map(unpack, self._space.storage.metas(self._meta(None)))
            self._positions = {Dot(Writer(writer), seq, n): position for writer, seq, n, position in rows}
        return self._positions

    def _meta(self, dot: Dot | None) -> str:
        return f"checkpoint/{self._space.id}/" + ("" if dot is None else encode_dot(dot))
