"""Forks: what carries the state of keys from one space into another, and what remembers how far that has come.

Example: the space ``default`` has ``plan`` = 1, and is forked as ``trial``. In ``trial`` an agent sets ``plan`` to 2
and appends to ``findings``; in ``default`` somebody sets ``plan`` to 3. Merging writes 2 as one who has seen what
``default`` held at the fork: that was 1, so 2 and 3 are siblings now. The new element is appended.

Two checkpoints hold both points of the fork: ``fork-trial`` in ``default``, and ``fork`` in ``trial``, made when
everything has been copied. The map ``forks/trial`` in ``default`` has a field for each key that was merged, written in
the same change: ``at`` is up to where it came then, ``seen`` what a change of its own wrote, ``earlier`` which changes
wrote of it before. So a merge that is done twice, or was cut off, adds nothing twice. A text is edited by changes of
its own, of which each is there once whatever is noted (:mod:`crdtsync.client.text.carrying`).

Two hosts that are cut off from each other do not see each other's notes. So what the fork has counted is written as the
totals under each name that it has there (see :mod:`crdtsync.core.kinds.counter`), less those at the fork: both write
the same, and it counts once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from crdtsync.causality import Dot, Writer, merge, vector_of
from crdtsync.client.operations.writes import INCREMENT_MAX, incr_to
from crdtsync.client.session.read_memory import READ_LONG_AGO
from crdtsync.client.values.encoding import encode
from crdtsync.errors import InvalidRequest
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.tokens import Version, decode_dot, decode_token, decode_version, encode_version

if TYPE_CHECKING:
    from crdtsync.client.operations.batch import Batch
    from crdtsync.client.operations.checkpoints import Checkpoint
    from crdtsync.client.session.request_context import Write
    from crdtsync.client.values.results import Entry, Field, LogItem

UNSEEN = READ_LONG_AGO
"""The version of one who has seen nothing."""
FORKED = "fork"
"""The checkpoint in the fork; that in its base has the fork's name behind this and a dash."""
RECORDS = "forks/"
LEFT_ALONE = (RECORDS, "claims/")
"""Keys that say something of the space they are in."""
OPERATIONS_MAX = 200
"""Operations of one change, if it is of several keys."""
PART_OPERATIONS_MAX = 900
"""Operations of one key, which is merged by one change."""
BYTES_MAX = 2 * 1024 * 1024
MEETINGS_MAX = 20
"""So often a merge goes on where another one of the same fork, at the same time, has come."""
STAYS = "the fork has deleted it; it was changed here too since then, and stays"
EARLIER_MAX = 100
"""Merges of one key that are noted, before the newest."""
SEEN_MAX = 950
"""Operations of such merges that are named where a key has so many values that they cannot be asked for one by one."""
READS_A_PAGE = 20
"""To read so many keys one by one, as of a point of the past, costs about as much as a page of a listing."""
PAGE_KEYS = 500
"""Keys of a page, at most."""


@dataclass(slots=True)
class Merged:
    """The result of a merge, or of a dry run: keys to which it wrote, or which it ``removed``; keys that it ``left``
    alone, each with why. ``token``: of the last change.
    """

    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    token: str | None = None


Names = Mapping[str, Sequence[int]]
"""By name what a counter has counted under it: up, down, and what resets took off of both."""


class State(NamedTuple):
    """The state of a key at a point: ``items`` are the elements of a log."""

    entry: Entry
    value: Any
    items: list[LogItem]


def said_by(made: Checkpoint) -> tuple[str, str]:
    """The space and the checkpoint there that a fork was made of, as the checkpoint ``FORKED`` in the fork says."""
    said = json.loads(made.note)
    return str(said["space"]), str(said["checkpoint"])


def origin(fork: str, base: str, made: Sequence[Checkpoint]) -> str:
    """The name of the checkpoint of ``base`` at which ``fork`` was made, by what the checkpoints ``FORKED`` in it say.

    :raises InvalidRequest: it is no fork of ``base``, or not here as a whole.
    """
    if fork == base:
        raise InvalidRequest(f"{fork} cannot be merged into itself: name a fork, and the space it was made of (--into)")
    if len(made) > 1:
        raise _made_at_once(fork, f"the fork {fork}", len(made))
    try:
        space, checkpoint = said_by(made[0])
    except (IndexError, ValueError, LookupError, TypeError):
        raise InvalidRequest(
            f"{fork} is no fork of {base} that is here as a whole: it has no checkpoint {FORKED}, which a fork gets "
            f"when all keys have been copied. If that was deleted, or the copy was cut off, {_TAKE_OVER.format(fork)}"
        ) from None
    if space != base:
        raise InvalidRequest(f"{fork} is a fork of {space}, not of {base}: merge it into {space}")
    return checkpoint


def the_one(fork: str, base: str, name: str, found: Sequence[Checkpoint]) -> Checkpoint:
    """The checkpoint ``name`` of ``base``, of those ``found``.

    :raises InvalidRequest: there is none, or there are several.
    """
    if len(found) > 1:
        raise _made_at_once(fork, f"the checkpoint {name} that {fork} was made of", len(found))
    if not found:
        raise InvalidRequest(
            f"the checkpoint {name} that {fork} was made of is not in {base} here: it has not arrived yet, or was "
            f"deleted. If it was deleted, {_TAKE_OVER.format(fork)}"
        )
    return found[0]


