"""Healing a fork: one branch keeps its numbers, and the changes of the other get new ones, the same on every node.

The problem. The disk of host-a goes back from change 412 of its writer 77 to 409, and host-a goes on writing. Now 410
is one change on host-a and another one on host-b. Neither may be dropped: both were acknowledged. But entries are named
by writer and number, so one node cannot hold both under one name.

The rule. The branch whose first differing change has the lower hash keeps the numbers. A node that holds the other one
and is shown that change *moves* its branch: each change of it, and each that was made after one of them, whoever its
author, gets a new writer and the numbers 1, 2, 3 …. The new writer is named by the hash of the first change that moves,
and all names in the changes (whom they come after, what they remove, which document they edit, under which name they
count) follow. So a moved change depends on nothing but itself and what came before it: whoever holds the branch makes
the same bytes of it, and a node that knows nothing of forks takes them as changes of a writer that is new to it.

A counter's totals run on from before the fork: host-a has counted 10, then 3 more on the one branch and 5 on the other,
and the entries say 13 and 15. Moved, the latter counts 5 under a name of its own, beside the former: 18.

How a node moves its branch. One commit takes the branch back: what it wrote goes, what it removed lives again
(:class:`~crdtsync.core.storage.rows.Rewind`), and beside that the commit keeps what is to be applied then: the
change that was shown, and the moved ones. They are applied in the turns that follow, and after a crash at the next
start, before all else. So no agent sees a state without them, and nothing that was acknowledged is ever in memory
alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from crdtsync.causality import Dot, VersionVector, Writer
from crdtsync.core.kinds.counter import OF_FORK, RESET, totals_of
from crdtsync.core.storage.rows import HeadRow, Rewind
from crdtsync.core.text.family import FAMILY
from crdtsync.core.text.marker import check_marker
from crdtsync.errors import CrdtSyncError, InvalidEncoding, InvalidRequest
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.change import NO_HASH, SHORT_HASH_BYTES, Change, Dep, Op, RemoveRange, value_hash
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import CHANGE_DEPS_MAX
from crdtsync.wire.tokens import decode_dot, encode_dot
from crdtsync.wire.yjs.encoding import Steps

if TYPE_CHECKING:
    from crdtsync.core.replica.replica import Replica

MOVED_CHANGES_MAX = 10_000
"""Changes of a branch that gets new names when a fork is healed."""
MOVED_BYTES_MAX = 16 * 1024 * 1024
"""The changes of such a branch."""
NEW_NAMES_MAX = 1_000
"""Writers whose numbers have moved here, remembered by a space for tokens that were handed out before."""
SLICE_BYTES, SLICE_ROWS = 128 * 1024, 250
"""Changes that are looked at, or applied, in one turn: that takes 4 to 12 ms."""

Totals = tuple[int, int]


class CannotHeal(Exception):
    """Why a branch cannot be moved here, in words."""


class Healing(NamedTuple):
    """How a branch is moved: what is taken back, and ``bodies`` that are to be applied then, in order.

    ``names``: the new writers by those whose changes move.
    """

    rewind: Rewind
    heads: list[HeadRow]
    bodies: list[bytes]
    names: dict[Writer, Writer]


def is_other_branch(replica: Replica, change: Change) -> bool:
    """Whether a change is the first of another branch than the one that is held here."""
    writer, seq = change.writer, change.seq
    held = replica.short_hash(writer, seq)
    before = NO_HASH[:SHORT_HASH_BYTES] if seq == 1 else replica.short_hash(writer, seq - 1)
    return held is not None and held != change.short_hash and before == change.prev_hash[:SHORT_HASH_BYTES]


def heal(replica: Replica, shown: Change) -> Steps[Healing | None]:
    """How to move the branch that is held here, for ``shown`` is the first change of one that keeps its numbers.

    None: what that one comes after is not all here yet. In steps; what is applied between them moves, too, and what is
    found in the end is to be committed before anything else is.

    :raises CannotHeal: it cannot be done here.
    """
    writer, seq = shown.writer, shown.seq
    if any(replica.vector.get(dep.writer, 0) < dep.seq for dep in shown.deps):
        return None
    _check_kept(replica, writer, seq)
    branch = _Branch(replica)
    yield from branch.collect(writer, seq)
    _check_kept(replica, writer, seq)
    for dep in shown.deps:
        if dep.seq >= branch.firsts.get(dep.writer, dep.seq + 1):
            raise CannotHeal("the other branch builds on this one")
        held = replica.short_hash(dep.writer, dep.seq)
        if held is not None and held != dep.short_hash:
            raise CannotHeal("the other branch builds on a third one")
    rewind = Rewind(replica.id, tuple(sorted(branch.firsts.items())), tuple(branch.positions))
    return Healing(rewind, branch.heads, [shown.body, *branch.bodies], branch.names)


def _check_kept(replica: Replica, writer: Writer, seq: int) -> None:
    if replica.floor.get(writer, 0) >= seq:
        raise CannotHeal("the log no longer holds all that was written since")
    if any(vector.get(writer, 0) >= seq for vector, _ in replica.past.floors()):
        raise CannotHeal("what was removed since is no longer kept, or came with a snapshot")


class _Branch:
    """The changes that move. ``firsts``: of each writer the number of the first one."""

    def __init__(self, replica: Replica) -> None:
        self.firsts: dict[Writer, int] = {}
        self.names: dict[Writer, Writer] = {}
        self.heads: list[HeadRow] = []
        self.bodies: list[bytes] = []
        self.positions: list[int] = []
        self._replica = replica
        self._hashes: dict[tuple[Writer, int], bytes] = {}
        self._counted: dict[tuple[str, str], tuple[Totals, str]] = {}  # by key and name: what was counted before, and
        # under which name it goes on

    def collect(self, writer: Writer, seq: int) -> Steps[None]:
        """All that comes after change ``seq`` of ``writer``, and that one; in steps.

        :raises CannotHeal: it is too much, or a part of it is missing.
        """
        replica, size_bytes = self._replica, 0
        after = replica.storage.change_position(replica.id, writer, seq) - 1
        while rows := replica.storage.log(replica.id, after, SLICE_BYTES, SLICE_ROWS):
            for row in rows:
                after = row.position
                change = replica.spoilt.change_of(row)
                if change is None:
                    raise CannotHeal("the disk has spoilt a change that was written since")
                if (row.writer, row.seq) != (writer, seq) and not self._comes_after(change):
                    continue
                self._move(change)
                self.positions.append(row.position)
                size_bytes += len(row.body)
                if len(self.positions) > MOVED_CHANGES_MAX or size_bytes > MOVED_BYTES_MAX:
                    raise CannotHeal(
                        f"more than {MOVED_CHANGES_MAX:,} changes or {MOVED_BYTES_MAX:,} bytes were written since"
                    )
            if len(rows) == SLICE_ROWS or sum(len(row.body) for row in rows) > SLICE_BYTES // 2:
                yield
        if not self.positions:
            raise CannotHeal("the log no longer holds it")

    def _comes_after(self, change: Change) -> bool:
        firsts = self.firsts
        return change.writer in firsts or any(dep.seq >= firsts.get(dep.writer, dep.seq + 1) for dep in change.deps)

    def _move(self, change: Change) -> None:
        replica, writer, seq = self._replica, change.writer, change.seq
        before = self._hashes.get((writer, seq - 1), NO_HASH)
        deps = [self._dep(dep) for dep in change.deps]
        if writer not in self.firsts:
            self.firsts[writer] = seq
            self.names[writer] = Writer(int.from_bytes(change.hash[:7], "big") >> 3 or 1)
            if seq > 1:
                deps.append(Dep(writer, seq - 1, change.prev_hash[:SHORT_HASH_BYTES]))
                self.heads.append(HeadRow(replica.id, writer, seq - 1, change.prev_hash, replica.position))
        if len(deps) > CHANGE_DEPS_MAX:
            raise CannotHeal("a change of it comes after those of too many writers")
        name, number = self._place(writer, seq)
        moved = Change(
            name, number, tuple(sorted(deps)), before, change.hlc, change.agent, change.idempotency,
            tuple(self._op(op, Dot(name, number, n)) for n, op in enumerate(change.ops)),
            replica.origins.get(writer) if number == 1 else None,
        )  # fmt: skip
        try:
            replica.codec.encode(moved)
        except CrdtSyncError as error:
            raise CannotHeal(error.message) from None
        self._hashes[writer, seq] = moved.hash
        self.bodies.append(moved.body)

    # -- names -------------------------------------------------------------------------------------------------

    def _moves(self, writer: Writer, seq: int) -> bool:
        return seq >= self.firsts.get(writer, seq + 1)

    def _place(self, writer: Writer, seq: int) -> tuple[Writer, int]:
        return (self.names[writer], seq - self.firsts[writer] + 1) if self._moves(writer, seq) else (writer, seq)

    def _dep(self, dep: Dep) -> Dep:
        if not self._moves(dep.writer, dep.seq):
            return dep
        return Dep(*self._place(dep.writer, dep.seq), self._hashes[dep.writer, dep.seq][:SHORT_HASH_BYTES])

    def _dot(self, dot: Dot) -> Dot:
        return Dot(*self._place(dot.writer, dot.seq), dot.n)

    def _removes(self, removes: tuple[Dot, ...] | RemoveRange) -> tuple[Dot, ...] | RemoveRange:
        if not isinstance(removes, RemoveRange):
            return tuple(map(self._dot, removes))
        vector: VersionVector = {}
        for writer, seq in removes.vector.items():
            name, number = self._place(writer, seq)
            vector[name] = number
            if name != writer and self.firsts[writer] > 1:
                vector[writer] = self.firsts[writer] - 1
        if removes.bound is None:
            return RemoveRange(vector)
        hlc, *dot = removes.bound
        return RemoveRange(vector, (hlc, *self._dot(Dot(Writer(dot[0]), dot[1], dot[2]))))

    # -- what operations say -----------------------------------------------------------------------------------

    def _op(self, op: Op, dot: Dot) -> Op:
        try:
            if op.kind == Kind.COUNTER and op.value is not None:
                return self._count(op, dot) if op.sub != RESET else self._reset(op)
            if op.kind == Kind.TEXT and op.value is not None:
                return self._edit(op)
        except (InvalidEncoding, InvalidRequest, ValueError, TypeError, LookupError):
            pass  # careless bytes name nothing
        return op._replace(removes=self._removes(op.removes))

    def _edit(self, op: Op) -> Op:
        document, update = check_marker(unpack(op.value or b""))
        attrs = op.attrs
        if attrs is not None and FAMILY in attrs:
            family: list[list[Any]] = attrs[FAMILY]
            attrs = {**attrs, FAMILY: [[*self._dot(Dot(*parts[:3])), *parts[3:]] for parts in family]}
        named = None if document is None else list(self._dot(document))
        return _with_value(op._replace(removes=self._removes(op.removes), attrs=attrs), [named, update])

    def _count(self, op: Op, dot: Dot) -> Op:
        """Totals that run on from before the fork count under a new name what has been counted since."""
        if op.sub is None or isinstance(op.removes, RemoveRange):
            return op._replace(removes=self._removes(op.removes))
        begun = decode_dot(op.sub)
        if self._moves(begun.writer, begun.seq):
            return op._replace(sub=encode_dot(self._dot(begun)), removes=self._removes(op.removes))
        before = [removed for removed in op.removes if not self._moves(removed.writer, removed.seq)]
        totals = {removed: self._totals(op.key, op.sub, removed) for removed in before}
        place, name = (op.key, op.sub), None
        if place in self._counted:
            base, name = self._counted[place]
        else:
            known = [pair for pair in totals.values() if pair is not None]
            if not known:
                return op._replace(removes=self._removes(op.removes))
            base = max(up for up, _ in known), max(down for _, down in known)
            self._counted[place] = base, encode_dot(dot)
        up, down = totals_of(op.value)
        kept = tuple(removed for removed in op.removes if totals.get(removed) is None)
        op = op._replace(sub=name, removes=self._removes(kept))
        return _with_value(op, [max(0, up - base[0]), max(0, down - base[1])])

    def _totals(self, key: str, name: str, dot: Dot) -> Totals | None:
        """The count under a name, by an entry from before the fork; None: the entry is of another name, or of none."""
        found = self._replica.storage.dead_value(self._replica.id, key, dot)
        if found is None:
            return None
        sub, value = found
        return totals_of(value) if (encode_dot(dot) if sub is None else sub) == name else None

    def _reset(self, op: Op) -> Op:
        record: dict[str, list[int]] = {}
        for name, (up, down) in unpack(op.value or b"").items():
            if name.startswith(OF_FORK):
                record[name] = [up, down]
                continue
            begun, counted = decode_dot(name), self._counted.get((op.key, name))
            if self._moves(begun.writer, begun.seq):
                record[encode_dot(self._dot(begun))] = [up, down]
            elif counted is None:
                record[name] = [up, down]
            else:
                (base_up, base_down), since = counted
                record[name] = [min(up, base_up), min(down, base_down)]
                if up > base_up or down > base_down:
                    record[since] = [max(0, up - base_up), max(0, down - base_down)]
        return _with_value(op._replace(removes=self._removes(op.removes)), dict(sorted(record.items())))


def _with_value(op: Op, plain: object) -> Op:
    packed = pack(plain)
    return op._replace(value=packed, value_hash=value_hash(packed))


def slices(bodies: Iterable[bytes]) -> list[list[bytes]]:
    """In parts, each of which is applied in one turn."""
    parts: list[list[bytes]] = [[]]
    size_bytes = 0
    for body in bodies:
        if size_bytes >= SLICE_BYTES or len(parts[-1]) == SLICE_ROWS:
            parts.append([])
            size_bytes = 0
        parts[-1].append(body)
        size_bytes += len(body)
    return parts
