"""One msgpack packer for all that this process packs: a new one for each message would take longer than the packing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgpack import Packer

if TYPE_CHECKING:
    from collections.abc import Callable

_KEPT_BYTES_MAX = 256 * 1024

_packer = Packer()


def packb(value: object) -> bytes:
    """``value`` as msgpack; raises what :class:`msgpack.Packer` does."""
    global _packer  # noqa: PLW0603  # a large message leaves a large buffer behind, which is not kept
    packed: bytes = _packer.pack(value)
    if len(packed) > _KEPT_BYTES_MAX:
        _packer = Packer()
    return packed


def succeeds(function: Callable[..., object], *arguments: object) -> bool:
    """Whether it can be done after all. If so, the exception that ended it was not its own: it came from outside, out
    of a signal handler of the caller's, who is to get it as it is.
    """
    try:
        function(*arguments)
    except Exception:  # noqa: BLE001  # whatever it is, it is not to be done
        return False
    return True
