"""Pydantic AI: its conversations on the shared state.

A message is a key of its own that names the one before it, so it is written once. A conversation is a key that names
its newest message. Two hosts that save one conversation while they are cut off write two values of that key: the newer
one is what is loaded, and the other one is a branch of it.

- ``conversations``: the store

May import: the public client, ``crdtsync.errors``, ``pydantic``, ``pydantic_ai.conversation_store``,
``pydantic_ai.exceptions`` and ``pydantic_ai.messages``. It is an extra: ``pip install 'crdtsync[pydantic-ai]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.lazy import lazy

if TYPE_CHECKING:
    from crdtsync.adapters.pydantic_ai.conversations import CrdtConversationStore as CrdtConversationStore

__getattr__ = lazy(globals(), {"conversations": ("CrdtConversationStore",)})
