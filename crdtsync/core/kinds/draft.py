"""One change in the making: its operations so far, what they leave behind, and what its author had seen.

An agent's batch sets ``k``, adds to a counter, and sets ``k`` again. The last operation has to supersede the first; and
if it is refused, nothing of the three may be left. The replica cannot apply them one by one, since readers would see
half of a change. So a draft holds the operations, and works out what they leave behind of a key from the entries of
the space, which it does not touch. A draft that is refused is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from crdtsync.causality import Dot, VersionVector, merge
from crdtsync.core.crdt import read_context
from crdtsync.core.crdt.entry import Entry, reach_of
from crdtsync.core.crdt.key_entries import KeyEntries, S, summary_of
from crdtsync.core.crdt.read_context import NOTHING, READ_LONG_AGO, NotYet
from crdtsync.core.crdt.read_policies import Policy
from crdtsync.core.kinds.arguments import Arguments, Parts, Result
from crdtsync.core.kinds.base import Sibling
from crdtsync.core.kinds.schema_check import by_schema
from crdtsync.core.kinds.values import describe, describe_key, grouped, readable_value, siblings, version_of
from crdtsync.core.space import Applied, SpaceState
from crdtsync.core.text.document import Document
from crdtsync.core.text.document_cache import NotReady
from crdtsync.core.text.drafted_edits import DraftedEdits, EditWork
from crdtsync.core.text.judging import AUTHOR_LOOKED_AT_MAX
from crdtsync.core.text.length_limit import TextLengths
from crdtsync.core.text.marker import check_marker, stored_value
from crdtsync.errors import InvalidRequest, KindMismatch, VersionMismatch
from crdtsync.wire.change import Op
from crdtsync.wire.codec import unpack
from crdtsync.wire.kinds import Kind, kind_name
from crdtsync.wire.tokens import Version, decode_version, encode_version, joined
from crdtsync.wire.yjs.validator import UpdateSummary

REPLACED_BYTES_MAX = 256 * 1024
"""So many bytes of what a batch replaces are told in its reply, which is kept on disk for a retry; of one write all."""
OWN_DOTS_MAX = 256
"""How many dots a version may name one by one before own writes ask for the key to be read again."""


class Draft:
    """The operations of one change in the making. Later ones see what earlier ones did."""

    def __init__(self, space: SpaceState, now_ms: int) -> None:
        self.space = space
        self.now_ms = now_ms
        self.own: Mapping[str, Version] = {}  # by key: what earlier writes of this session left that it has not read
        self.author: str | None = None  # None: what is written has been there before, and fitted then
        self.schema_version: int | None = None  # that its author knows
        self.checked_steps = 0  # of checking values
        self.parts_of_values = Parts()
        self.is_limited = False  # whether its author may not read everything in the space
        self.ops: list[Op] = []
        self._keys: dict[str, KeyEntries] = {}
        self._expiring: set[str] = set()
        self._unsettled: dict[str, list[tuple[int, Op]]] = {}
        self._replaced_bytes = 0
        self._versions: list[tuple[int, Result, Version]] = []
        self._lengths = TextLengths()
        self.edits: dict[Dot, DraftedEdits] = {}
        self._edit_work = EditWork()
        self._key_versions: dict[str, tuple[Version, list[Result]]] = {}
        self._seen: dict[str, Version] = {}

    # -- what there is -------------------------------------------------------------------------------------

    def live(self, key: str) -> list[Entry]:
        """The entries of ``key`` as they will be after the operations so far."""
        self._settle(key)
        drafted = self._keys.get(key)
        if drafted is None:
            return self.space.entries.live(key, self.now_ms)
        return self.shown(drafted.entries) if key in self._expiring else drafted.entries

    def held(self, key: str) -> list[Entry]:
        """The same, with those that have expired."""
        self._settle(key)
        drafted = self._keys.get(key)
        return self.space.entries.held(key) if drafted is None else drafted.entries

    def entry(self, key: str, dot: Dot) -> Entry | None:
        """The held entry of ``key`` with this dot, found without looking at the others."""
        self._settle(key)
        drafted = self._keys.get(key)
        return self.space.entries.find(key, dot) if drafted is None else drafted.by_dot.get(dot)

    def shown(self, held: Iterable[Entry]) -> list[Entry]:
        """Those that have not expired."""
        return [e for e in held if (expires := e.expires_ms()) is None or expires > self.now_ms]

    def part(self, key: str, kind: Kind, sub: str) -> list[Entry]:
        """The held entries of one element or field: those of this kind and ``sub``."""
        self._settle(key)
        drafted = self._keys.get(key)
        found = self.space.entries.of_sub(key, sub) if drafted is None else drafted.by_sub.get(sub, ())
        return [entry for entry in found if entry.kind == kind]

    def parts(self, key: str, kind: Kind) -> int:
        """How many elements or fields of this kind a reader sees."""
        live = self.live(key)
        if self.is_mixed(key) or len(live) != len(self.held(key)) or (live and live[0].kind != kind):
            return len({entry.sub for entry in live if entry.kind == kind and entry.sub is not None})
        drafted = self._keys.get(key)
        return self.space.entries.subs(key) if drafted is None else len(drafted.by_sub)

    def is_mixed(self, key: str) -> bool:
        """Whether the entries of ``key`` are of several kinds."""
        self._settle(key)
        drafted = self._keys.get(key)
        return key in self.space.entries.keys_of_mixed_kinds if drafted is None else len(drafted.kinds) > 1

    def summary(self, key: str, make: Callable[[], S]) -> S:
        """The result of ``make`` over all entries of ``key`` that a reader sees."""
        live = self.live(key)
        if len(live) != len(self.held(key)):
            return summary_of(make, live)
        drafted = self._keys.get(key)
        return self.space.entries.summary(key, make) if drafted is None else drafted.summary(make)

    def expired(self, key: str) -> tuple[Dot, ...]:
        """Those that are held and shown to nobody any more."""
        if key not in self._expiring and not self.space.entries.is_expiring(key):
            return ()  # as nearly always
        held, live = self.held(key), self.live(key)
        if len(held) == len(live):
            return ()
        shown = {entry.dot for entry in live}
        return tuple(entry.dot for entry in held if entry.dot not in shown)

    def groups(self, live: list[Entry]) -> list[Sibling]:
        """The values of a key, the winner first."""
        if live and live[0].key in self._keys:
            return grouped(live, self.policy(live[0].key))
        return siblings(self.space.entries, live)

    def reach(self, key: str) -> VersionVector | None:
        """The vector that covers exactly what is held of ``key``; None: it has to be worked out."""
        return None if key in self._keys or key in self._unsettled else self.space.entries.reach(key)

    def winner(self, live: list[Entry]) -> Sibling:
        """The value that a reader is shown."""
        return self.groups(live)[0]

    def policy(self, key: str) -> Policy:
        """The read policy of ``key``: a schema that this change writes applies from the next one on."""
        return self.space.schemas.of(key).policy

    def own_dot(self) -> Dot:
        """The dot that the next operation will have."""
        writer, seq = self.space.next_dot()
        return Dot(writer, seq, len(self.ops))

    # -- what the author had seen ------------------------------------------------------------------------------

    def seen(self, args: Arguments) -> tuple[Version | None, bool]:
        """The ``seen`` argument cut to what this node holds; None: blind. And whether it had to be cut.

        :raises NotYet: the write insists on all that it names.
        """
        text = args.get("seen", args.get("if_version"))
        if text is None:
            return None, False
        own = None if args.get("strict") or "if_version" in args else self.own.get(str(args.get("key")))
        if text == READ_LONG_AGO:
            return (NOTHING, False) if own is None else (own, False)
        version = self._version(text)
        if own is not None:
            version = joined([version, own])
        behind = read_context.ahead(self.space.vector, version)
        if behind and (args.get("strict") or "if_version" in args):
            raise NotYet(behind)
        self.space.clock.witness(version.hlc, self.now_ms)
        return version, bool(behind)

    def _version(self, text: object) -> Version:
        """Decode a version once for all operations of a batch."""
        known = self._seen.get(text) if isinstance(text, str) else None
        if known is None:
            known = decode_version(text)
            self._seen[str(text)] = known
        return known

    def covered(self, held: list[Entry], version: Version, others: bool) -> list[Entry]:
        """Those of a key's entries that the author had seen; see :func:`crdtsync.core.crdt.read_context.covered`."""
        return read_context.covered(held, version, others)

    # -- what is checked before a write ------------------------------------------------------------------------

    def check_kind(self, key: str, live: list[Entry], kind: Kind, instead: str) -> None:
        """Refuse the operation named ``instead`` on a key of another kind."""
        if live and live[-1].kind != kind:  # the value with the newest entry is the winner
            found = kind_name(live[-1].kind)
            raise KindMismatch(
                f"{key!r} is a {found}; {instead} works on a {kind_name(kind)}: "
                "use another key, or delete this one first",
                key=key,
                kind=found,
            )

    def check_write(self, key: str, args: Arguments, kind: Kind, operation: str) -> list[Entry]:
        """Refuse the operation if a condition is false or the key is of another kind; what the key holds."""
        live = self.live(key)
        self.check_conditions(key, live, args)
        self.check_kind(key, live, kind, operation)
        return live

    def check_conditions(self, key: str, live: list[Entry], args: Arguments) -> None:
        """Refuse a write whose ``if_version`` or ``if_absent`` is false.

        :raises NotYet: the version names what this node does not hold yet.
        :raises InvalidRequest: it has both: no key can be at a version and not be there.
        """
        wanted = args.get("if_version")
        if wanted is not None:
            if args.get("if_absent"):
                raise InvalidRequest("if_version and if_absent cannot both be true: give one of them", key=key)
            version = self._version(wanted)
            behind = read_context.ahead(self.space.vector, version)
            if behind:
                raise NotYet(behind)
            if not _is_current(version, live):
                raise self.mismatch(key, live, "has changed since that version: read it again, then write")
        elif args.get("if_absent") and live:
            raise self.mismatch(key, live, "exists already")

    def mismatch(self, key: str, live: list[Entry], why: str) -> VersionMismatch:
        """The error that says why, and shows what the key holds; values that are to be read in parts are left out."""
        current = describe_key(self.space, key, live, self.space.node_of, readable_value)
        return VersionMismatch(f"{key!r} {why}", key=key, current=current)

    def describe_current(self, key: str) -> Result | None:
        """The present value of ``key``, for a refusal; values that are to be read in parts are left out."""
        return describe_key(self.space, key, self.live(key), self.space.node_of, readable_value)

    # -- what is written ---------------------------------------------------------------------------------------

    def add(self, op: Op) -> None:
        """Append an operation.

        :raises SchemaMismatch: the schema of its key does not allow it.
        """
        if self.author is not None and op.key[0] != "_" and not self.space.schemas.is_empty:
            op = by_schema(self, op)
        if op.kind == Kind.TEXT and op.value is not None:
            named, update = check_marker(unpack(op.value))
            self.edits_of(named or self.own_dot()).add(update)
        self._unsettled.setdefault(op.key, []).append((len(self.ops), op))
        self.ops.append(op)

    def check_edit(self, document: Dot, update: bytes) -> UpdateSummary:
        """Refuse an edit that the document, with the edits so far, cannot take. Returns what it carries.

        :raises InvalidValue: see :meth:`crdtsync.core.text.document.Document.check`.
        :raises TooLarge: all edits so far are more than is done in one turn.
        :raises NotReady: the document has to be made ready for it first.
        """
        if not self.space.documents.is_ready(document):
            raise NotReady(document)
        before = self.edits_of(document)
        held = self.space.documents.get(document)
        parts_left = self._edit_work.parts_left()
        summary = held.check(update, before, looked_at_max=AUTHOR_LOOKED_AT_MAX, work_max=parts_left)
        self._edit_work.add(summary, held.moved_bytes(summary))
        before.note_judged(update, summary)
        return summary

    def check_length(self, key: str, document: Dot, update: bytes, summary: UpdateSummary) -> None:
        """Refuse an edit that makes a text longer than it may be.

        :raises TooLarge: see :meth:`crdtsync.core.text.length_limit.TextLengths.check`.
        """
        held, edits = self.space.documents.get(document), self.edits_of(document)
        self._lengths.check(key, update, summary, held, edits, self.copy_of_document)

    def has_edits(self, document: Dot) -> bool:
        """Whether an operation so far edits the document."""
        return document in self.edits and bool(self.edits[document].updates)

    def edits_of(self, document: Dot) -> DraftedEdits:
        """The edits of the document by the operations so far; to be read."""
        found = self.edits.get(document)
        if found is None:
            found = self.edits[document] = DraftedEdits()
        return found

    def document(self, dot: Dot, *edits: bytes) -> Document:
        """The document with the edits so far, and with ``edits``: a copy if there are any, to be read only."""
        return self.copy_of_document(dot, *edits) if edits or self.has_edits(dot) else self.space.documents.get(dot)

    def copy_of_document(self, dot: Dot, *edits: bytes) -> Document:
        """The same, always a copy, which may be edited."""
        document = self.space.documents.get(dot)
        drafted = [*self.edits_of(dot).updates, *edits]
        return Document(dot, lambda _: (document.state(), drafted))

    def describe_replaced(self, winner: Sibling) -> Result:
        """The value that a blind write replaces. In a large batch the values beyond a bound are left out."""
        if self.ops and self._replaced_bytes > REPLACED_BYTES_MAX:  # to read 1,000 from the disk takes long
            return describe(self.space, winner, self.space.node_of, lambda _space, _group: None)
        replaced = describe(self.space, winner, self.space.node_of, readable_value)
        self._replaced_bytes += len(replaced["value"] or b"")
        return replaced if not self.ops or self._replaced_bytes <= REPLACED_BYTES_MAX else {**replaced, "value": None}

    def promise_version(self, result: Result, beside: Version = NOTHING) -> None:
        """Have :meth:`finish` put the version of the operation added last, on top of ``beside``, into ``result``."""
        self._versions.append((len(self.ops) - 1, result, beside))

    def promise_key_version(self, result: Result, key: str, seen: Version) -> None:
        """The same for an operation on a part of ``key``: all of the key that its author had seen, and what this
        change writes. All operations of a batch on one key are told the same.
        """
        _, results = self._key_versions.get(key, (seen, []))
        results.append(result)
        self._key_versions[key] = (seen, results)

    def finish(self, applied: Applied) -> None:
        """Complete the results, now that the change has its numbers."""
        change = applied.change
        for n, result, beside in self._versions:
            dots = (*beside.dots, Dot(change.writer, change.seq, n))
            result["version"] = encode_version(Version(dots, beside.others, beside.vector, change.hlc))
        for key, (seen, results) in self._key_versions.items():
            version = self._after_change(key, seen, applied)
            if version is not None:
                encoded = encode_version(version)
                for result in results:
                    result["version"] = encoded

    def _after_change(self, key: str, seen: Version, applied: Applied) -> Version | None:
        """The version that an author has seen after its change if it had seen ``seen`` of ``key``.

        None, and the author has to read again, where that would be long: unless there is nothing that it has not
        seen. Then a vector says it all.
        """
        change = applied.change
        effects = [(n, effect) for n, effect in enumerate(applied.effects) if effect.op.key == key]
        gone = {entry.dot for _, effect in effects for entry in effect.removed}
        added = [Dot(change.writer, change.seq, n) for n, effect in effects if effect.added is not None]
        dots = tuple(dot for dot in (*seen.dots, *added) if dot not in gone)
        others = tuple(dot for dot in seen.others if dot not in gone)
        if len(dots) <= OWN_DOTS_MAX:
            return Version(dots, others, seen.vector, change.hlc)
        live = self.space.entries.live(key, self.now_ms)
        known = Version(dots, others, seen.vector)
        if len(read_context.covered(live, known, others=False)) < len(live):
            return None
        vector = reach_of(live)[0]
        merge(vector, seen.vector or {})
        ahead = tuple(dot for dot in dots if dot.seq > vector.get(dot.writer, 0))
        return Version(ahead, (), vector, change.hlc) if len(ahead) <= OWN_DOTS_MAX else None

    def _settle(self, key: str) -> None:
        """Work out what the operations so far leave behind of a key: only a batch with several on one ever has to."""
        for n, op in self._unsettled.pop(key, ()):
            self._after(n, op)

    def _after(self, n: int, op: Op) -> None:
        drafted = self._keys.get(op.key)
        if drafted is None:
            drafted = self._keys[op.key] = self.space.entries.copy_of(op.key)
            if self.space.entries.is_expiring(op.key):
                self._expiring.add(op.key)
        if op.attrs:
            self._expiring.add(op.key)
        if op.removes:
            drafted.remove(drafted.covered(op.removes))
        if op.value_hash is not None:
            dot = Dot(*self.space.next_dot(), n)
            value = stored_value(op.value, dot) if op.kind == Kind.TEXT else op.value
            drafted.add(Entry(0, dot, op.key, op.sub, op.kind, self._hlc(), "", value, op.value_hash, op.attrs))

    def _hlc(self) -> int:
        """About the time that the change will have: at least this."""
        return max(self.space.clock.last + 1, self.now_ms << 16)


def _is_current(version: Version, live: list[Entry]) -> bool:
    current = version_of(live)
    if version.vector is not None or current.vector is not None:
        return current.vector == version.vector and current.hlc == version.hlc
    return {*version.dots} == {*current.dots}
