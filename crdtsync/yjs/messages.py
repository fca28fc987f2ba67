"""The y-websocket protocol: bytes in, values out.

A message is a number for its type and what follows; numbers are lib0's: seven bits a byte, the lowest first, the high
bit says that more follow. See PROTOCOL.md of github.com/yjs/y-protocols.
"""

from __future__ import annotations

from collections.abc import Iterable

from crdtsync.errors import InvalidEncoding
from crdtsync.named_tuple import NamedTuple

_SYNC, _AWARENESS, _AUTH, _ASK_AWARENESS = range(4)
_STEP_1, _STEP_2, _UPDATE = range(3)
_DENIED = 0

_UINT_BYTES_MAX = 8  # of 53 bits, which is what JavaScript counts with
CARETS_MAX = 1_000
"""That one message tells of."""

NO_CHANGE = b"\0\0"
"""The Yjs update with neither insertions nor deletions."""


class Lacks(NamedTuple):
    """Sync step 1: what its sender holds, as a Yjs state vector. The answer is what it lacks."""

    state: bytes


class Edit(NamedTuple):
    """Sync step 2, or an update: a Yjs update."""

    update: bytes


class Caret(NamedTuple):
    """One replica's word of itself: JSON, mostly a name and a position; ``null`` when it has gone."""

    client: int
    clock: int
    state: bytes

    @property
    def has_gone(self) -> bool:
        """Whether it says so."""
        return self.state == b"null"


class Awareness(NamedTuple):
    """Some replicas' word of themselves."""

    carets: list[Caret]


class AskAwareness(NamedTuple):
    """A wish for all that replicas tell of themselves."""


Message = Lacks | Edit | Awareness | AskAwareness


def decoded(data: bytes) -> Message | None:
    """An editor's message; None for a type of message that means nothing here.

    :raises InvalidEncoding: it is not of this protocol.
    """
    kind, at = _uint(data, 0)
    if kind == _SYNC:
        step, at = _uint(data, at)
        payload, at = _buffer(data, at)
        if step > _UPDATE:
            raise InvalidEncoding(f"sync message {step} is none of the y-websocket protocol")
        return Lacks(payload) if step == _STEP_1 else Edit(payload)
    if kind == _AWARENESS:
        return Awareness(_carets(_buffer(data, at)[0]))
    return AskAwareness() if kind == _ASK_AWARENESS else None


def asking(state: bytes) -> bytes:
    """Sync step 1, from one that holds ``state``."""
    return bytes([_SYNC, _STEP_1]) + _written(state)


def answering(update: bytes) -> bytes:
    """Sync step 2: what the other one lacked."""
    return bytes([_SYNC, _STEP_2]) + _written(update)


def editing(update: bytes) -> bytes:
    """An update."""
    return bytes([_SYNC, _UPDATE]) + _written(update)


def showing(carets: Iterable[Caret]) -> bytes:
    """A message of what replicas tell of themselves."""
    parts = [_number(client) + _number(clock) + _written(state) for client, clock, state in carets]
    return bytes([_AWARENESS]) + _written(_number(len(parts)) + b"".join(parts))


def denying(reason: str) -> bytes:
    """That the editor may not do what it did."""
    return bytes([_AUTH, _DENIED]) + _written(reason.encode())


def clients(state: bytes) -> set[int]:
    """The replicas whose edits a Yjs state vector tells of.

    :raises InvalidEncoding: it is none.
    """
    count, at = _uint(state, 0)
    found = set()
    for _ in range(count):
        client, at = _uint(state, at)
        clock, at = _uint(state, at)
        if clock:
            found.add(client)
    return found


def _carets(data: bytes) -> list[Caret]:
    count, at = _uint(data, 0)
    if count > CARETS_MAX:
        raise InvalidEncoding(f"awareness of {count:,} replicas; at most {CARETS_MAX:,}")
    found = []
    for _ in range(count):
        client, at = _uint(data, at)
        clock, at = _uint(data, at)
        state, at = _buffer(data, at)
        found.append(Caret(client, clock, state))
    return found


def _uint(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for place, byte in enumerate(data[at : at + _UINT_BYTES_MAX]):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, at + place + 1
    raise InvalidEncoding(f"no number at byte {at} of a message of {len(data):,}")


def _buffer(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = _uint(data, at)
    if length > len(data) - at:
        raise InvalidEncoding(f"{length:,} bytes at byte {at} of a message of {len(data):,}")
    return data[at : at + length], at + length


def _number(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _written(data: bytes) -> bytes:
    return _number(len(data)) + data
