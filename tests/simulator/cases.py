"""What is judged at a time: one operation of a request in the change that was made of it, and what its author held."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from crdtsync.causality import Dot, Writer
from crdtsync.wire import limits
from crdtsync.wire.change import Change, Op, RemoveRange
from crdtsync.wire.codec import unpack
from crdtsync.wire.kinds import Kind
from tests.simulator.model import (
    Edit,
    Effect,
    Known,
    Model,
    Value,
    elements,
    identity,
    require,
)
from tests.simulator.policies import Schema, best_first, ranks_lower


@dataclass
class Sub:
    """One operation of a request, with what its agent had seen of the key: the dots, not the version string."""

    operation: str
    key: str
    mode: str = "blind"  # seen, follows, blind, long_ago, if_version, if_absent
    content: Any = None  # what is written; of merge {field: value}; of incr by how much; of drop the field
    shown: frozenset[Dot] = frozenset()
    others: frozenset[Dot] = frozenset()
    keep: int = 0
    ttl_ms: int | None = None
    document: Dot | None = None
    word: str | None = None
    cut_words: tuple[str, ...] = ()
    take: Dot | None = None
    replaced: Any = None  # what the oracle saw it replace, and write, when it was done
    follows: tuple[Sub, ...] = ()  # writes of the key whose replies had not come: what they left counts as seen
    numbers: tuple[int, ...] = ()
    read: frozenset[Dot] = frozenset()  # of one that follows others: what it knew without them
    lost: tuple[Dot, ...] = ()  # what it took along for want of room
    written: tuple[Dot, ...] = ()
    before: Any = None  # of a counter: its value before; of a set: whether the element was there
    after: Any = None  # of a counter: its value; of a set: how many elements it has
    existed: bool = False  # whether a reader saw something of what was removed
    confidence: float | None = None

    @property
    def seen(self) -> frozenset[Dot]:
        return self.shown | self.others


@dataclass
class Case:
    """One change under judgement: what its author's replica holds, and the operations not yet accounted for."""

    known: Known
    change: Change
    draft: Model
    vector: dict[int, int]
    now_ms: int
    ops: deque[tuple[int, Op]]
    cuts: set[str]
    schema: Callable[[str], Schema]
    sub: Sub = field(init=False)

    def begin(self, sub: Sub) -> None:
        self.sub = sub
        if sub.follows:
            self._follow()
        self.held = dict(self.draft.held(sub.key))
        self.live = self.draft.live(sub.key, self.now_ms)
        self.expired = frozenset(self.held) - {value.dot for value in self.live}
        self.own = frozenset(dot for dot in self.held if dot[:2] == self.known.id)

    def __str__(self) -> str:
        return (
            f"{self.sub.operation} of {self.sub.key} ({self.sub.mode}) in change {self.known.id[0]}.{self.known.id[1]}"
        )

    @property
    def has_op(self) -> bool:
        return bool(self.ops) and self.ops[0][1].key == self.sub.key

    def take_op(self) -> tuple[Dot, Op]:
        require(self.has_op, self, "has no operation")
        n, op = self.ops.popleft()
        writer, seq = self.known.id
        removes = op.removes
        pairs = (
            removes.vector.items() if isinstance(removes, RemoveRange) else [(dot.writer, dot.seq) for dot in removes]
        )
        # A change names nothing that its author's node did not hold: it would remove it there and not elsewhere.
        vector = {**self.vector, writer: seq}
        require(all(s <= vector.get(w, 0) for w, s in pairs), self, "removes what its node did not hold")
        return Dot(Writer(writer), seq, n), op

    def add(self, dot: Dot, op: Op, kind: Kind, content: Any, **more: Any) -> Value:
        """The value that an operation has written."""
        require(op.kind == kind, self, "made an entry of kind", op.kind)
        return Value(dot, self.sub.key, kind, self.change.hlc, content, sub=op.sub, **more)

    def add_text(self, dot: Dot, op: Op) -> Value:
        """The marker that an edit of a document has written."""
        document, update = unpack(op.value or b"")
        listed = (op.attrs or {}).get("family", ())
        family = tuple((Dot(Writer(writer), seq, n), generation) for writer, seq, n, generation, _ in listed)
        edit = Edit(self.sub.key, dot if document is None else Dot(*document), update, dot, family)
        self.known.edits.append(edit)
        self.draft.texts.add(edit)
        return self.add(dot, op, Kind.TEXT, None, document=edit.document, family=family)

    def first(self, values: list[Value]) -> Value | None:
        """The one that readers are shown of the live values of a register or field."""
        return best_first(self.schema(self.sub.key).policy, values)[0] if values else None

    def check_rank(self, values: list[Value], later: Value) -> None:
        """A write that ranks lower than what readers are shown is refused where a schema says so."""
        schema, first = self.schema(self.sub.key), self.first(values)
        is_lower = schema.refuse_lower and first is not None and ranks_lower(schema.policy, first, later)
        require(not is_lower, self, "was done although it ranks lower than", first)

    def check_removes(
        self, actual: frozenset[Dot], wanted: frozenset[Dot], optional: frozenset[Dot] = frozenset()
    ) -> None:
        require(
            wanted <= actual <= wanted | optional,
            self,
            "removes",
            sorted(actual),
            "where its author had seen",
            sorted(wanted),
        )

    def crowded(self, values: list[Value], gone: frozenset[Dot]) -> frozenset[Dot]:
        """Which of the live values of a register or field a write that replaces ``gone`` takes along: those that
        readers would be shown last, so that as many are left as a key may have.
        """
        others = [value for value in values if value.dot not in gone]
        excess = len(others) + 1 - limits.KEY_SIBLINGS_MAX
        if excess <= 0:
            return frozenset()
        policy = self.schema(self.sub.key).policy
        if policy in ("all", "manual"):
            require(len(others) < len(values), self, "made one more of too many values:", values)
            return frozenset()
        return frozenset(value.dot for value in best_first(policy, others)[-excess:])

    def done(
        self, removed: frozenset[Dot], added: Value | None, by: str = "", crowded: frozenset[Dot] = frozenset()
    ) -> None:
        policy = self.schema(self.sub.key).policy
        effect = Effect(self.sub.key, removed, added, by or self.sub.operation, self.sub.mode, policy, crowded)
        self.known.effects.append(effect)
        self.draft.apply_effect(effect)
        self.held = dict(self.draft.held(self.sub.key))
        if added is not None:
            self.sub.written += (added.dot,)

    @property
    def length(self) -> int:
        """How many elements the set has now."""
        return len(elements(value for value in self.held.values() if value.dot not in self.expired))

    def _follow(self) -> None:
        """What the newest of the writes that this one follows, and that was done, knew and wrote is known to it."""
        done = [sub for sub in self.sub.follows if sub.written]
        self.sub.shown = self.sub.read
        if done:
            self.sub.shown = self.sub.read | done[-1].shown | {*done[-1].written}
            self.sub.others = self.sub.others | done[-1].others

    def covered(self, candidates: Iterable[Value], blind: frozenset[Dot], others: bool = False) -> frozenset[Dot]:
        """Which of ``candidates`` the author had seen; ``blind``: what a session takes that never read the key.

        What the same change wrote before is no news to its author, unless it says that it has seen nothing.
        """
        match self.sub.mode:
            case "seen" | "if_version" | "follows":
                seen = self.sub.seen if others else self.sub.shown
                return frozenset(value.dot for value in candidates if value.dot in seen | self.own)
            case "blind":
                return blind
        return frozenset()


def named(held: Mapping[Dot, Value], removes: tuple[Dot, ...] | RemoveRange) -> frozenset[Dot]:
    """Which of ``held`` an operation removes."""
    if not isinstance(removes, RemoveRange):
        return frozenset(removes) & frozenset(held)
    return frozenset(
        dot
        for dot, value in held.items()
        if dot.seq <= removes.vector.get(dot.writer, 0) and (removes.bound is None or value.order <= removes.bound)
    )


def check_value(case: Case, op: Op, content: Any) -> None:
    """The operation has written this value."""
    require(op.value is not None and identity(unpack(op.value)) == identity(content), case, "wrote another value:", op)
