"""Looking for garbage among what is new, and not again and again among what stays: the live state.

Each time that the living objects have grown by a quarter, the interpreter looks through all of them. With a million
keys that takes a second in which nobody is served, and up to a fifth of a write's processor time. Objects that such a
look has found alive are therefore set aside (:func:`gc.freeze`). An object that was set aside still goes when nothing
refers to it any more; only if it is in a cycle and dies later, it stays. A closed connection of an agent leaves no such
objects, one of a peer some ten small ones (measured): so once a day all is looked through after all.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import monotonic
from typing import Any

THAW_INTERVAL_S = 24 * 3600.0
"""How long garbage may stay that was alive when all was looked through: some small objects of each
closed connection to a peer."""
YOUNG_OBJECTS_MAX = 10_000
"""Surplus of new objects over old ones that went, at which the interpreter looks at the new ones. Writes that wait in
the journal hold some 1,500 objects: with Python's own 700 each of them would be looked at, count as something that
stays, and set off more looks. A look at 10,000 takes a millisecond or two.
"""
LOOKS_MAX = 1
"""With one more look at the new objects, those that outlived others are looked at too, and with one more of these all
that is not set aside: 70,000 objects at most. Each is looked at three times, whatever stands here; but with 5 and 10
one look was at 600,000, and took 75 ms.
"""
_FULL = 2


def begin(clock: Callable[[], float] = monotonic) -> Callable[[str, dict[str, int]], Any]:
    """Set aside what there is now, and look for garbage from now on. Returns what is called before and after each look,
    which :data:`gc.callbacks` holds.
    """
    thaw_due_s = clock() + THAW_INTERVAL_S

    def looked(phase: str, info: dict[str, int]) -> None:
        nonlocal thaw_due_s
        if info["generation"] != _FULL:
            return
        if phase == "stop":
            gc.freeze()
        elif clock() >= thaw_due_s:
            thaw_due_s = clock() + THAW_INTERVAL_S
            gc.unfreeze()

    gc.set_threshold(YOUNG_OBJECTS_MAX, LOOKS_MAX, LOOKS_MAX)
    gc.callbacks.append(looked)
    gc.freeze()
    gc.enable()
    return looked