def _made_at_once(fork: str, what: str, count: int) -> InvalidRequest:
    return InvalidRequest(
        f"{what} was made {count} times at once, on several hosts, so nobody can tell what has changed since: "
        f"{_TAKE_OVER.format(fork)}"
    )


_TAKE_OVER = (
    "take what you need from it with crdtsync --space {0} export and import, drop it, and fork anew under another name"
)


def vector_seen(cut: str, space: str) -> Version:
    """The version of any key of one who has seen all that a token names."""
    return Version(vector=decode_token(cut)[space][1])


def seen_with(base: Version, record: Field | None, here: str | None = None) -> str:
    """The same, of one who has also seen what merges of the key wrote up to ``record``: of what is ``here``, or all of
    it, the newest first.
    """
    wrote = changes_of(record)
    live = Version() if here is None else decode_version(here)
    dots = [Dot(Writer(writer), seq, n) for writer, seq, count in reversed(wrote) for n in range(count)]
    if here is not None and live.vector is None:
        known = {*dots}
        dots = [dot for dot in (*live.dots, *live.others) if dot in known]
    apart = () if record is None or not record.value["seen"] else decode_version(record.value["seen"]).dots
    return encode_version(Version((*dots[:SEEN_MAX], *apart), (), base.vector))


def changes_of(record: Field | None) -> list[list[int]]:
    """The changes by which merges wrote a key, up to that of ``record``: writer, number, and how many operations stand
    before the note.
    """
    return [] if record is None else [*record.value.get("earlier", ()), [*decode_dot(record.dot)]][-EARLIER_MAX:]


def of_this_making(noted: Iterable[Field], now: str, fork: str) -> dict[str, Field]:
    """By key, what was noted of the fork: not of a former one of its name, which was dropped."""
    epoch = decode_token(now)[fork][0]
    return {
        each.name: each
        for each in noted
        if each.value["at"] is None or decode_token(each.value["at"])[fork][0] == epoch
    }


def counted_since(record: Field | None) -> str | None:
    """The point in the fork whose totals are not written to the space, None: that of the fork. A merge by a version
    that did not say so has added all up to itself.
    """
    return None if record is None else record.value.get("from", record.value["at"])


def under(now: str, fork: str, since: str | None) -> str:
    """How the names begin under which the space counts what a fork of this making has counted since then."""
    made = json.dumps([fork, decode_token(now)[fork][0], since]).encode()
    return f"fork:{blake2b(made, digest_size=8).hexdigest()}:"


def brought(begin: str, first: Names, last: Names, here: Names) -> list[tuple[str, int, int]]:
    """The totals, by name, that bring to a counter ``here`` what a fork has counted between two points.

    A name that has gone in the fork went with all that was left of it.
    """
    first, last = counts(first), counts(last)
    held = {name.removeprefix(begin): (each[0], each[1]) for name, each in here.items() if name.startswith(begin)}
    found: list[tuple[str, int, int]] = []
    for name in sorted({*first, *last, *held}):
        (up, down), (up_then, down_then) = before, _ = held.get(name, (0, 0)), first.get(name, (0, 0))
        if name in last:
            up, down = max(up, last[name][0] - up_then), max(down, last[name][1] - down_then)
        else:
            more = (down_then - up_then) - (up - down)
            up, down = up + max(more, 0), down + max(-more, 0)
        if (up, down) != before:
            found.append((begin + name, up, down))
    return found


def counts(names: Names) -> dict[str, Sequence[int]]:
    """How often was counted up and down under each name, if a reset counts too: neither ever gets less."""
    return {
        name: (max(up, up_off) + down_off, max(down, down_off) + up_off)
        for name, (up, down, up_off, down_off) in names.items()
    }


def is_ahead(version: str, seen: str, token: str, space: str) -> bool:
    """Whether the notes at this version hold what was neither ``seen`` nor written up to the change ``token``."""
    found, known = decode_version(version), dict(decode_version(seen).vector or {})
    merge(known, vector_seen(token, space).vector or {})
    held = vector_of(found.dots)
    merge(held, found.vector or {})
    return any(seq > known.get(writer, 0) for writer, seq in held.items())


def by_end(records: Iterable[Field], prefix: str) -> dict[str, list[str]]:
    """The keys that were merged, by the point up to which they were."""
    ends: dict[str, list[str]] = {}
    for record in records:
        if record.name.startswith(prefix) and record.value["at"] is not None:
            ends.setdefault(record.value["at"], []).append(record.name)
    return ends


def is_same(one: Entry | None, other: Entry | None) -> bool:
    """Whether a key says the same at two points of one space."""
    return one is other or (one is not None and other is not None and one.version == other.version)


