"""What a host ought to tell of the past: every value that it ever applied, what that took the place of, and its end.

Worked out from the order in which the host applied changes, and from what the oracle knows of each change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crdtsync.causality import Dot
from crdtsync.core.history.removal_reason import RemovalReason
from crdtsync.core.kinds.seen import decode_seen
from crdtsync.core.reads.key_history import decode_order, history_of_key, rows_of_key
from crdtsync.core.reads.operations import Reader
from crdtsync.core.storage.rows import PastRow
from crdtsync.wire.kinds import Kind
from crdtsync.wire.tokens import encode_dot
from tests.simulator.kinds import KEYS, OPERATIONS, kind_of
from tests.simulator.kinds.base import End
from tests.simulator.model import Effect, Known, Value, groups, identity, in_order, require

if TYPE_CHECKING:
    from tests.simulator.hosts import Host
    from tests.simulator.world import World

_REASONS = {End.DELETED: RemovalReason.DELETED, End.TRIMMED: RemovalReason.TRIMMED, None: RemovalReason.EXPIRED}


@dataclass
class Told:
    """One value of the past."""

    value: Value
    writing: Known
    seen: frozenset[Dot] | None  # None: the oracle does not know
    is_blind: bool | None
    ended_by: Known | None = None
    reasons: frozenset[RemovalReason] = frozenset()


def check_history(world: World, host: Host) -> None:
    """The host tells exactly that; where it has dropped something, or taken a snapshot, no more and nothing else."""
    expected = _past(world, host)
    past = host.replica.past
    reader = Reader(host.replica, host.store, world.now(host).wall_ms, host.replica.node_of)  # type: ignore[arg-type]
    for key in KEYS:
        rows = [*rows_of_key(reader, key, None, is_lost=False)]
        of_key = in_order(told.value for told in expected.values() if told.value.key == key)
        wanted = [value.dot for value in reversed(of_key)]
        found = [row.entry.dot for row in rows]
        if not past.floors(key):
            require(found == wanted, host.name, "tells of", key, found, "and ought to tell", wanted)
        else:
            require(found == [dot for dot in wanted if dot in {*found}], host.name, "tells too much of", key, found)
            alive = {row.entry.dot for row in rows if not row.position}
            require(alive == {*host.model.held(key)}, host.name, "tells of", key, "that there live", alive)
        for row in rows:
            _check_row(host, row, expected[row.entry.dot])
        lost = [row.entry.dot for row in rows_of_key(reader, key, None, is_lost=True)]
        require(
            lost == [row.entry.dot for row in rows if row.fate == RemovalReason.LOST], host.name, "lists as lost", lost
        )
        _check_pages(world, host, reader, key, rows)


def _past(world: World, host: Host) -> dict[Dot, Told]:
    found: dict[Dot, Told] = {}
    for change_id in host.applied:
        known = world.oracle.changes[change_id]
        for effect in known.effects:
            _end(world, known, effect, [found[dot] for dot in sorted(effect.removed)])
            if effect.added is not None:
                found[effect.added.dot] = _begun(known, effect, found)
    return found


def _begun(known: Known, effect: Effect, found: dict[Dot, Told]) -> Told:
    assert effect.added is not None
    removed = [found[dot].value for dot in effect.removed]
    is_blind: bool | None = None  # its host's clock, not the time of the change, says what of it had expired
    if all(value.ttl_ms is None for value in removed):
        is_blind = effect.mode == "blind" and _end_of(effect) is End.CHOSEN and bool(removed)
    return Told(effect.added, known, None if _end_of(effect) is End.UNSURE else effect.removed, is_blind)


def _lives(known: Known, value: Value) -> bool:
    return value.is_live(known.hlc >> 16)


def _end(world: World, known: Known, effect: Effect, removed: list[Told]) -> None:
    """What becomes of all that an operation removed, and is still there on this host."""
    end = _end_of(effect)
    gone = [told for told in removed if told.ended_by is None]
    if end in _REASONS:
        _settle(known, gone, _REASONS[end])
        return
    _settle(known, [told for told in gone if not _lives(known, told.value)], RemovalReason.EXPIRED)
    alive = [told for told in gone if _lives(known, told.value)]
    _settle(known, [told for told in alive if told.value.dot in effect.crowded], RemovalReason.LOST)
    alive = [told for told in alive if told.value.dot not in effect.crowded]
    chosen = [told for told in removed if _lives(known, told.value) and told.value.dot not in effect.crowded]
    if end is End.UNSURE:
        _settle(known, alive, RemovalReason.REPLACED, RemovalReason.LOST)
    elif end is End.REPLACED:
        _settle(known, alive, RemovalReason.REPLACED)
    elif len(chosen) == 1:
        is_lost = effect.mode == "blind" and _author(world, chosen[0].writing) != _author(world, known)
        _settle(known, alive, RemovalReason.LOST if is_lost else RemovalReason.REPLACED)
    elif alive:
        kept = _kept(
            effect, [told.value for told in chosen]
        )  # as its author saw it, whatever of that is gone already on this host
        _settle(known, [told for told in alive if told.value.dot in kept], RemovalReason.REPLACED)
        _settle(known, [told for told in alive if told.value.dot not in kept], RemovalReason.LOST)


def _end_of(effect: Effect) -> End | None:
    """None: a daemon has removed what had expired."""
    if effect.by == "expire":
        return None
    return End.UNSURE if effect.by == "rewrite" else OPERATIONS[effect.by].end


def _settle(known: Known, ended: Iterable[Told], *reasons: RemovalReason) -> None:
    for told in ended:
        told.ended_by, told.reasons = known, frozenset(reasons)


def _kept(effect: Effect, values: list[Value]) -> set[Dot]:
    """Those that say what is written in their place; else those that readers were shown."""
    new = effect.added
    assert new is not None
    same = {v.dot for v in values if (v.kind, v.sub) == (new.kind, new.sub) and _identity(v) == _identity(new)}
    return same or {value.dot for value in groups(values, effect.policy)[0]}


def _identity(value: Value) -> str:
    return identity(value.content) if kind_of([value]).is_by_content else str(value.dot)


def _author(world: World, known: Known) -> tuple[str, str]:
    agent = "crdtsyncd" if known.request is None else known.request.agent
    return agent, world.writers[known.id[0]].original.name


def _check_row(host: Host, row: PastRow, told: Told) -> None:
    where = (host.name, "tells of", row.entry.key, encode_dot(row.entry.dot))
    if row.seen is None:
        require(host.has_jumped, *where, "not what its author had seen")
    elif told.seen is not None:
        seen = decode_seen(row.seen)
        require(
            {*seen.dots, *seen.crowded} == told.seen, *where, "that its author had seen", seen, "and it was", told.seen
        )
        require(told.is_blind in (seen.blind, None), *where, "that it was blind:", seen.blind)
    if row.position == 0:
        require(row.entry.dot in host.model.held(row.entry.key), *where, "that it lives")
    elif row.removal is None:
        require(host.has_jumped and row.fate is None, *where, "not how it ended")
    else:
        assert told.ended_by is not None
        require(row.removal.dot[:2] == told.ended_by.id, *where, "that it was removed by", row.removal.dot)
        require(row.fate in told.reasons, *where, "that it was", row.fate, "and it was", told.reasons)
        require(row.removal.hlc == told.ended_by.hlc, *where, "another time of its removal")


def _check_pages(world: World, host: Host, reader: Reader, key: str, rows: list[PastRow]) -> None:
    """Page by page it is the same; edits of a text may be told as one."""
    items: list[dict[str, Any]] = []
    place = None
    while True:
        page = history_of_key(reader, key, place, 1 + world.random.randrange(4), is_lost=False)
        items += page["items"]
        if page["before"] is None:
            break
        place = decode_order(page["before"])
    require(sum(item.get("edits", 1) for item in items) == len(rows), host.name, "has pages of", key, items)
    if all(row.entry.kind != Kind.TEXT for row in rows):
        dots = [encode_dot(row.entry.dot) for row in rows]
        require([item["dot"] for item in items] == dots, host.name, "has pages of", key, items)
