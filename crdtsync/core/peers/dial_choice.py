"""Whom a node dials: every other one in a small cluster, and a few, chosen by a rule, in a large one.

The nodes that can be reached stand in a ring, in order of their ids, which are hashes. Each dials those 1, 3, 9, 27…
places further on, and is dialled by those as far back. So every node has about ``2 * log3(n)`` connections. With a
relay tree over them, that is also how many hops a change may need; and the ring alone connects all. If a node does not
answer, the dialling node also dials the next one after it until it does. A node that cannot be reached itself (behind
NAT) dials as from its place in the ring.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable

FULL_MESH_NODES_MAX = 16
"""Up to so many nodes are all connected to each other, unless the settings say otherwise."""
STEP_FACTOR = 3


def steps(count: int) -> list[int]:
    """How far on in a ring of ``count`` nodes those stand that each one dials."""
    found, step = [], 1
    while step <= 2 * count // 3:
        found.append(step)
        step *= STEP_FACTOR
    return found


def chosen(
    me: str, nodes: Collection[str], is_usable: Callable[[str], bool], full_max: int = FULL_MESH_NODES_MAX
) -> set[str]:
    """Whom ``me`` dials of ``nodes``, which can be reached, itself among them or not.

    ``is_usable``: False of those that have been dialled for a while, and do not answer; for each the next one that is
    usable is chosen too. ``full_max``: up to so many nodes, all are chosen.
    """
    ring = sorted({*nodes} - {me})
    if len(ring) < full_max:
        return {*ring}
    start = bisect_left(ring, me)
    found: set[str] = set()
    for step in steps(len(ring) + 1):
        for further in range(len(ring)):
            node = ring[(start + step - 1 + further) % len(ring)]
            is_taken = node in found and further > 0
            if is_taken:
                continue
            found.add(node)
            if is_usable(node):
                break
    return found


def chosen_of_groups(
    me: str,
    groups: Iterable[Collection[str]],
    is_usable: Callable[[str], bool],
    full_max: int = FULL_MESH_NODES_MAX,
) -> set[str]:
    """The same for several sets of nodes, such as those that hold a space: each must be connected in itself."""
    found: set[str] = set()
    for group in groups:
        found |= chosen(me, group, is_usable, full_max)
    return found
