"""The entries that a shared context stores and hands out; pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from crdtsync.client import Entry
from crdtsync.context.compact.compress import compress
from crdtsync.context.compact.result import savings
from crdtsync.errors import InvalidValue
from crdtsync.visible import in_line


@dataclass(frozen=True, slots=True)
class ContextEntry:
    """One thing that was put: in full and compact, with who put it and when (seconds since 1970, UTC).

    ``original`` is what was put, value for value; None where only the compact text was asked for. ``siblings`` were put
    at once with it on other hosts, and nobody has chosen between them yet.
    """

    key: str
    original: Any
    compressed: str
    original_tokens: int
    compressed_tokens: int
    agent: str | None
    timestamp: float
    transforms: tuple[str, ...]
    left_out: tuple[str, ...]
    siblings: tuple[ContextEntry, ...] = ()

    @property
    def text(self) -> str:
        """The compact text; with siblings that of each, with its author."""
        if not self.siblings:
            return self.compressed
        return together((in_line(one.agent or "somebody"), one.compressed) for one in (self, *self.siblings))

    @property
    def savings_percent(self) -> float:
        """How much less the compact text is, of 100."""
        return savings(self.original_tokens, self.compressed_tokens)


@dataclass(frozen=True, slots=True)
class SharedContextStats:
    """The tokens that the entries of a shared context take, and those that reading them compactly saves."""

    entries: int
    total_original_tokens: int
    total_compressed_tokens: int

    @property
    def total_tokens_saved(self) -> int:
        """How many tokens less a reader of all entries pays."""
        return self.total_original_tokens - self.total_compressed_tokens

    @property
    def savings_percent(self) -> float:
        """The same, of 100."""
        return savings(self.total_original_tokens, self.total_compressed_tokens)


LARGE_BYTES = 512 * 1024
"""What is longer as text goes into a blob, and its compact text has a budget."""
LARGE_TOKENS = 50_000


def record(
    key: str, content: object, agent: str | None, kind: str, model: str, by: str = "rules"
) -> tuple[dict[str, Any], bytes | None]:
    """The value of the compact key: ``content`` compressed once, for all readers; and ``content`` as the bytes of a
    blob, if it is large.
    """
    text = text_of(content)
    try:
        packed = content if isinstance(content, bytes) else text.encode()
    except UnicodeEncodeError as error:
        message = f"what is put under {key!r} has a lone surrogate, which UTF-8 cannot hold: {error}"
        raise InvalidValue(message) from error
    is_large = len(packed) > LARGE_BYTES
    budget = LARGE_TOKENS if is_large else None
    done = compress(text, kind=kind, budget=budget, model=model, source=f"get({key!r}, full=True)", by=by)
    value = {
        "text": done.text,
        "kind": done.kind,
        "model": model,
        "original_tokens": done.original_tokens,
        "compressed_tokens": done.compressed_tokens,
        "transforms": list(done.transforms),
        "left_out": list(done.left_out),
        "agent": agent,
    }
    if not is_large:
        return value, None
    if not isinstance(content, str | bytes):
        packed = json.dumps(content, ensure_ascii=False).encode()  # what has no JSON is refused, not altered
    form = "bytes" if isinstance(content, bytes) else "text" if isinstance(content, str) else "json"
    return value | {"packed": form}, packed


def unpacked(content: bytes, form: str) -> Any:
    """The entry that :func:`record` packed."""
    if form == "bytes":
        return content
    text = content.decode()
    return json.loads(text) if form == "json" else text


def text_of(content: object) -> str:
    """``content`` as a model would be handed it: a str as it is, all else as JSON, bytes as UTF-8 as far as it goes."""
    if isinstance(content, bytes):
        return content.decode("utf-8", "replace")
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)


def together(claims: Iterable[tuple[str, str]]) -> str:
    """Values at odds, each after its author, in one text. Only a head begins at the start of a line: further lines of a
    value are indented, so that none of them can pass for another author's.
    """
    return "\n".join("\n    ".join(f"[{head.replace(']', ')')}] {text}".splitlines()) for head, text in claims)


def puts_in(stored: Entry | None) -> list[Entry]:
    """The entries that stand under a compact key: several, if hosts that were cut off put them."""
    return [] if stored is None else [one for one in (stored, *stored.siblings) if is_record(one.value)]


def change_of(entry: Entry) -> str:
    """The change that wrote it: the two keys of one put have the same."""
    return (entry.dot or "").rpartition(".")[0]


def entry_from(name: str, stored: Entry, original: object) -> ContextEntry:
    """The entry stored under the compact key ``stored``, as it is handed out."""
    value = stored.value
    return ContextEntry(
        key=name,
        original=original,
        compressed=value["text"],
        original_tokens=value["original_tokens"],
        compressed_tokens=value["compressed_tokens"],
        agent=value["agent"] or stored.agent,
        timestamp=stored.time.timestamp() if stored.time else 0.0,
        transforms=tuple(value["transforms"]),
        left_out=tuple(value["left_out"]),
    )


def is_record(value: object) -> bool:
    """Whether ``value`` is what a put writes; anybody may write other things under these keys."""
    return isinstance(value, dict) and all(
        isinstance(value.get(name), kinds)
        for name, kinds in (
            ("text", str),
            ("original_tokens", int),
            ("compressed_tokens", int),
            ("transforms", list),
            ("left_out", list),
            ("agent", (str, type(None))),
        )
    )


def stats_of(values: Iterable[Any]) -> SharedContextStats:
    """The figures of the compact values ``values``."""
    records = [value for value in values if is_record(value)]
    return SharedContextStats(
        len(records),
        sum(value["original_tokens"] for value in records),
        sum(value["compressed_tokens"] for value in records),
    )


def oldest(entries: Iterable[Entry], most: int, spared: str) -> list[Entry]:
    """The entries that must go so that ``most`` are left: the oldest, and never the key ``spared``."""
    found = list(entries)
    rest = sorted((entry for entry in found if entry.key != spared), key=_age)
    return rest[: max(0, len(found) - most)]


def _age(entry: Entry) -> tuple[float, str]:
    return (entry.time.timestamp() if entry.time else 0.0, entry.key)
