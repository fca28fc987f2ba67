"""The schemas of a space: what is declared for keys by pattern, in reserved keys of the space itself.

The schema of a pattern is a register under ``_schema/PATTERN`` that holds a map. It replicates, conflicts and survives
as any other key does; between two that were set at once the newest one counts. The schema of the most specific pattern
that matches a key applies to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from crdtsync.causality import TIME_MS_MAX
from crdtsync.core.crdt.entries import Entries
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.crdt.read_policies import LWW, POLICIES, Policy, newest_wins
from crdtsync.errors import InvalidEncoding, InvalidRequest
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import unpack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.patterns import Pattern, check_pattern

SCHEMA_PREFIX = "_schema/"
CACHED_KEYS_MAX = 10_000
"""Keys whose schema is remembered; when they are more, it is found again."""


PatternRank = tuple[tuple[int, ...], str]


class HistoryCap(NamedTuple):
    """How much history is kept of the keys of a pattern, together: so many bytes, or what ended in so much time."""

    bytes_max: int | None = None
    age_ms_max: int | None = None


NO_HISTORY = HistoryCap(bytes_max=0)


def history_cap(plain: object) -> HistoryCap | None:
    """The cap that a schema's field ``history`` says; None: none, or one that is not known here."""
    if plain is False:
        return NO_HISTORY
    if type(plain) is dict and len(plain) == 1:
        ((name, number),) = plain.items()
        if type(number) is int and number > 0:
            if name == "bytes":
                return HistoryCap(bytes_max=number)
            if name == "age_ms":
                return HistoryCap(age_ms_max=number)
    return None


class WriteRules(NamedTuple):
    """The rules of a schema for writes: checked when a write is made, and never when it is merged. None, empty: not
    asked.
    """

    kind: str | None = None
    json: bytes | None = None
    """The JSON Schema of a value, as msgpack."""
    ttl_ms: int | None = None
    slides: bool = False
    """Whether a value with this time to live lives on when it is read."""
    writers: frozenset[str] = frozenset()
    version: int | None = None
    marks_older: bool = False
    """Whether who knows an older version may write, and what it writes says so."""
    entries_max: int | None = None
    bytes_max: int | None = None
    """Bytes of the values of all keys of the pattern, or of each log, if they are logs."""


NO_RULES = WriteRules()


MARK = "mark"
SINCE = "since"
"""The version of a schema, and when it was declared first, where it was declared again with other rules."""


def since_ms(plain: dict[str, Any]) -> int | None:
    """When the version in a schema's fields was declared first, if they say so: a peer may have written anything."""
    match plain.get(SINCE):
        case [version, ms] if version == plain.get("version") and type(ms) is int and 0 <= ms <= TIME_MS_MAX:
            return ms
    return None


def _positive(plain: object) -> int | None:
    return plain if type(plain) is int and plain > 0 else None


def rules_of(plain: dict[str, Any]) -> WriteRules | None:
    """The rules in a schema's fields, without those that are not understood here; None: there are none."""
    kind, json, ttl = plain.get("kind"), plain.get("json"), plain.get("ttl")
    writers, version = plain.get("writers"), plain.get("version")
    rules = WriteRules(
        kind if type(kind) is str else None,
        json if type(json) is bytes else None,
        ttl if type(ttl) is int and ttl > 0 else None,
        plain.get("sliding") is True,
        frozenset(name for name in writers if type(name) is str) if type(writers) is list else frozenset(),
        version if type(version) is int else None,
        plain.get("older") == MARK,
        _positive(plain.get("max_entries")),
        _positive(plain.get("max_bytes")),
    )
    return None if rules == NO_RULES else rules


class Schema(NamedTuple):
    """The declaration for the keys that match ``pattern``. ``plain`` is all of it, also what is not known here.

    ``history``: how much history is kept of them; None: no more is said than of the whole space.
    """

    pattern: str
    policy: Policy
    refuse_lower: bool
    plain: dict[str, Any]
    history: HistoryCap | None = None
    rules: WriteRules | None = None


DEFAULT = Schema("", LWW, False, {})
"""Applies where no pattern matches."""


def schema_of(pattern: str, held: Iterable[Entry]) -> Schema | None:
    """The schema that the entries under a pattern's reserved key make up: the newest one that is one.

    A policy of a newer version counts as the default here, and is kept. By what is *held*: expiry, of which each host
    has its own opinion, must not decide.
    """
    for entry in reversed([entry for entry in held if entry.kind == Kind.REGISTER]):
        plain = _plain(entry.value)
        if plain is not None:
            name = plain.get("policy")
            policy = POLICIES.get(name, LWW) if isinstance(name, str) else LWW
            refuse_lower = policy.can_refuse and plain.get("refuse_lower") is True
            cap = history_cap(plain.get("history", True))
            return Schema(pattern, policy, refuse_lower, plain, cap, rules_of(plain))
    return None


def _plain(value: bytes | None) -> dict[str, Any] | None:
    try:
        plain = unpack(value or b"")
    except InvalidEncoding:
        return None
    return plain if type(plain) is dict else None


