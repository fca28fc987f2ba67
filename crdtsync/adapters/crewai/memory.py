"""The records of CrewAI's memory."""

from __future__ import annotations

import logging
import os
from asyncio import to_thread
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
from crewai.memory.types import MemoryRecord, ScopeInfo

from crdtsync.adapters.attached import Attached
from crdtsync.adapters.readable import newest_readable
from crdtsync.adapters.redaction import Rule
from crdtsync.adapters.threads import in_thread

if TYPE_CHECKING:
    from crdtsync.client import Client

log = logging.getLogger(__name__)

RECORDS = "memory"


class CrdtMemoryStorage(Attached):
    """Keeps the records of a memory on this host's disk and on every other host.

    Arguments are those of :class:`~crdtsync.adapters.attached.Attached`. A record is the key
    ``PREFIX/memory/ID``, of at most 1 MiB with its vector: that is the one that CrewAI has made of its texts, whatever
    ``redact`` takes out of them.

    A search looks at every record, with scores as LanceDB's. All records are held in memory (about 13 kB each with
    vectors of 3,072 numbers), and each call first fetches what has changed. That somebody has read a record is not
    written down.
    """

    def __init__(
        self,
        client: Client | str | os.PathLike[str] | None = None,
        *,
        prefix: str = "crewai",
        w: int | str | None = None,
        redact: Rule | None = None,
    ) -> None:
        super().__init__(client, prefix=prefix, w=w, redact=redact)
        self._lock = Lock()
        self._token: str | None = None
        self._held: dict[str, MemoryRecord] = {}
        self._length: int | None = None  # of vectors

    # -- writes -------------------------------------------------------------------------------------------------

    def save(self, records: list[MemoryRecord]) -> None:
        """Store records, all or none where they fit into one change.

        :raises EmbeddingDimensionMismatchError: a vector is not as long as those that there are.
        """
        self._check(record.embedding for record in records)
        self._write_all(
            "set", [(self._keys.key(RECORDS, record.id), self._redacted(_stored(record))) for record in records]
        )

    def update(self, record: MemoryRecord) -> None:
        """Store a record in place of the one with its id."""
        self.save([record])

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Remove the records to which all of this applies; how many."""
        chosen = _chosen(self._records(), scope_prefix, categories, metadata_filter)
        doomed = [
            (self._keys.key(RECORDS, record.id),)
            for record in chosen
            if (record_ids is None or record.id in record_ids)
            and (older_than is None or record.created_at < older_than)
        ]
        self._write_all("delete", doomed)
        return len(doomed)

    def reset(self, scope_prefix: str | None = None) -> None:
        """Remove the records of a scope, or all."""
        self.delete(scope_prefix)

    # -- reads --------------------------------------------------------------------------------------------------

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """The records whose vectors are nearest, the nearest first, each with 1 / (1 + distance²).

        :raises EmbeddingDimensionMismatchError: the query is not as long as the vectors that there are.
        """
        query = np.asarray(query_embedding, dtype=np.float32)
        found = _chosen(self._records(), scope_prefix, categories, metadata_filter)
        self._check([query_embedding])
        records = [each for each in found if each.embedding is None or len(each.embedding) == len(query)]
        if not records:
            return []
        none = np.zeros_like(query)
        vectors = np.stack([none if record.embedding is None else record.embedding for record in records])
        scores = 1.0 / (1.0 + ((vectors - query) ** 2).sum(axis=1))
        best = np.argsort(-scores, kind="stable")[:limit]
        return [(_handed_over(records[at]), float(scores[at])) for at in best if scores[at] >= min_score]

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """The record with an id, the newest that can be read; None if there is none.

        :raises ValueError: something is there, and nothing that can be read.
        """
        entry = self._client.entry(self._keys.key(RECORDS, record_id))
        return None if entry is None else _handed_over(newest_readable(self._client, entry, _loaded))

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """The records of a scope, newest first."""
        found = sorted(_chosen(self._records(), scope_prefix), key=lambda record: record.created_at, reverse=True)
        return [_handed_over(record) for record in found[offset : offset + max(limit, 0)] if offset >= 0]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """The content of a scope and of those below it."""
        records = list(_chosen(self._records(), scope))
        created = [record.created_at for record in records]
        return ScopeInfo(
            path=_path(scope),
            record_count=len(records),
            categories=sorted({name for record in records for name in record.categories}),
            oldest_record=min(created, default=None),
            newest_record=max(created, default=None),
            child_scopes=_children(records, scope),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        """The scopes right below one."""
        return _children(_chosen(self._records(), parent), parent)

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """The categories in a scope, and of how many records."""
        return dict(Counter(name for record in _chosen(self._records(), scope_prefix) for name in record.categories))

    def count(self, scope_prefix: str | None = None) -> int:
        """How many records there are in a scope."""
        return sum(1 for _ in _chosen(self._records(), scope_prefix))

    asave = in_thread(save)
    asearch = in_thread(search, to_thread)
    adelete = in_thread(delete)

    # -- what is held -------------------------------------------------------------------------------------------

    def _records(self) -> list[MemoryRecord]:
        """All records as this host has them now."""
        with self._lock:
            changes = self._client.changes(self._keys.below(RECORDS), after=self._token)
            if changes.is_all:
                self._held = {}
            for key in changes.gone:
                self._held.pop(key, None)
            for key, stored in self._client.get_many(changes.changed).items():
                try:
                    self._held[key] = _loaded(stored)
                except (KeyError, TypeError, ValueError) as error:
                    self._held.pop(key, None)
                    log.warning("%s is no record of a memory, and is left out: %s", key, error)
            self._token = changes.token
            records = [*self._held.values()]
            lengths = Counter(len(each.embedding) for each in records if each.embedding is not None)
            self._length = max(lengths, key=lambda length: lengths[length], default=None)
            return records

    def _check(self, vectors: Iterable[list[float] | None]) -> None:
        if self._length is None:
            self._records()
        length = self._length
        for vector in vectors:
            if vector:
                length = length or len(vector)
                if len(vector) != length:
                    raise EmbeddingDimensionMismatchError(length, len(vector))


def _stored(record: MemoryRecord) -> dict[str, Any]:
    vector = np.asarray(record.embedding or [], dtype="<f4")
    return {"record": record.model_dump(mode="json"), "vector": vector.tobytes()}


def _loaded(stored: Any) -> MemoryRecord:
    """A record whose vector is an array, which takes a ninth of the memory of a list."""
    record = MemoryRecord.model_validate(stored["record"])
    if record.created_at.tzinfo is not None:  # CrewAI's own say no time zone, and are UTC
        record.created_at = record.created_at.astimezone(UTC).replace(tzinfo=None)
    vector = np.frombuffer(stored["vector"], dtype="<f4")
    record.embedding = vector if len(vector) else None
    return record


def _handed_over(record: MemoryRecord) -> MemoryRecord:
    """A copy that its user may change."""
    vector = None if record.embedding is None else [float(number) for number in record.embedding]
    return record.model_copy(update={"embedding": vector}, deep=True)


def _chosen(
    records: Iterable[MemoryRecord],
    scope: str | None,
    categories: list[str] | None = None,
    metadata: dict[str, Any] | None = None,
) -> Iterator[MemoryRecord]:
    below = _path(scope)
    for record in records:
        is_there = below == "/" or f"{record.scope.rstrip('/')}/".startswith(f"{below}/")
        is_such = not categories or any(name in record.categories for name in categories)
        has_said = all(record.metadata.get(name) == value for name, value in (metadata or {}).items())
        if is_there and is_such and has_said:
            yield record


def _path(scope: str | None) -> str:
    """A scope as it begins in records: with a slash, which people leave out."""
    return "/" + (scope or "").strip("/")


def _children(records: Iterable[MemoryRecord], scope: str) -> list[str]:
    below = f"{_path(scope).rstrip('/')}/"
    names = {record.scope[len(below) :].split("/")[0] for record in records if record.scope.startswith(below)}
    return sorted(below + name for name in names if name)
