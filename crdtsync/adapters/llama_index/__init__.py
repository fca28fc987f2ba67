"""LlamaIndex: its key-value store and its stores of chat messages on the shared state.

A conversation is a log with an element for each message, so what two hosts add at once is all kept. A value of the
key-value store is a key; stores of documents and indexes stand on it.

- ``kv_store``: the key-value store
- ``chat_store``: the stores of messages, as LlamaIndex asks for them
- ``messages``: what they do

May import: the public client, ``crdtsync.errors`` and ``llama_index.core``. It is an extra:
``pip install 'crdtsync[llama-index]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.lazy import lazy

if TYPE_CHECKING:
    from crdtsync.adapters.llama_index.chat_store import CrdtChatStore as CrdtChatStore
    from crdtsync.adapters.llama_index.chat_store import CrdtMemoryStore as CrdtMemoryStore
    from crdtsync.adapters.llama_index.kv_store import CrdtKVStore as CrdtKVStore

__getattr__ = lazy(
    globals(),
    {
        "chat_store": ("CrdtChatStore", "CrdtMemoryStore"),
        "kv_store": ("CrdtKVStore",),
    },
)
