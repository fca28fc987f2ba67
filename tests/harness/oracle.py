"""What a fleet must hold in the end, by what its agents had seen and were told. It knows nothing of dots or versions.

Every value that is ever written carries an id of its own. So a write is its id and the ids that its author had seen
of the key; whatever is missing in the end must have been seen by the author of a write or a deletion that may have
been done, and what the author of a completed one had seen must be gone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum


class Outcome(Enum):
    """What is known about a write."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Put:
    """One value written to a register, or not."""

    key: str
    id: str
    seen: frozenset[str]
    started_s: float
    outcome: Outcome = Outcome.UNKNOWN
    replaced_unknown: bool = False  # written blind over a connection that broke: it may have replaced one unseen value


@dataclass(slots=True)
class Deletion:
    """One deletion, or not. ``blind``: it also covered what was alive then, seen or not."""

    key: str
    seen: frozenset[str]
    blind: bool
    outcome: Outcome = Outcome.UNKNOWN
    ended_s: float = float("inf")


@dataclass(slots=True)
class Added:
    """One element of a log, or one mark in a text."""

    key: str
    id: str
    agent: str
    outcome: Outcome = Outcome.UNKNOWN


@dataclass(slots=True)
class Sighting:
    """What a reader was shown who asked for what ``id``'s token names."""

    key: str
    id: str
    shown: frozenset[str]


@dataclass
class History:
    """All that the agents did. Each has one of its own; :meth:`joined` puts them together."""

    puts: list[Put] = field(default_factory=list)
    deletions: list[Deletion] = field(default_factory=list)
    added: list[Added] = field(default_factory=list)
    sightings: list[Sighting] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def joined(cls, histories: Sequence[History]) -> History:
        whole = cls()
        for history in histories:
            whole.puts += history.puts
            whole.deletions += history.deletions
            whole.added += history.added
            whole.sightings += history.sightings
            whole.counts += history.counts
        return whole


def faults(history: History, live: Mapping[str, set[str]]) -> list[str]:
    """Everything that is wrong with ``live``, the ids that each register holds in the end."""
    found: list[str] = []
    puts: defaultdict[str, list[Put]] = defaultdict(list)
    deletions: defaultdict[str, list[Deletion]] = defaultdict(list)
    for put in history.puts:
        puts[put.key].append(put)
    for deletion in history.deletions:
        deletions[deletion.key].append(deletion)
    for key in sorted({*puts, *live}):
        found += _key_faults(key, puts[key], deletions[key], live.get(key, set()))
    superseded = _superseded(history, Outcome.DONE, Outcome.UNKNOWN)
    blind_keys = {each.key for each in history.deletions if each.blind and each.outcome is not Outcome.REFUSED}
    blind_keys |= {put.key for put in history.puts if put.replaced_unknown}
    for sighting in history.sightings:
        if sighting.id not in sighting.shown | superseded and sighting.key not in blind_keys:
            found.append(f"{sighting.key}: a reader with the token of {sighting.id} was shown {sorted(sighting.shown)}")
    return found


def added_faults(history: History, held: Mapping[str, Sequence[str]]) -> list[str]:
    """What is wrong with ``held``: for each log and text the ids in it, in order."""
    found: list[str] = []
    by_key: defaultdict[str, list[Added]] = defaultdict(list)
    for added in history.added:
        by_key[added.key].append(added)
    for key, all_added in by_key.items():
        times = Counter(held.get(key, ()))
        outcomes = {added.id: added.outcome for added in all_added}
        for added in all_added:
            count = times[added.id]
            if added.outcome is Outcome.DONE and count != 1:
                found.append(f"{key}: {added.id} was acknowledged and is there {count} times")
            elif count > (added.outcome is not Outcome.REFUSED):
                found.append(f"{key}: {added.id} is {added.outcome.value} and there {count} times")
        found += [f"{key}: nobody wrote {stranger}" for stranger in times.keys() - outcomes.keys()]
    return found


def order_faults(history: History, logs: Mapping[str, Sequence[str]]) -> list[str]:
    """Where a log does not keep the order in which one agent appended."""
    found: list[str] = []
    for key, ids in logs.items():
        place = {id_: at for at, id_ in enumerate(ids)}
        last: dict[str, int] = {}
        for added in history.added:
            if added.key != key or added.id not in place:
                continue
            if place[added.id] < last.get(added.agent, -1):
                found.append(f"{key}: {added.id} comes before an earlier element of the same agent")
            last[added.agent] = place[added.id]
    return found


def _key_faults(key: str, puts: list[Put], deletions: list[Deletion], live: set[str]) -> list[str]:
    found: list[str] = []
    outcomes = {put.id: put.outcome for put in puts}
    found += [f"{key}: nobody wrote {stranger}" for stranger in sorted(live - outcomes.keys())]
    found += [f"{key}: {id_} was refused and is there" for id_ in sorted(live) if outcomes.get(id_) is Outcome.REFUSED]
    certainly = {id_ for put in puts if put.outcome is Outcome.DONE for id_ in put.seen}
    certainly |= {id_ for deletion in deletions if deletion.outcome is Outcome.DONE for id_ in deletion.seen}
    found += [f"{key}: {id_} was superseded by one who had seen it, and is there" for id_ in sorted(live & certainly)]
    possibly = {id_ for put in puts if put.outcome is not Outcome.REFUSED for id_ in put.seen}
    possibly |= {id_ for each in deletions if each.outcome is not Outcome.REFUSED for id_ in each.seen}
    blind_until_s = max(
        (each.ended_s for each in deletions if each.blind and each.outcome is not Outcome.REFUSED), default=0
    )
    spare = sum(1 for put in puts if put.replaced_unknown)
    for put in puts:
        if put.outcome is not Outcome.DONE or put.id in live or put.id in possibly or put.started_s < blind_until_s:
            continue
        if spare:
            spare -= 1
            continue
        found.append(f"{key}: {put.id} was acknowledged, nobody who had seen it superseded it, and it is gone")
    return found


def _superseded(history: History, *outcomes: Outcome) -> set[str]:
    writes: list[Put | Deletion] = [*history.puts, *history.deletions]
    return {id_ for write in writes if write.outcome in outcomes for id_ in write.seen}