def is_beyond(version: str, seen: str) -> bool:
    """Whether a key at this version holds what one who has ``seen`` so much of it does not know. Of a key of very many
    parts it says no.
    """
    dots, known = decode_version(version).dots, decode_version(seen)
    vector = known.vector or {}
    return any(dot not in known.dots and dot.seq > vector.get(dot.writer, 0) for dot in dots)


def size_of(state: State) -> int:
    """About how many bytes its value takes."""
    if state.entry.kind == "map":  # of which each field may take what a value may
        return sum(len(encode(one)) for one in state.value.values())
    if state.entry.kind == "set":
        return sum(len(encode(one)) for one in state.value)
    return len(encode(state.value)) if state.entry.kind == "register" else 100 * len(state.items)


def is_carried(key: str) -> bool:
    """Whether a key is copied and merged."""
    return not key.startswith(LEFT_ALONE)


def carry(
    batch: Batch,
    key: str,
    before: State | None,
    after: State | None,
    seen: str,
    elements: dict[str, str],
    totals: Sequence[tuple[str, int, int]] | None = None,
) -> None:
    """Add to a batch what makes of ``before`` what ``after`` is, by one who has ``seen`` so much of the key.

    ``elements`` are those that the log held at the fork: by their dots in the fork those in the batch's space.
    ``totals``: what a counter has counted, by name; None: it is copied.

    :raises InvalidRequest: it cannot be done; nothing was added.
    """
    if after is None:
        batch.delete(key, seen=seen)
        return
    way = _WAYS.get(after.entry.kind)
    if way is None:
        raise InvalidRequest(f"this version cannot carry a {after.entry.kind}")
    if before is not None and before.entry.kind != after.entry.kind:
        batch.delete(key, seen=seen)
        before = None
    if totals is not None:
        _check_count(len(totals))
        for each in totals:
            batch.take_in([incr_to(batch.context, key, each)])
        return
    way(batch, key, before, after, seen)
    if before is not None and after.entry.kind == "log":
        left = {item.dot for item in after.items}
        for item in before.items:
            if item.dot in elements and item.dot not in left:
                batch.remove(key, elements[item.dot])


def without(key: str, recorded: Iterable[Write[Any]], records: str) -> Iterator[Write[Any]]:
    """What was recorded but for what is written to ``key`` and noted of it. The condition of the first note is then
    that of the first one left.
    """
    condition: dict[str, Any] = {}
    for write in recorded:
        arguments: dict[str, Any] = write.arguments
        is_note = arguments["key"] == records
        if is_note:
            condition |= {name: arguments.pop(name) for name in ("if_version", "if_absent") if name in arguments}
        if arguments["key"] == key or (is_note and key in arguments["fields"]):
            continue
        if is_note:
            arguments |= condition
            condition = {}
        yield write


def _register(batch: Batch, key: str, _before: State | None, after: State, seen: str) -> None:
    for one in (after.entry, *after.entry.siblings):
        if one.kind == "register":
            batch.set(key, one.value, ttl=one.ttl, confidence=one.confidence, meta=one.meta, seen=seen)
            seen = READ_LONG_AGO


def _counter(batch: Batch, key: str, before: State | None, after: State, _seen: str) -> None:
    more = after.value - (0 if before is None else before.value)
    while more or before is None:
        step = max(-INCREMENT_MAX, min(INCREMENT_MAX, more))
        batch.incr(key, step)
        more, before = more - step, after


def _set(batch: Batch, key: str, before: State | None, after: State, seen: str) -> None:
    old = {} if before is None else {encode(one): one for one in before.value}
    new = {encode(one): one for one in after.value}
    _check_count(len(old.keys() ^ new.keys()))
    for packed in sorted(old.keys() - new.keys()):
        batch.discard(key, old[packed], seen=seen)
    for packed, one in new.items():
        if packed not in old:
            batch.add(key, one)


def _map(batch: Batch, key: str, before: State | None, after: State, seen: str) -> None:
    old: dict[str, Any] = {} if before is None else before.value
    new: dict[str, Any] = after.value
    changed = {name: one for name, one in new.items() if name not in old or encode(old[name]) != encode(one)}
    gone = sorted(old.keys() - new.keys())
    _check_count(len(changed) + len(gone))
    for name in gone:
        batch.drop(key, name, seen=seen)
    if changed:
        batch.merge(key, changed, seen=seen)


def _log(batch: Batch, key: str, before: State | None, after: State, _seen: str) -> None:
    old = set() if before is None else {item.dot for item in before.items}
    new = [item for item in after.items if item.dot not in old]
    _check_count(len(new) + len(old) - (len(after.items) - len(new)))
    for item in new:
        batch.append(key, item.value, ttl=item.ttl, confidence=item.confidence, meta=item.meta)


def _check_count(count: int) -> None:
    if count > PART_OPERATIONS_MAX:
        raise InvalidRequest(f"{count:,} of its parts differ; at most {PART_OPERATIONS_MAX} are carried at once")


_WAYS: dict[str, Callable[[Batch, str, State | None, State, str], None]] = {
    "register": _register,
    "counter": _counter,
    "set": _set,
    "map": _map,
    "log": _log,
}
