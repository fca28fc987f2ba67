"""What one replica ought to hold and to show, as plain sets.

The textbook observed-remove map: no version vectors, no ranges, no digests. A counter is the set of its increments, not
a sum; what a reset takes away is a set of increments too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pycrdt import Doc, Text

from crdtsync.causality import Dot
from crdtsync.wire.kinds import Kind
from tests.simulator.policies import RANKED, Schema, best_first, is_newest_first, schema_of

ChangeId = tuple[int, int]
Family = tuple[tuple[Dot, int], ...]
"""Documents of one text, as an entry of its key lists them: each with how many compactions it took."""


class Broken(AssertionError):
    """A promise was not kept."""


def require(condition: object, *what: object) -> None:
    """Raise :class:`Broken` unless ``condition`` holds. A function, so that it also runs under ``python -O``."""
    if not condition:
        raise Broken(" ".join(str(part() if callable(part) else part) for part in what))


class Increment(NamedTuple):
    """One call of ``incr``: under which name it is counted, its own dot, and by how much."""

    name: Dot
    dot: Dot
    by: int


class Tally(NamedTuple):
    """An entry of a counter: the increments in a writer's totals, or, without a name, those that a reset saw."""

    name: Dot | None
    counted: frozenset[Increment]

    @property
    def totals(self) -> dict[Dot, list[int]]:
        """``{name: [up, down]}``."""
        sums: dict[Dot, list[int]] = {}
        for increment in self.counted:
            up_down = sums.setdefault(increment.name, [0, 0])
            up_down[increment.by < 0] += abs(increment.by)
        return sums


@dataclass(frozen=True)
class Value:
    """One written value. ``sub`` is the field of a map; ``document`` that of a text's marker."""

    dot: Dot
    key: str
    kind: int
    hlc: int
    content: Any
    ttl_ms: int | None = None
    document: Dot | None = None
    sub: str | None = None
    confidence: float | None = None
    family: Family = ()

    @property
    def order(self) -> tuple[int, ...]:
        return (self.hlc, *self.dot)

    def is_live(self, now_ms: int) -> bool:
        return self.ttl_ms is None or (self.hlc >> 16) + self.ttl_ms > now_ms


@dataclass(frozen=True)
class Effect:
    """What one operation does, on every replica. ``by`` and ``mode``: which it was, and what its author had read;
    ``policy``: by which its author's node showed the values; ``crowded``: what it took along for want of room.
    """

    key: str
    removed: frozenset[Dot]
    added: Value | None
    by: str = ""
    mode: str = ""
    policy: str = "lww"
    crowded: frozenset[Dot] = frozenset()


class Edit(NamedTuple):
    """A Yjs update of a text's document, by the operation ``dot``."""

    key: str
    document: Dot
    update: bytes
    dot: Dot
    family: Family


@dataclass
class Known:
    """A change as its author made it. ``clock`` is its whole causal past, itself included."""

    id: ChangeId
    hash: bytes
    hlc: int
    clock: dict[int, int]
    effects: list[Effect]
    edits: list[Edit]
    request: Any


class Texts:
    """Every document that there ever was: all its edits, in an order that is causal, and what Yjs makes of them.

    Compactions do not happen here: a document that a compaction made holds the edits of all before it, and its own. As
    ids never change, Yjs puts them together; in which order they stand is another matter.
    """

    def __init__(self) -> None:
        self._edits: dict[Dot, list[tuple[int, bytes]]] = {}
        self._docs: dict[Dot, tuple[list[tuple[int, bytes]], Doc[Text]]] = {}
        self._of_key: dict[str, set[Dot]] = {}
        self._families: dict[Dot, dict[Dot, int]] = {}
        self._count = 0

    def copy(self) -> Texts:
        """Another one to go on with."""
        twin = Texts()
        twin._edits = {document: [*updates] for document, updates in self._edits.items()}
        twin._of_key = {key: {*documents} for key, documents in self._of_key.items()}
        twin._count = self._count
        for family in self._families.values():
            twin._join(tuple(family.items()))
        return twin

    def add(self, edit: Edit) -> None:
        self._join(edit.family)
        self._of_key.setdefault(edit.key, set()).add(edit.document)
        is_compaction = edit.document in self._families and edit.document[:2] == edit.dot[:2]
        self._count += 1
        self._edits.setdefault(edit.document, []).extend([] if is_compaction else [(self._count, edit.update)])

    def _join(self, family: Family) -> None:
        joined = dict(family)
        for document, _ in family:
            joined |= self._families.get(document, {})
        for document in joined:
            self._families[document] = joined

    def read(self, document: Dot) -> str:
        family = self._families.get(document, {document: 0})
        place = family[document], document
        before = [each for each, generation in family.items() if (generation, each) <= place]
        edits = sorted(edit for each in before for edit in self._edits.get(each, ()))
        done, doc = self._docs.get(document, ([], Doc()))
        if edits[: len(done)] != done:
            done, doc = [], Doc()
        for _, update in edits[len(done) :]:
            doc.apply_update(update)
        self._docs[document] = (edits, doc)
        return str(doc.get("text", type=Text))

    def words(self, document: Dot) -> set[str]:
        return {*self.read(document).split()}

    def of(self, key: str) -> set[Dot]:
        """Every document that ever was a text of ``key``."""
        return self._of_key.get(key, set())


