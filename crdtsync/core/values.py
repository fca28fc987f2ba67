"""From entries to what a reader sees: one winner, its siblings, versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crdtsync.causality import Dot, Writer, hlc_ms, vector_of
from crdtsync.core.entries import Entries, Entry
from crdtsync.core.replica import Replica
from crdtsync.errors import TooLarge
from crdtsync.wire.change import Kind
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.limits import CHANGE_BYTES_MAX, KEY_SIBLINGS_MAX
from crdtsync.wire.tokens import VERSION_DOTS_MAX, Version, encode_dot, encode_version

KIND_NAMES = {kind.value: kind.name.lower() for kind in Kind}

Sibling = list[Entry]
"""The entries that make up one value: one for a register, all elements of a log, all markers of one text document."""


def kind_name(kind: int) -> str:
    """The name of a kind, also of one that only newer versions know."""
    return KIND_NAMES.get(kind, f"kind-{kind}")


def siblings(entries: Entries, live: list[Entry]) -> list[Sibling]:
    """The concurrent values among the live entries of a key, the winner first.

    Highest hybrid time, then highest writer.
    """
    if len(live) < 2:
        return [live] if live else []
    if live[0].key not in entries.mixed and live[0].kind == Kind.LOG:
        return [live]
    groups: dict[object, Sibling] = {}
    for entry in live:
        groups.setdefault(_identity(entry), []).append(entry)
    return sorted(groups.values(), key=lambda group: group[-1].order, reverse=True)


def _identity(entry: Entry) -> object:
    if entry.kind == Kind.LOG:
        return Kind.LOG
    if entry.kind == Kind.TEXT:
        return (Kind.TEXT, entry.value)
    return entry.dot


def version_of(shown: list[Entry], others: list[Entry] = []) -> Version:  # noqa: B006  # never changed
    """What a reader knows who was handed ``shown`` while ``others`` were alive too.

    A vector covers whatever the same writers wrote before, so it stands only for a reader who was handed all of that.
    """
    hlc = max((entry.hlc for entry in shown), default=0)
    if len(shown) > KEY_SIBLINGS_MAX:
        return Version(vector=vector_of(entry.dot for entry in shown), hlc=hlc)
    return Version(dots=tuple(e.dot for e in shown), others=tuple(e.dot for e in others[:VERSION_DOTS_MAX]), hlc=hlc)


def document_of(entry: Entry) -> Dot:
    """The document that a text's marker names."""
    writer, seq, n = unpack(entry.value or b"")
    return Dot(writer, seq, n)


def packed_value(replica: Replica, group: Sibling) -> bytes | None:
    """The value of one sibling as msgpack; None if it was purged.

    :raises TooLarge: a log that does not fit into one reply.
    """
    reader = _READERS.get(group[-1].kind)
    return group[-1].value if reader is None else reader(replica, group)


def _log_value(_replica: Replica, group: Sibling) -> bytes:
    size_bytes = sum(len(entry.value or b"") for entry in group)
    if size_bytes > CHANGE_BYTES_MAX:
        raise TooLarge(f"the log has {len(group):,} elements and {size_bytes:,} bytes: read it in parts, with log")
    return _packed_array([entry.value or pack(None) for entry in group])


def _text_value(replica: Replica, group: Sibling) -> bytes:
    return pack(replica.documents.get(document_of(group[-1])).read())


_READERS: dict[int, Callable[[Replica, Sibling], bytes]] = {Kind.LOG: _log_value, Kind.TEXT: _text_value}


def _packed_array(items: list[bytes]) -> bytes:
    count = len(items)
    if count < 16:
        return bytes([0x90 | count]) + b"".join(items)
    return b"\xdd" + count.to_bytes(4, "big") + b"".join(items)


def describe(
    replica: Replica,
    group: Sibling,
    node_of: Callable[[Writer], str],
    read: Callable[[Replica, Sibling], bytes | None] = packed_value,
) -> dict[str, Any]:
    """One sibling as agents see it."""
    newest = group[-1]
    attrs = newest.attrs or {}
    return {
        "kind": kind_name(newest.kind),
        "value": read(replica, group),
        "dot": encode_dot(newest.dot),
        "agent": newest.agent,
        "node": node_of(newest.dot.writer),
        "time": hlc_ms(newest.hlc),
        "confidence": attrs.get("confidence"),
        "meta": attrs.get("meta"),
        "ttl": attrs.get("ttl"),
    }


def describe_key(
    replica: Replica,
    key: str,
    live: list[Entry],
    node_of: Callable[[Writer], str],
    read: Callable[[Replica, Sibling], bytes | None] = packed_value,
) -> dict[str, Any] | None:
    """The entry of a key: the winner with its siblings and a version that covers all of them. None: absent."""
    groups = siblings(replica.entries, live)
    if not groups:
        return None
    winner, *others = [describe(replica, group, node_of, read) for group in groups]
    return {"key": key, **winner, "version": encode_version(version_of(live)), "siblings": others}
