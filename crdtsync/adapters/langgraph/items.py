"""Items of LangGraph's store as keys, and which of them a search finds. No network.

langgraph/store/NAMESPACE/…/KEY    {"value": {…}, "created": …, "updated": …, "index": …, "vectors": […]}
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from math import log
from typing import TYPE_CHECKING, Any

from langgraph.store.base import Item, SearchItem, TTLConfig, get_text_at_path

from crdtsync.adapters.keys import Keys
from crdtsync.adapters.langgraph.vectors import is_vectors, likeness, unpacked
from crdtsync.adapters.readable import readable
from crdtsync.adapters.redaction import Rule, redacted
from crdtsync.context.compact.words import content_words
from crdtsync.errors import InvalidRequest, InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langgraph.store.base import ListNamespacesOp, MatchCondition, PutOp, SearchOp

    from crdtsync.client import Entry

STORE = "store"
TTL_MINUTES_MAX = (1 << 48) // 60_000  # as the daemon has it
REFRESH_AFTER = 0.1  # of its time to live: an item that was written since then is not written again when it is read


class Items:
    """From items to keys, and back; ``redact`` changes the texts of values before they are written."""

    def __init__(self, prefix: str, redact: Rule | None = None) -> None:
        self._keys = Keys(prefix)
        self._redact = redact

    def put(self, op: PutOp) -> PutOp:
        """The write for an operation.

        :raises InvalidRequest: its time to live is none.
        :raises InvalidValue: its value is no dict.
        """
        if op.value is not None and not hasattr(op.value, "keys"):
            raise InvalidValue(
                f"the value of {op.key!r} in {op.namespace!r} is no dict but {type(op.value).__qualname__}", path="$"
            )
        if op.ttl is not None and not (isinstance(op.ttl, int | float) and 0 < op.ttl <= TTL_MINUTES_MAX):
            raise InvalidRequest(
                f"ttl is {op.ttl!r}: give minutes, more than 0 and at most {TTL_MINUTES_MAX:,}, or None to keep it"
            )
        return op if op.value is None else op._replace(value=redacted(self._redact, dict(op.value)))

    def key(self, namespace: tuple[str, ...], key: str) -> str:
        """The key of an item."""
        return self._keys.key(STORE, *namespace, key)

    def below(self, namespace: tuple[str, ...]) -> str:
        """The keys of all items in a namespace, and in those below it, begin so."""
        return self._keys.below(STORE, *namespace)

    def namespace(self, key: str) -> tuple[str, ...]:
        """The namespace of the item at ``key``."""
        return tuple(self._keys.names(key)[:-1])

    def item(self, entry: Entry | None) -> SearchItem | None:
        """The item that an entry holds, as a search finds it; None if there is none, or, with a warning, if it holds
        something else.
        """
        if entry is None:
            return None
        return next((item for _, item in readable(entry.key, [entry], self._item)), None)

    def _item(self, entry: Entry) -> SearchItem:
        if not is_item(entry.value):
            message = "it is no item of a store"
            raise ValueError(message)
        *namespace, key = self._keys.names(entry.key)
        stored = entry.value
        return SearchItem(tuple(namespace), key, stored["value"], stored["created"], stored["updated"])


def plain(found: SearchItem) -> Item:
    """An item as a get gives it."""
    return Item(
        value=found.value,
        key=found.key,
        namespace=found.namespace,
        created_at=found.created_at,
        updated_at=found.updated_at,
    )


def checked(ttl: TTLConfig | None) -> TTLConfig | None:
    """These settings, if LangGraph has such."""
    if unknown := sorted((ttl or {}).keys() - TTLConfig.__annotations__.keys()):
        raise InvalidRequest(f"ttl has {unknown}, and LangGraph knows {sorted(TTLConfig.__annotations__)}")
    return ttl


def is_item(stored: Any) -> bool:
    """Whether a store has written this."""
    if not isinstance(stored, dict) or not isinstance(stored.get("value"), dict):
        return False
    index = stored.get("index")
    has_paths = index is None or index is False or (isinstance(index, list) and all(isinstance(x, str) for x in index))
    has_vectors = is_vectors(stored.get("vectors", []))
    return has_paths and has_vectors and all(isinstance(stored.get(name), str) for name in ("created", "updated"))


def stored_item(op: PutOp, held: Entry | None, vectors: Sequence[bytes]) -> dict[str, Any]:
    """The record that is written for an item; it was made when the one that it replaces was made."""
    now = datetime.now(UTC).isoformat()
    created = held.value["created"] if held is not None and is_item(held.value) else now
    index = op.index if op.index is None or op.index is False else [*op.index]
    stored = {"value": op.value, "created": created, "updated": now, "index": index}
    return {**stored, "vectors": [*vectors]} if vectors else stored


def is_stale(entry: Entry) -> bool:
    """Whether the time to live of an entry that is read should begin anew."""
    if entry.ttl is None or entry.time is None:
        return False
    return (datetime.now(UTC) - entry.time).total_seconds() > entry.ttl * REFRESH_AFTER


# -- search -----------------------------------------------------------------------------------------------------


def matches(value: Any, wanted: Any) -> bool:
    """Whether a value is as a filter says: equal, or compared by operators such as ``{"$gt": 3}``."""
    if isinstance(wanted, dict):
        if any(name.startswith("$") for name in wanted):
            return all(_compare(value, operator, operand) for operator, operand in wanted.items())
        return isinstance(value, dict) and all(matches(value.get(name), field) for name, field in wanted.items())
    if isinstance(wanted, list | tuple):
        is_as_long = isinstance(value, list | tuple) and len(value) == len(wanted)
        return is_as_long and all(map(matches, value, wanted))
    return bool(value == wanted)


def _compare(value: Any, operator: str, operand: Any) -> bool:
    if operator == "$eq":
        return bool(value == operand)
    if operator == "$ne":
        return bool(value != operand)
    if operator not in ("$gt", "$gte", "$lt", "$lte"):
        message = f"a filter has the operator {operator!r}, and not $eq, $ne, $gt, $gte, $lt or $lte"
        raise ValueError(message)
    try:
        left, right = float(value), float(operand)
    except (TypeError, ValueError) as error:
        message = f"a filter asks for {operator} {operand!r:.80} where an item has {value!r:.80}: both must be numbers"
        raise type(error)(message) from None
    return {"$gt": left > right, "$gte": left >= right, "$lt": left < right, "$lte": left <= right}[operator]


def chosen(
    op: SearchOp, found: list[tuple[SearchItem, Mapping[str, Any]]], asked: bytes | None = None
) -> list[SearchItem]:
    """The items that a search gives: those that fit the query first, then the others; the newest first in each.

    They fit by their words, or, if the query's vector is given as ``asked``, by what they mean.
    """
    order = sorted(found, key=lambda pair: (pair[1]["updated"], pair[0].namespace, pair[0].key), reverse=True)
    if op.query and asked is None:
        _score(op.query, order)
    elif asked is not None:
        numbers = unpacked(asked)
        for item, stored in order:
            item.score = likeness(stored, numbers)
    order.sort(key=lambda pair: (pair[0].score is None, -(pair[0].score or 0.0)))
    return [item for item, _ in order[op.offset : op.offset + op.limit]]


def _score(query: str, found: Iterable[tuple[SearchItem, Mapping[str, Any]]]) -> None:
    """How much of the query each item has, 0 to 1. A word counts the more the fewer items have it; one that none has
    does not count.
    """
    wanted = content_words(query)
    words = [(item, content_words(_text(stored)) & wanted) for item, stored in found]
    counts = Counter(word for _, held in words for word in held)
    weights = {word: log(1 + len(words) / count) for word, count in counts.items()}
    total = sum(weights.values())
    for item, held in words:
        if held:
            item.score = sum(weights[word] for word in held) / total


def _text(stored: Mapping[str, Any]) -> str:
    """The text of an item that is searched: all of it, or the fields that its author has named."""
    index = stored.get("index")
    if index is False:
        return ""
    return "\n".join(text for path in index or ["$"] for text in get_text_at_path(stored["value"], path))


# -- namespaces -------------------------------------------------------------------------------------------------


def namespaces(op: ListNamespacesOp, found: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The namespaces that are asked for, sorted."""
    wanted = {each for each in found if all(_is_match(condition, each) for condition in op.match_conditions or ())}
    cut = {each[: op.max_depth] for each in wanted}
    return sorted(cut)[op.offset : op.offset + op.limit]


def _is_match(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", name) for wanted, name in zip(path, part, strict=True))