class SchemaTable:
    """Schemas by pattern, as they were at one moment."""

    def __init__(self, by_pattern: dict[str, tuple[Pattern, Schema]]) -> None:
        self.by_pattern = by_pattern
        self._exact = {text: schema for text, (pattern, schema) in by_pattern.items() if pattern.is_exact}
        self._by_prefix: dict[str, list[tuple[PatternRank, Pattern, Schema]]] = {}
        for pattern, schema in by_pattern.values():
            if not pattern.is_exact:
                self._by_prefix.setdefault(pattern.prefix, []).append((pattern.rank, pattern, schema))
        self._prefix_lengths = sorted({len(prefix) for prefix in self._by_prefix})

    def find(self, key: str) -> Schema:
        """A key's own schema is the most specific. The others are looked at only if the key begins with
        their prefix.
        """
        exact = self._exact.get(key)
        if exact is not None:
            return exact
        best: tuple[PatternRank, Schema] | None = None
        for length in self._prefix_lengths:
            for rank, pattern, schema in self._by_prefix.get(key[:length], ()):
                if (best is None or rank < best[0]) and pattern.matches(key):
                    best = (rank, schema)
        return DEFAULT if best is None else best[1]

    @property
    def hands_over_all(self) -> bool:
        """Whether there are keys that are read as lists."""
        return any(schema.policy.is_whole for _, schema in self.by_pattern.values())


NO_SCHEMAS = SchemaTable({})


class Schemas:
    """The schemas of one space, kept in step with its entries: who changes them says so with :meth:`note`."""

    __slots__ = ("_entries", "_found", "_noted", "_retold", "_table", "_told")

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._noted: dict[str, None] = {}  # each space has this: an empty dict takes 64 bytes, an empty set 216
        self._retold: dict[str, None] = {}
        self._table = self._told = NO_SCHEMAS
        self._found: dict[str, Schema] = {}

    def note(self, key: str) -> None:
        """Entries of a reserved key have come or gone, or will have by the next look-up."""
        if key.startswith(SCHEMA_PREFIX):
            self._noted[key] = None
            self._retold[key] = None
            self._entries.policy_of = self._policy_of

    def note_entries(self, entries: Iterable[Entry]) -> None:
        """The same for many at once, most of which are of other keys."""
        for key in {entry.key for entry in entries if entry.key[0] == "_"}:
            self.note(key)

    def of(self, key: str) -> Schema:
        """The schema that applies to ``key``."""
        if self._noted:
            self._refresh()
        if not self._table.by_pattern:
            return DEFAULT
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= CACHED_KEYS_MAX:
                self._found.clear()
            found = self._found[key] = self._table.find(key)
        return found

    @property
    def is_empty(self) -> bool:
        """Whether there is none, nor any news of one."""
        return not (self._noted or self._table.by_pattern)

    def _policy_of(self, key: str) -> Policy:
        return self.of(key).policy

    def all(self) -> list[Schema]:
        """Every schema, by pattern."""
        if self._noted:
            self._refresh()
        by_pattern = self._table.by_pattern
        return [by_pattern[text][1] for text in sorted(by_pattern)]

    def __len__(self) -> int:
        if self._noted:
            self._refresh()
        return len(self._table.by_pattern)

    def _refresh(self) -> None:
        by_pattern = dict(self._table.by_pattern)
        for key in self._noted:
            text, pattern = key.removeprefix(SCHEMA_PREFIX), _pattern_of(key)
            schema = schema_of(text, self._entries.held(key))
            by_pattern.pop(text, None)
            if pattern is not None and schema is not None:
                by_pattern[text] = (pattern, schema)
        self._table = SchemaTable(by_pattern)
        self._noted.clear()
        self._found.clear()
        if not by_pattern:
            self._entries.policy_of = newest_wins

    # -- whom it concerns --------------------------------------------------------------------------------------

    @property
    def is_retold(self) -> bool:
        """Whether :meth:`take_retold` has something."""
        return bool(self._retold)

    def take_retold(self) -> tuple[list[str], SchemaTable]:
        """The reserved keys that have been noted since the last call, and the schemas as they were then."""
        if self._noted:
            self._refresh()
        taken, before = sorted(self._retold), self._told
        self._retold.clear()
        self._told = self._table
        return taken, before

    @property
    def table(self) -> SchemaTable:
        """All of them, as they are now."""
        if self._noted:
            self._refresh()
        return self._table

    def matching(self, schema_key: str, prefix: str = "") -> Iterator[str]:
        """All keys that a schema is for."""
        pattern = _pattern_of(schema_key)
        if pattern is not None:
            start = pattern.prefix if pattern.prefix.startswith(prefix) else prefix
            yield from (key for key in self._entries.keys(start) if pattern.matches(key))

    def concerned(self, schema_key: str, prefix: str = "") -> Iterator[str]:
        """The keys that may have another winner after a change of this schema: those with several entries."""
        pattern = _pattern_of(schema_key)
        if pattern is None:
            return
        plural = self._entries.keys_with_several
        if pattern.is_exact:
            found: Iterable[str] = [pattern.text] if pattern.text in plural else ()
        else:
            found = (key for key in plural if pattern.matches(key))
        yield from (key for key in found if key.startswith(prefix))


def _pattern_of(schema_key: str) -> Pattern | None:
    """The pattern that a reserved key holds the schema of; None: it holds none."""
    if not schema_key.startswith(SCHEMA_PREFIX):
        return None
    try:
        return check_pattern(schema_key.removeprefix(SCHEMA_PREFIX))
    except InvalidRequest:
        return None  # a careless author's
