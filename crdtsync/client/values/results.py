"""Results of reads: entries, events, items of a log, edits of a text. Imported when first used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from crdtsync.client.values.encoding import decode, plain

Fields = Mapping[str, Any]
"""A map of the protocol; what is in it is checked by use."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Entry:
    """One live value of a key with its author; the winner, with the other live ones in ``siblings``, highest first.

    ``version`` covers the entry and all its siblings; it is None on an entry that is itself a sibling, which ``dot``
    names. ``ttl`` is in seconds, from the time of writing. In a map, whose fields each have a winner of their own, a
    sibling is another value of the one field that ``field`` names. If there are siblings, ``seen`` are the dots of the
    values that each replaced, having read them; None: that is not known on this node. ``policy`` is the key's read
    policy, by which the winner was chosen; None on a sibling. ``is_cut``, of a sibling in an event: its value was left
    out, since it did not fit.
    """

    key: str
    kind: str
    value: Any
    version: str | None
    dot: str | None
    siblings: list[Entry]
    agent: str | None
    node: str | None
    time: datetime | None
    confidence: float | None
    meta: dict[str, Any] | None
    ttl: float | None
    field: str | None = None
    seen: list[str] | None = None
    policy: str | None = None
    is_cut: bool = False

    @property
    def clock(self) -> int:
        """The highest hybrid time of what ``version`` covers, as ``Written.alone`` tells it of a write."""
        from crdtsync.wire.tokens import decode_version

        return 0 if self.version is None else decode_version(self.version).hlc


@dataclass(frozen=True, slots=True)
class Card:
    """A card that an agent shows under a key while it is connected: see :meth:`~crdtsync.Client.show`."""

    key: str
    value: Any
    agent: str
    node: str


def cards_from_wire(reply: Fields) -> list[Card]:
    """The reply to ``shown``."""
    return [Card(card["key"], decode(card["value"]), card["agent"], card["node"]) for card in reply["cards"]]


@dataclass(frozen=True, slots=True)
class Schema:
    """The declaration for the keys that match ``pattern``, and who made it last.

    ``fields`` is all of it as it is stored, also what only newer versions know. ``siblings`` says how many others were
    declared for the pattern at the same time, elsewhere: the newest one applies. ``history`` is what of it is kept:
    True, as of all others; False, none; so many bytes; or what ended within that time.
    """

    pattern: str
    policy: str
    refuse_lower: bool
    fields: dict[str, Any]
    siblings: int
    agent: str | None
    node: str | None
    time: datetime | None
    history: bool | int | timedelta = True
    kind: str | None = None
    json_schema: dict[str, Any] | None = None
    ttl: timedelta | None = None
    writers: tuple[str, ...] = ()
    version: int | None = None
    older: str = "refuse"
    max_entries: int | None = None
    max_bytes: int | None = None
    sliding: bool = False


@dataclass(frozen=True, slots=True)
class Purge:
    """One purge: of which keys, by whom, and what became of it on this host.

    ``done``: the host stores nothing of it any more. Then ``values`` says how many values of the past went here,
    ``changes`` how many changes of the log lost a value, and ``texts`` how many texts went; before that they are None.
    """

    pattern: str
    dot: str
    agent: str | None
    node: str | None
    time: datetime | None
    done: bool
    values: int | None
    changes: int | None
    texts: int | None


