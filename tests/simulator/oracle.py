"""What ought to be true, worked out without the code under test: the judge of every change.

It learns of every change at the moment when its author makes it, with what that author's agent had read, works out
what it may remove and must write, and holds every replica to that from then on. What a replica then ought to hold and
to show is in :mod:`tests.simulator.model`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from crdtsync.causality import Dot
from crdtsync.wire.change import Change, Op
from crdtsync.wire.codec import unpack
from crdtsync.wire.kinds import Kind
from tests.simulator.cases import Case, Sub, named
from tests.simulator.kinds import OPERATIONS
from tests.simulator.kinds.text import rewrite
from tests.simulator.model import (
    Broken,
    ChangeId,
    Known,
    Model,
    Value,
    identity,
    require,
)

DAEMON = "crdtsyncd"
"""The name under which a node makes changes that no agent asked for."""

MayNot = Callable[[Value], str]


class Oracle:
    """Knows every change that any node ever made, from the moment it was made; in an order that is causal."""

    def __init__(self) -> None:
        self.changes: dict[ChangeId, Known] = {}
        self._removers: dict[Dot, list[Known]] = {}
        self.compacted: set[Dot] = set()  # documents that compactions made
        self.dead: dict[Dot, set[str]] = {}  # the words of documents that somebody has deleted
        self.cuts: set[str] = set()  # words that somebody has cut out of a text
        self.subs: dict[str, str] = {}  # of elements of sets: which value is meant

    def author(self, model: Model, change: Change, request: Any, now_ms: int, may_not: MayNot) -> Known:
        """A node has just made ``change`` for ``request``, on top of ``model``.

        ``may_not`` says of an expired value why this node may not delete it, or nothing if it may.
        """
        where = f"change {change.writer}.{change.seq}"
        require(change.hlc > model.hlc_max, where, "has a clock not above its causal past")
        clock = {**model.vector, change.writer: change.seq}
        known = Known((change.writer, change.seq), change.hash, change.hlc, clock, [], [], request)
        if request is None:
            require(change.agent == DAEMON, where, "was asked for by nobody")
            self._author_by_itself(known, model, change, now_ms, may_not)
        else:
            require(request.change is None, where, "does a request for the second time; first in", request.change)
            request.change = known.id
            self.cuts.update(word for sub in request.subs for word in sub.cut_words)
            case = self._case(known, model, change, now_ms, {sub.key for sub in request.subs})
            for sub in request.subs:
                case.begin(sub)
                OPERATIONS[sub.operation].judge(case)
            require(not case.ops, where, "has operations that nobody asked for:", [*case.ops])
        for op in change.ops:
            self._note_element(op)
        self._note_dead(known, model)
        self.compacted.update(document for edit in known.edits for document, generation in edit.family if generation)
        self.changes[known.id] = known
        for effect in known.effects:
            for dot in effect.removed:
                self._removers.setdefault(dot, []).append(known)
        return known

    def _note_dead(self, known: Known, model: Model) -> None:
        """Documents that no marker names any more, as their author sees it: in time its node forgets what they held."""
        edited = {edit.document for edit in known.edits}
        for key in sorted({effect.key for effect in known.effects}):
            after = Model()
            after.keys[key] = dict(model.held(key))
            before = {value.document for value in after.keys[key].values() if value.document is not None} | edited
            if not before:
                continue
            for effect in known.effects:
                if effect.key == key:
                    after.keys.setdefault(key, {})
                    after.apply_effect(effect)
            gone = before - {value.document for value in after.held(key).values()}
            texts = model.texts.copy() if gone & edited else model.texts
            for edit in known.edits if gone & edited else ():
                texts.add(edit)
            for document in gone:
                self.dead.setdefault(document, set()).update(texts.words(document))

    def is_text(self, document: Dot, text: str, wanted: str) -> bool:
        """Whether a document holds what it ought to.

        One that a compaction made may hold its words in another order than one that was never compacted.
        One that was deleted, and revived by an edit from somebody who did not know, may lack what it held then:
        a node that had forgotten it has only what came with the edit.
        """
        is_same = text == wanted or (document in self.compacted and sorted(text.split()) == sorted(wanted.split()))
        if is_same or document not in self.dead:
            return is_same
        found, words = {*text.split()}, {*wanted.split()}
        return words - found <= self.dead[document] and found - words <= self.cuts

    def is_gone(self, dot: Dot, after: Dot) -> bool:
        """Whether something in the causal past of ``after``, or its own change, has removed ``dot``."""
        if dot[:2] == after[:2]:
            return False  # what a batch has written and removed is told as it was written
        clock = self.changes[after[:2]].clock
        removers = self._removers.get(dot, ())
        held = (known for known in removers if self.changes.get(known.id) is known)  # the others were lost in a crash
        return any(known.id[1] <= clock.get(known.id[0], 0) for known in held)

    def idle(self, model: Model, request: Any, now_ms: int) -> Broken | None:
        """Why ``request``, made on top of ``model``, cannot be done by doing nothing; None if it can."""
        nothing: Any = None
        known = Known((0, 0), b"", 0, {}, [], [], request)
        draft = Model()
        draft.keys = {key: dict(values) for key in {sub.key for sub in request.subs} if (values := model.held(key))}
        case = Case(known, nothing, draft, model.vector, now_ms, deque(), self.cuts, model.schema)
        try:
            for sub in request.subs:
                case.begin(sub)
                OPERATIONS[sub.operation].judge(case)
        except Broken as broken:
            return broken
        return None

    def _case(self, known: Known, model: Model, change: Change, now_ms: int, keys: Iterable[str]) -> Case:
        draft = Model()
        draft.keys = {key: dict(values) for key in keys if (values := model.held(key))}
        if any(op.kind == Kind.TEXT for op in change.ops):
            draft.texts = model.texts.copy()
        return Case(known, change, draft, model.vector, now_ms, deque(enumerate(change.ops)), self.cuts, model.schema)

    def _author_by_itself(self, known: Known, model: Model, change: Change, now_ms: int, may_not: MayNot) -> None:
        """A node may by itself delete what has expired, if that is its business, and make a text smaller."""
        case = self._case(known, model, change, now_ms, {op.key for op in change.ops})
        while case.ops:
            _, op = case.ops[0]
            if op.kind == Kind.TEXT and op.value_hash is not None:
                case.begin(Sub("rewrite", op.key))
                rewrite(case)
                continue
            case.begin(Sub("expire", op.key))
            case.take_op()
            gone = named(case.held, op.removes)
            require(
                op.value_hash is None and (op.attrs or {}).get("expired") is True, case, "is nothing that a node does"
            )
            require(gone, case, "removes nothing")
            require(gone <= case.expired, case, "removes what has not expired:", sorted(gone - case.expired))
            for dot in gone:
                why_not = may_not(case.held[dot])
                require(not why_not, case, "deletes an expired value that it should leave to its owner:", why_not)
            case.done(gone, None)

    def _note_element(self, op: Op) -> None:
        """One element, one name: the same on every node."""
        if op.kind == Kind.SET and op.value is not None:
            assert op.sub is not None
            name = identity(unpack(op.value))
            for table, one, other in ((self.subs, op.sub, name), (self.subs, name, op.sub)):
                require(table.setdefault(one, other) == other, "the element", name, "goes by another name:", op.sub)

    def forget(self, ids: list[ChangeId]) -> None:
        """These were lost with a crash before they were on disk: they must never be seen again."""
        for change_id in ids:
            known = self.changes.pop(change_id)
            if known.request is not None:
                known.request.change = None
                for sub in known.request.subs:
                    sub.written = sub.lost = ()

    def arrived(self, host: str, model: Model, change_id: ChangeId, change_hash: bytes) -> Known:
        """``host`` applies a change on top of ``model``: is it one that exists, and is its whole past there?"""
        known = self.changes.get(change_id)
        require(known is not None, f"{host} applied change {change_id}, which nobody has on disk")
        assert known is not None
        require(known.hash == change_hash, f"{host} applied another change {change_id} than its author made")
        writer, seq = change_id
        held = model.vector.get(writer, 0)
        require(held == seq - 1, f"{host} applied number {seq} of writer {writer} after number {held}")
        self._check_past(host, known, model.vector)
        return known

    def jumped(self, host: str, model: Model, vector: Mapping[int, int]) -> list[Known]:
        """``host`` has come to ``vector`` at once, by a snapshot: what is new to it, in causal order."""
        ahead = {writer: seq for writer, seq in vector.items() if seq > model.vector.get(writer, 0)}
        back = {writer: seq for writer, seq in model.vector.items() if seq > vector.get(writer, 0)}
        require(not back, f"{host} has lost changes by a snapshot:", back)
        news = [
            known
            for known in self.changes.values()
            if model.vector.get(known.id[0], 0) < known.id[1] <= vector.get(known.id[0], 0)
        ]
        wanted = sum(seq - model.vector.get(writer, 0) for writer, seq in ahead.items())
        require(len(news) == wanted, f"{host} has come to {ahead} by a snapshot, which nobody has on disk")
        for known in news:
            self._check_past(host, known, vector)
        return news

    def _check_past(self, host: str, known: Known, vector: Mapping[int, int]) -> None:
        lacking = {w: s for w, s in known.clock.items() if w != known.id[0] and vector.get(w, 0) < s}
        require(not lacking, f"{host} shows change {known.id} before its causal past {lacking}")


__all__ = ["DAEMON", "Broken", "ChangeId", "Model", "Oracle", "Sub", "Value", "require"]
