"""Looking for garbage among what is new, and not again and again among what stays: the live state.

The interpreter looks through everything each time that what lives has grown by a quarter: of a million keys for a
second in which nobody is served, and up to a fifth of a write's processor time. What has been found to be alive by such
a look is therefore set aside (:func:`gc.freeze`). It goes as before when nothing refers to it any more; only of what
forms a cycle and dies later something would stay. Of a closed connection of an agent nothing does, of a peer's some ten
small objects (measured): so once a day all is looked through after all.
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
"""So many more new objects than old ones that went set off a look at the new ones. What the writes hold that wait in
the journal is some 1,500: with Python's own 700 each of them would be looked at, count as something that stays, and set
off looks at more. A look at 10,000 takes a millisecond or two.
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
