"""Values that snapshots took away with nobody to confirm it: kept for a week, so that they can be brought back.

An example. Host-b was behind and took the state of host-a, in which 300 keys were missing. No other node was there to
ask, so host-b merged it: in a cluster of two it would otherwise wait for good. If host-a was right, these values are
dead. If its disk was faulty, or somebody hostile ran it, they have to come back: so host-b pins the place in the log
at which they died. History does not drop what died there or later, while it has no more than twice its cap
(:data:`crdtsync.core.background.trimming.PINNED_CAPS`), and ``bring_back`` writes it anew, from one key to the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.core.storage.rows import DeadPlace, taken_away_name
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import pack, unpack

if TYPE_CHECKING:
    from crdtsync.core.space import SpaceState
    from crdtsync.core.storage.write_batch import Ledger

PIN_MS = 7 * 24 * 3600 * 1000
"""How long it is kept."""
PINS_MAX = 8
"""Pins of one space; the oldest goes."""


class Pin(NamedTuple):
    """The values that died at ``position``, until when they are kept, and after which place they are yet to be brought
    back.
    """

    position: int
    until_ms: int
    place: DeadPlace


class Pins:
    """The pins of one replica, the oldest first."""

    __slots__ = ("_ledger", "_pins", "_space")

    def __init__(self, space: SpaceState, ledger: Ledger) -> None:
        self._space = space
        self._ledger = ledger
        self._pins: dict[int, Pin] = {}
        for packed in space.storage.metas(taken_away_name(space.id, None)):
            position, until_ms, *place = unpack(packed)
            self._pins[position] = Pin(position, until_ms, DeadPlace(*place))

    def add(self, position: int, now_ms: int) -> None:
        """Note that a snapshot took away the values that died at this place of the log."""
        self._put(Pin(position, now_ms + PIN_MS, DeadPlace("", b"", 0)))
        for oldest in sorted(self._pins)[:-PINS_MAX]:
            self.let_go(oldest)

    def advance(self, pin: Pin, place: DeadPlace) -> None:
        """It has been brought back up to this place."""
        self._put(pin._replace(place=place))

    def let_go(self, position: int) -> None:
        """It is kept no longer than the rest of history."""
        del self._pins[position]
        self._ledger.batch.metas.append((taken_away_name(self._space.id, position), None))

    def let_old_ones_go(self, now_ms: int) -> None:
        """Those whose time is over."""
        for pin in [pin for pin in self._pins.values() if pin.until_ms <= now_ms]:
            self.let_go(pin.position)

    def oldest(self) -> Pin | None:
        """The pin of the values that were taken away first."""
        return self._pins[min(self._pins)] if self._pins else None

    def before(self) -> list[int]:
        """The places of the log after which history is to be kept."""
        return [position - 1 for position in self._pins]

    def _put(self, pin: Pin) -> None:
        self._pins[pin.position] = pin
        packed = pack([pin.position, pin.until_ms, *pin.place])
        self._ledger.batch.metas.append((taken_away_name(self._space.id, pin.position), packed))
