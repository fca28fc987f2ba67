"""The meaning of the texts of items, as vectors: by the ``index`` that LangGraph's stores take. No network.

A vector has the length 1, so the cosine of two is their product. It is stored as floats of 32 bits, with its item.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite, sqrt
from operator import mul
from struct import pack, unpack
from typing import TYPE_CHECKING, Any

from langgraph.store.base import PutOp, SearchOp, ensure_embeddings, get_text_at_path

from crdtsync.errors import InvalidRequest

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langgraph.store.base import IndexConfig

FLOAT_BYTES = 4


class Vectors:
    """Which texts of operations must be embedded, and what came of it."""

    def __init__(self, index: IndexConfig) -> None:
        if "embed" not in index:
            raise InvalidRequest(
                "index does not say what embeds a text: give it 'embed', as LangGraph's stores take it"
            )
        self.embeddings: Embeddings = ensure_embeddings(index["embed"])
        self._dims = index.get("dims")
        self._fields = index.get("fields") or ["$"]

    def texts(self, op: PutOp) -> list[str]:
        """The texts of an item that a search looks at, each with a vector of its own."""
        if op.index is False or op.value is None:
            return []
        return [text for path in op.index or self._fields for text in get_text_at_path(op.value, path)]

    def packed(self, vector: Sequence[float]) -> bytes:
        """A vector as it is stored.

        :raises InvalidRequest: it is not as long as ``dims`` says.
        """
        if self._dims not in (None, len(vector)):
            raise InvalidRequest(
                f"index says dims {self._dims}, and its embed makes vectors of {len(vector)}: correct one"
            )
        length = sqrt(sum(map(mul, vector, vector)))
        return pack(f"<{len(vector)}f", *(number / length if length else 0.0 for number in vector))

    def wanted(self, puts: Iterable[PutOp]) -> list[str]:
        """The texts to embed before these are written."""
        return [*dict.fromkeys(text for op in puts for text in self.texts(op))]


def queries(ops: Iterable[Any]) -> list[str]:
    """The texts to embed before these are done."""
    return [*dict.fromkeys(op.query for op in ops if isinstance(op, SearchOp) and op.query)]


def is_vectors(stored: Any) -> bool:
    """Whether a store has written this."""
    return isinstance(stored, list) and all(isinstance(x, bytes) and len(x) % FLOAT_BYTES == 0 for x in stored)


def likeness(stored: Mapping[str, Any], asked: Sequence[float]) -> float | None:
    """How much the best text of an item says what was asked, 1.0 quite; None if it has no vectors of this length."""
    vectors = [vector for vector in stored.get("vectors", ()) if len(vector) == len(asked) * FLOAT_BYTES]
    return max(filter(isfinite, (sum(map(mul, asked, unpacked(vector))) for vector in vectors)), default=None)


def unpacked(vector: bytes) -> tuple[float, ...]:
    """The numbers of a vector that was stored."""
    return unpack(f"<{len(vector) // FLOAT_BYTES}f", vector)