class Model:
    """What one replica ought to hold."""

    def __init__(self) -> None:
        self.vector: dict[int, int] = {}
        self.hlc_max = 0
        self.keys: dict[str, dict[Dot, Value]] = {}
        self.texts = Texts()

    def held(self, key: str) -> dict[Dot, Value]:
        return self.keys.get(key, {})

    def live(self, key: str, now_ms: int) -> list[Value]:
        return in_order(value for value in self.held(key).values() if value.is_live(now_ms))

    def schema(self, key: str) -> Schema:
        """What applies to a key."""
        return schema_of(self.keys, key)

    def apply(self, known: Known) -> None:
        self.vector[known.id[0]] = known.id[1]
        self.hlc_max = max(self.hlc_max, known.hlc)
        for effect in known.effects:
            self.apply_effect(effect)
        for edit in known.edits:
            self.texts.add(edit)

    def apply_effect(self, effect: Effect) -> None:
        values = self.keys.setdefault(effect.key, {})
        for dot in effect.removed:
            values.pop(dot, None)
        if effect.added is not None:
            values[effect.added.dot] = effect.added
        if not values:
            del self.keys[effect.key]


def in_order(values: Iterable[Value]) -> list[Value]:
    """In causal order."""
    return sorted(values, key=lambda value: value.order)


# -- what a reader is shown -----------------------------------------------------------------------------------


def groups(live: Iterable[Value], policy: str = "lww") -> list[list[Value]]:
    """The concurrent values of a key, the winner first: each a list of the values that make it up, in order.

    Of several kinds that with the newest value comes first, and its values in the order of the policy.
    """
    ordered = in_order(live)
    leading = ordered[-1].kind if ordered else None
    if leading not in RANKED or is_newest_first(policy):
        return sorted(_groups(ordered), key=lambda group: group[-1].order, reverse=True)
    others = groups((value for value in ordered if value.kind != leading), "lww")
    values = [value for value in ordered if value.kind == leading]
    if leading == Kind.REGISTER:
        return [*([value] for value in best_first(policy, values)), *others]
    winners = [best_first(policy, [v for v in values if v.sub == field])[0] for field in {v.sub for v in values}]
    losers = [value for value in values if value not in winners]
    return [in_order(winners), *([value] for value in best_first(policy, losers)), *others]


def _groups(ordered: list[Value]) -> list[list[Value]]:
    found: dict[object, list[Value]] = {}
    winners: dict[str | None, Value] = {}
    texts = [value for value in ordered if value.kind == Kind.TEXT]
    for value in texts:
        found.setdefault(("text", *sorted(family_of(texts, value.document))), []).append(value)
    for value in ordered:
        if value.kind == Kind.MAP:
            loser = winners.get(value.sub)
            if loser is not None:
                found[loser.dot] = [loser]
            winners[value.sub] = value
        elif value.kind == Kind.REGISTER:
            found[value.dot] = [value]
        elif value.kind != Kind.TEXT:
            found.setdefault(value.kind, []).append(value)
    if winners:
        found["map"] = in_order(winners.values())
    return [*found.values()]


def family_of(held: Iterable[Value], document: Dot | None) -> dict[Dot, int]:
    """The documents that are one text with this one, as the entries of its key say."""
    found = {} if document is None else {document: 0}
    lists = [{value.document: 0, **dict(value.family)} for value in held if value.document is not None]
    for _ in lists:
        for listed in lists:
            if found.keys() & listed.keys():
                found |= {each: generation for each, generation in listed.items() if generation or each not in found}
    return found


def current(group: Iterable[Value]) -> Dot | None:
    """The document that is the text of which these are markers."""
    markers = [value for value in group if value.document is not None]
    places = family_of(markers, markers[-1].document) if markers else {}
    named = {marker.document for marker in markers if marker.document is not None}
    return max(named, key=lambda each: (places[each], each), default=None)


def count(values: Iterable[Value]) -> int:
    """The value of a counter: all increments but those that a reset has seen."""
    tallies = [value.content for value in values if value.kind == Kind.COUNTER]
    counted: set[Increment] = set().union(*(tally.counted for tally in tallies if tally.name is not None))
    gone: set[Increment] = set().union(*(tally.counted for tally in tallies if tally.name is None))
    return sum(increment.by for increment in counted - gone)


def elements(values: Iterable[Value]) -> list[Any]:
    """The elements of a set, in the order of their newest entries."""
    newest = {identity(value.content): value for value in in_order(values) if value.kind == Kind.SET}
    return [value.content for value in in_order(newest.values())]


def identity(value: Any) -> str:
    """Two values are one element of a set if this is equal: 1, 1.0 and True are three."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {identity(value[key])}' for key in sorted(value))}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(identity, value))}]"
    return f"{type(value).__name__} {value!r}"
