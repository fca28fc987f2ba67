"""LlamaIndex's key-value store, on which its stores of documents and indexes stand.

llama-index/data/COLLECTION/KEY    the value
"""

from __future__ import annotations

import json
from asyncio import to_thread
from typing import Any

from llama_index.core.storage.kvstore.types import DEFAULT_BATCH_SIZE, DEFAULT_COLLECTION, BaseKVStore

from crdtsync.adapters.attached import Attached
from crdtsync.adapters.readable import newest_readable, readable
from crdtsync.adapters.threads import in_thread
from crdtsync.errors import InvalidValue


class CrdtKVStore(Attached, BaseKVStore):
    """Keeps values on this host's disk and on every other host.

    Arguments are those of :class:`~crdtsync.adapters.attached.Attached`. A value is a dict of
    what JSON can say, but neither nan nor an integer over 64 bits, and has at most 1 MiB. Tuples come back as lists,
    and keys of dicts as texts.

    Of values that two hosts put at once all hosts read the newer one, and the next ``put`` settles it. It may be used
    from any event loop and thread: every call of a coroutine waits in a thread of its own.
    """

    PREFIX = "llama-index"

    def put(self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION) -> None:
        """Put a value."""
        self.put_all([(key, val)], collection)

    aput = in_thread(put)

    def put_all(
        self,
        kv_pairs: list[tuple[str, dict[str, Any]]],
        collection: str = DEFAULT_COLLECTION,
        batch_size: int = DEFAULT_BATCH_SIZE,
    ) -> None:
        """Put values, in as few changes as they fit into, whatever ``batch_size`` says.

        :raises InvalidValue: one is no dict, or holds what cannot be stored; nothing is put.
        """
        pairs = [
            (self._keys.key("data", collection, key), self._redacted(_plain(key, value))) for key, value in kv_pairs
        ]
        for (key, value), written in zip(pairs, self._write_all("set", pairs, seen=None), strict=True):
            if written.siblings and (held := self._client.entry(key)) is not None:  # several hosts had put it at once
                self._client.set(key, value, seen=held.version, w=self._w)

    aput_all = in_thread(put_all)

    def get(self, key: str, collection: str = DEFAULT_COLLECTION) -> dict[str, Any] | None:
        """A value, the newest that can be read; None if there is none.

        :raises ValueError: something is there, and nothing that can be read.
        """
        entry = self._client.entry(self._keys.key("data", collection, key))
        return None if entry is None else newest_readable(self._client, entry, _value)

    aget = in_thread(get, to_thread)

    def get_all(self, collection: str = DEFAULT_COLLECTION) -> dict[str, dict[str, Any]]:
        """All values of a collection that can be read, by their keys."""
        found = self._client.items(self._keys.below("data", collection))
        values = {key: value for key, stored in found for _, value in readable(key, [stored], _value)}
        return {self._keys.names(key)[-1]: value for key, value in values.items()}

    aget_all = in_thread(get_all, to_thread)

    def delete(self, key: str, collection: str = DEFAULT_COLLECTION) -> bool:
        """Delete a value; whether there was one."""
        return self._client.delete(self._keys.key("data", collection, key), seen=None, w=self._w)

    adelete = in_thread(delete)


def _plain(key: str, value: Any) -> Any:
    """A value as it is read back: of enums JSON makes texts."""
    if not isinstance(value, dict):
        raise InvalidValue(f"the value of {key!r} is no dict but {type(value).__qualname__}", path="$")
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(f"the value of {key!r} cannot be stored: {error}", path="$") from error


def _value(stored: Any) -> dict[str, Any]:
    if not isinstance(stored, dict):
        message = f"it is no dict but {type(stored).__name__}"
        raise ValueError(message)  # noqa: TRY004  # as what else cannot be read
    return stored
