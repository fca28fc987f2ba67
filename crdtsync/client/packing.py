"""One msgpack packer for all that this process packs: a new one for each message would take longer than the packing."""

from __future__ import annotations

from msgpack import Packer

_KEPT_BYTES_MAX = 256 * 1024

_packer = Packer()


def packb(value: object) -> bytes:
    """``value`` as msgpack; raises what :class:`msgpack.Packer` does."""
    global _packer  # noqa: PLW0603  # a large message leaves a large buffer behind, which is not kept
    packed: bytes = _packer.pack(value)
    if len(packed) > _KEPT_BYTES_MAX:
        _packer = Packer()
    return packed
