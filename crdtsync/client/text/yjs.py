"""The Yjs library, for the texts that a client holds: an extra, which not every agent needs."""

from __future__ import annotations

try:
    from pycrdt import Array, Doc, Map, Text, TransactionEvent, get_state, get_update, merge_updates
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "to edit a text, or open an editor, this process needs pycrdt: pip install 'crdtsync[text]' (without it a text "
        "can be read with get)",
        name="pycrdt",
    ) from None

__all__ = ["Array", "Doc", "Map", "Text", "TransactionEvent", "get_state", "get_update", "merge_updates"]