def purge_from_wire(fields: Fields) -> Purge:
    """The purge that the daemon describes with ``fields``."""
    return Purge(**{**{name: fields[name] for name in Purge.__slots__}, "time": moment(fields.get("time"))})


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a watch; see docs/reference/agent-protocol.md for the meaning of each ``event``.

    ``token`` names all up to and including it: a watch with ``after=event.token`` goes on with the next one. A batch
    has the events of its keys in ``events``. A conflict has the other live entries in ``siblings``; ``version`` covers
    them all, and ``policy`` is the read policy by which ``value`` was chosen. ``seen`` is as in an :class:`Entry`.
    ``dot`` names the entry that ``value`` is of.

    If something does not fit into one event it is left out: ``is_cut`` says so of ``value`` (which is then None) and of
    siblings, and ``siblings_more`` counts those that are not listed at all. ``version`` covers only what is there. In
    an edit of a text, ``document`` names the Yjs document that its update is of. ``meta`` is what the author of a value
    said about it; None also if the daemon is too old to tell.
    """

    event: str
    key: str | None
    kind: str | None
    value: Any
    op: str | None
    version: str | None
    token: str | None
    agent: str | None
    node: str | None
    time: datetime | None
    siblings: list[Entry] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    dot: str | None = None
    seen: list[str] | None = None
    policy: str | None = None
    is_cut: bool = False
    siblings_more: int = 0
    document: str | None = None
    meta: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class LogItem:
    """One element of a log; ``index`` counts from the oldest that is left, and ``dot`` names the element.

    ``confidence``, ``meta`` and ``ttl`` are what its author said of it; None also where the daemon is too old to tell.
    """

    index: int
    value: Any
    dot: str
    agent: str | None
    node: str | None
    time: datetime | None
    confidence: float | None = None
    meta: dict[str, Any] | None = None
    ttl: float | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One element of a set, with who added it last."""

    value: Any
    dot: str
    agent: str | None
    node: str | None
    time: datetime | None


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a map, with who wrote its value; the winner, where several did at once."""

    name: str
    value: Any
    dot: str
    agent: str | None
    node: str | None
    time: datetime | None


@dataclass(frozen=True, slots=True)
class TextUpdate:
    """One edit of a text: a Yjs update (v1 encoding), to be applied in the order given.

    ``document`` names the Yjs document that it belongs to. With ``reset`` it holds the whole text: start from an
    empty document.
    """

    update: bytes
    token: str
    agent: str | None
    node: str | None
    document: str | None = None
    reset: bool = False


def moment(ms: int | None) -> datetime | None:
    """Milliseconds since 1970 as an aware datetime."""
    return None if ms is None else _EPOCH + timedelta(milliseconds=ms)


def entry_from_wire(key: str, fields: Fields) -> Entry:
    """The entry of ``key`` that the daemon describes with ``fields``."""
    ttl_ms = fields.get("ttl")
    return Entry(
        key=key,
        kind=fields["kind"],
        value=plain(fields.get("value")),
        version=fields.get("version"),
        dot=fields.get("dot"),
        siblings=[entry_from_wire(key, sibling) for sibling in fields.get("siblings") or ()],
        agent=fields.get("agent"),
        node=fields.get("node"),
        time=moment(fields.get("time")),
        confidence=fields.get("confidence"),
        meta=plain(fields.get("meta")),
        ttl=None if ttl_ms is None else ttl_ms / 1000,
        field=fields.get("field"),
        seen=fields.get("seen"),
        policy=fields.get("policy"),
        is_cut=fields.get("cut", False),
    )


def schema_from_wire(fields: Fields) -> Schema:
    """The schema that the daemon describes with ``fields``."""
    return Schema(
        pattern=fields["pattern"],
        policy=fields["policy"],
        refuse_lower=fields["refuse_lower"],
        fields=plain(fields["schema"]),
        siblings=fields.get("siblings") or 0,
        agent=fields.get("agent"),
        node=fields.get("node"),
        time=moment(fields.get("time")),
        history=_history_cap(fields.get("history", True)),
        **_rules(plain(fields["schema"])),
    )


def _rules(stored: Fields) -> Fields:
    """The rules among the stored fields, whose types their author's node has checked, as far as this version does."""
    json, ttl, writers = stored.get("json"), stored.get("ttl"), stored.get("writers")
    kind, version = stored.get("kind"), stored.get("version")
    caps = {name: cap for name in ("max_entries", "max_bytes") if isinstance(cap := stored.get(name), int)}
    return {
        **caps,
        "older": str(stored.get("older", "refuse")),
        "kind": kind if isinstance(kind, str) else None,
        "json_schema": plain(json) if isinstance(json, bytes) else None,
        "ttl": timedelta(milliseconds=ttl) if isinstance(ttl, int) else None,
        "writers": tuple(map(str, writers)) if isinstance(writers, list) else (),
        "version": version if isinstance(version, int) else None,
        "sliding": stored.get("sliding") is True,
    }


def _history_cap(plain: Any) -> bool | int | timedelta:
    if isinstance(plain, bool):
        return plain
    return timedelta(milliseconds=plain["age_ms"]) if "age_ms" in plain else int(plain["bytes"])


def event_from_wire(fields: Fields) -> Event:
    """The event that the daemon describes with ``fields``. The value of a text's edit is its Yjs update, as bytes."""
    key = fields.get("key")
    return Event(
        event=fields["event"],
        key=key,
        kind=fields.get("kind"),
        value=plain(fields.get("value")),
        op=fields.get("op"),
        version=fields.get("version"),
        token=fields.get("token"),
        agent=fields.get("agent"),
        node=fields.get("node"),
        time=moment(fields.get("time")),
        siblings=[entry_from_wire(key or "", sibling) for sibling in fields.get("siblings") or ()],
        events=[event_from_wire(event) for event in fields.get("events") or ()],
        dot=fields.get("dot"),
        seen=fields.get("seen"),
        policy=fields.get("policy"),
        is_cut=fields.get("cut", False),
        siblings_more=fields.get("more", 0),
        document=fields.get("document"),
        meta=plain(fields.get("meta")),
    )


def log_item_from_wire(index: int, item: list[Any]) -> LogItem:
    """The element at ``index`` of a log, from ``[value, dot, agent, node, time]``, with ``confidence, meta, ttl`` or
    without.
    """
    value, dot, agent, node, time, *said = item
    confidence, meta, ttl_ms = said or (None, None, None)
    ttl = None if ttl_ms is None else ttl_ms / 1000
    return LogItem(index, plain(value), dot, agent, node, moment(time), confidence, plain(meta), ttl)


def member_from_wire(item: list[Any]) -> Member:
    """An element of a set, from ``[value, dot, agent, node, time]``."""
    value, dot, agent, node, time = item
    return Member(plain(value), dot, agent, node, moment(time))


def field_from_wire(item: list[Any]) -> Field:
    """A field of a map, from ``[name, value, dot, agent, node, time]``."""
    name, value, dot, agent, node, time = item
    return Field(name, plain(value), dot, agent, node, moment(time))
