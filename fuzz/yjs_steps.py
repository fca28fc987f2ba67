"""Yjs's search for an item's place, with a count of the items that it looks at: what time is spent on.

The algorithm is that of Nicolaescu et al., "Near Real-Time Peer-to-Peer Shared Editing on Extensible Data Types"
(2016), as Yjs and yrs have it. Items are of one character each here, so none is ever cut in two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import NamedTuple

from crdtsync.wire.yjs.competition import Placed, code
from crdtsync.wire.yjs.encoding import STRING, Id
from crdtsync.wire.yjs.lib0 import written_text
from crdtsync.wire.yjs.rewriting import NewStruct, written_item, written_update

ROOT = "text"


class Item(NamedTuple):
    """One character, and the neighbours that it claims."""

    id: Id
    left: Id | None
    right: Id | None

    def placed(self) -> Placed:
        """As the bound is worked out from it."""
        left = ROOT if self.left is None else code(self.left)
        first = code(self.id)
        return Placed(first, first + 1, left, None if self.right is None else code(self.right))


def update_of(items: Iterable[Item]) -> bytes:
    """The Yjs update that inserts them, those of each client in the order of their clocks."""
    return written_update(
        NewStruct(*item.id, written_item(STRING, item.left, item.right, ROOT, written_text("a"))) for item in items
    )


def integrate(items: Sequence[Item]) -> tuple[list[Id], int]:
    """The items as they stand in the end, and how many were looked at."""
    order: list[Id] = []
    held: dict[Id, Item] = {}
    steps = 0
    for item in items:
        at = order.index(item.left) + 1 if item.left is not None else 0
        place = at
        before: set[Id] = set()
        conflicting: set[Id] = set()
        while at < len(order) and order[at] != item.right:
            other = held[order[at]]
            steps += 1
            before.add(other.id)
            conflicting.add(other.id)
            if other.left == item.left:
                if other.id[0] < item.id[0]:
                    place = at + 1
                    conflicting.clear()
                elif other.right == item.right:
                    break
            elif other.left is not None and other.left in before:
                if other.left not in conflicting:
                    place = at + 1
                    conflicting.clear()
            else:
                break
            at += 1
        order.insert(place, item.id)
        held[item.id] = item
    return order, steps


def in_some_order(items: Sequence[Item], rng: Random) -> list[Item]:
    """Each after its neighbours and after its client's items before it, else as it happens."""
    waiting = {item.id: item for item in items}
    done: set[Id] = set()
    found: list[Item] = []
    clients = sorted({item.id[0] for item in items})
    clocks = dict.fromkeys(clients, 0)
    likely = clients[:]
    rng.shuffle(likely)
    while waiting:
        rest = [client for client in likely if (client, clocks[client]) in waiting]
        ready = [c for c in rest if all(n is None or n in done for n in waiting[c, clocks[c]][1:])]
        client = ready[0] if rng.random() < 0.7 else rng.choice(ready)
        item = waiting.pop((client, clocks[client]))
        clocks[client] += 1
        done.add(item.id)
        found.append(item)
    return found


def forged(rng: Random, count: int) -> list[Item]:
    """Items as somebody may claim them who wants work to be done: any neighbours, few clients or many."""
    clients = [rng.randrange(1, 50) for _ in range(rng.choice((1, 2, 3, 10)))]
    clocks = dict.fromkeys(clients, 0)
    items: list[Item] = []
    order: list[Id] = []
    few = rng.choice((2, 5, 10**6))
    for _ in range(count):
        client = rng.choice(clients)
        own = (client, clocks[client])
        clocks[client] += 1
        if rng.random() < rng.choice((0.1, 0.5, 0.9)):  # side by side
            at = rng.randrange(len(order) + 1)
            left, right = order[at - 1] if at else None, order[at] if at < len(order) else None
        else:
            left = rng.choice([None, *order[:few]])
            right = rng.choice([None, *(name for name in order[-few:] if name != left)])
        item = Item(own, left, right)
        items.append(item)
        order = integrate(items)[0]
    return items
