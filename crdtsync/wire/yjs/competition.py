"""How many steps Yjs may take to put the items of a document in order: a bound that holds for every order in which they
may come.

An item names its neighbours. Yjs looks for its place from the left one on, item by item. It stops where the right one
stands, or where an item begins that was put there without going by that left one. An editor names two that stand side
by side, so Yjs looks at one or two. A program that names others can make it look at all, for each item anew: 2,000 such
items in a text of 50,000 took 10 s.

Items with the same left neighbour are *siblings*. They form a tree, for whoever inserts *before* a sibling names it as
the right neighbour. For example, three lines that Ann puts at the top of a text, one by one, and one of Bob's, who had
not seen them::

    old text  <─  Ann's 1st  <─  Ann's 2nd  <─  Ann's 3rd
        ^──────  Bob's

Of two siblings neither of which is before the other in that tree, the later one to come is compared with the earlier
one and with all that hangs on it, by left neighbours: its *weight*. So the sum over all such pairs of the larger weight
is a bound. It is 0 for what people write one after the other. Above, each item weighs 1, and there are three such
pairs: 3.

:class:`Competition` keeps an upper bound of that sum edit by edit; :func:`counted` counts it, in steps.

That takes 4 of the 21 µs in which a keystroke is judged and applied (2026-11-28): 0.6 to begin what it adds, 0.7 to
name its place, 1.3 to note it there, 0.4 to note it in the document, and the rest to look what was there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final

from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import new_row
from crdtsync.wire.yjs.encoding import CLOCK_MAX, GC, STEP_STRUCTS, Id, Steps, Struct, read_sections_slowly

SIBLINGS_MAX: Final = 64
"""So many are compared one by one; beyond, each with all."""

COMPARED_A_PART: Final = 40
"""So many that an item is compared with count as one part more: that takes half as long, and Yjs looks at them, too."""

LATEST_MAX: Final = 8
"""Items of each client that went on where one ended, known by name."""

CLOCK_BITS: Final = 31
_UNKNOWN: Final = -1

Left = int | Hashable
"""Where siblings stand: the code of the left neighbour's id, or what names the type that they begin."""


def code(item: Id) -> int:
    """An id as one number, which takes less memory."""
    return item[0] << CLOCK_BITS | item[1]


class Placed(NamedTuple):
    """An item: the codes of its first clock and of the one after its last, where it stands, its right neighbour."""

    first: int
    end: int
    left: Left
    right: int | None

    @staticmethod
    def of(client: int, struct: Struct, clock: int, parent: str | Id, update: bytes) -> Placed:
        """A struct of an update, from this clock of it on, which stands in ``parent``."""
        first = client << CLOCK_BITS | clock
        left: Left = parent
        if clock > struct.clock:
            left = first - 1
        elif struct.origin is not None:
            left = code(struct.origin)
        elif struct.keyed:
            left = update[struct.at + 1 : struct.body]
        right = code(struct.right) if struct.right is not None else None
        placed: Placed = new_row(Placed, (first, first + struct.end - clock, left, right))
        return placed

    @property
    def is_next(self) -> bool:
        """Whether it goes on where its client's item before it ended."""
        return self.left == self.first - 1


class _Sibling(NamedTuple):
    """``items`` is how many the document had when it came: what hangs on it has come since."""

    first: int
    right: int | None
    items: int


@dataclass(slots=True)
class Competition:
    """The competition in one document, or, with ``base``, in what an update adds to one.

    ``items`` is how many the document has at most, ``placed`` how many came, ``steps`` the bound, ``growth`` by how
    much one more item may raise it, and ``looked_at`` how many items Yjs has looked at, at most, as they came.
    Those of the update were compared with ``compared`` siblings.
    The longest string has ``longest`` characters at most, as one item ``largest``; Yjs goes through ``scanned`` of them
    to cut strings in two, from the last of the ``cut_at`` on.
    """

    base: Competition | None = None
    items: int = 0
    placed: int = 0
    steps: int = 0
    growth: int = 0
    looked_at: int = 0
    compared: int = 0
    longest: int = 0
    largest: int = 0
    scanned: int = 0
    siblings: dict[Left, tuple[_Sibling, ...]] = field(default_factory=dict)  # the last ones, where there are many
    counts: dict[Left, int] = field(default_factory=dict)  # where there are many, how many
    contested: set[Left] = field(default_factory=set)  # where not each stands before the one that came before it
    apart: set[int] = field(default_factory=set)  # items that do not go on where their client's item before them ended
    latest: dict[int, tuple[_Sibling, ...]] = field(default_factory=dict)  # by client, the last ones that do
    points: set[int] = field(default_factory=set)  # where deletions begin and end
    cut_at: list[int] = field(default_factory=list)  # in order, where what came since has cut strings in two

    def beside(self) -> Competition:
        """The competition that an update adds to this one; :meth:`advance` notes it."""
        twin = Competition(self, self.items, self.placed, self.steps, self.growth, self.looked_at, longest=self.longest)
        twin.cut_at = [*self.cut_at]
        return twin

    @property
    def added(self) -> int:
        """By how many items the update raises it, at most."""
        return self.items - (self.base.items if self.base is not None else 0)

    def place(self, item: Placed, is_followed: bool) -> None:
        """Note one item. ``is_followed``: the document holds the clock after its left neighbour."""
        first, end, left, right = item
        is_next = item.is_next
        siblings = self._of(left)
        if is_followed and not siblings and isinstance(left, int) and not self._is_apart(left + 1):
            siblings = (self._next_of(left),)
        items_before = self.items
        self.placed += 1
        if not is_next and isinstance(left, int):
            self._scan(left)
        self.longest += end - first
        self.largest = max(self.largest, end - first)
        self.items += 1 if is_next and not siblings else 2  # it may have cut another one in two
        self.steps += self.growth * (self.items - items_before)
        if siblings and (siblings[-1].first != right or self._is_contested(left)):
            self.contested.add(left)
            self._compete(item, siblings)
        here = new_row(_Sibling, (first, right, items_before))
        if siblings or not is_next:
            self.siblings[left] = (*siblings[-SIBLINGS_MAX:], here)
            if len(siblings) > SIBLINGS_MAX:
                self.counts[left] = self._count_of(left) + 1
        if is_next:
            client = first >> CLOCK_BITS
            self.latest[client] = (*self._latest_of(client)[1 - LATEST_MAX :], here)
        else:
            self.apart.add(first)

    def _scan(self, left: int) -> None:
        """Note that a string is cut in two after this clock, if it goes on there."""
        at = bisect_right(self.cut_at, left)
        before = self.cut_at[at - 1] if at else -1
        self.scanned += min(self.longest, left - before)
        if before != left:
            self.cut_at.insert(at, left)

    def note_gap(self, first: int) -> None:
        """Note clocks of which all is forgotten: nothing can stand beside them."""
        self.apart.add(first)

    def cut(self, points: Iterable[int], *, is_done: bool) -> None:
        """Note where deletions begin and end, as codes of ids. Each may cut an item in two there.

        ``is_done``: the items that came are in two already.
        """
        for point in points:
            if point in self.points or self._is_apart(point):
                continue
            if self.base is not None and point in self.base.points:
                continue
            self.points.add(point)
            if not is_done:
                self.items += 1
                self.steps += self.growth

    def advance(self, added: Competition) -> None:
        """Note all that an update has added, which was judged :meth:`beside` this."""
        self.siblings.update(added.siblings)
        self.counts.update(added.counts)
        self.contested |= added.contested
        self.apart |= added.apart
        self.latest.update(added.latest)
        self.points |= added.points
        self.items, self.placed, self.looked_at = added.items, added.placed, added.looked_at
        self.longest, self.largest, self.cut_at = added.longest, max(self.largest, added.largest), added.cut_at
        self.steps, self.growth = added.steps, added.growth

    def copy(self) -> Competition:
        """One of its own."""
        twin = Competition()
        twin.advance(self)
        return twin

    def _of(self, left: Left) -> tuple[_Sibling, ...]:
        found = self.siblings.get(left)
        if found is None and self.base is not None:
            found = self.base.siblings.get(left)
        return found or ()

    def _latest_of(self, client: int) -> tuple[_Sibling, ...]:
        found = self.latest.get(client)
        if found is None and self.base is not None:
            found = self.base.latest.get(client)
        return found or ()

    def _next_of(self, left: int) -> _Sibling:
        """The items that go on where an item of the same client ended."""
        found = [last for last in self._latest_of(left >> CLOCK_BITS) if last.first == left + 1]
        return found[0] if found else _Sibling(left + 1, _UNKNOWN, 0)

    def _count_of(self, left: Left) -> int:
        base = self.base.counts if self.base is not None else {}
        return self.counts.get(left) or base.get(left) or SIBLINGS_MAX + 1

    def _is_contested(self, left: Left) -> bool:
        return left in self.contested or (self.base is not None and left in self.base.contested)

    def _is_apart(self, first: int) -> bool:
        return first in self.apart or (self.base is not None and first in self.base.apart)

    def _compete(self, item: Placed, siblings: tuple[_Sibling, ...]) -> None:
        if len(siblings) > SIBLINGS_MAX:
            count = self._count_of(item.left)
            self.looked_at += self.items
            self.steps += self.items + count
            self.growth += 2 * count
            return
        self.compared += len(siblings)
        first, _, _, right = item
        client, after, here = first >> CLOCK_BITS, right, self.items
        looked_at = steps = growth = 0
        for other, other_right, items in reversed(siblings):  # as in _looked_at, in a third of the time
            if other == after:  # it stands before this one, and before those that this one stands before
                after = other_right
                continue
            if other >> CLOCK_BITS == client:
                if other_right == right:
                    continue
            elif other_right != right:
                growth += 2
                looked_at += here - items
                continue
            growth += 1
            if first > other:
                looked_at += here - items
            else:
                steps += 1
        self.looked_at += looked_at
        self.steps += steps + looked_at
        self.growth += growth


def _looked_at(one: int, one_right: int | None, other: int, other_right: int | None) -> tuple[bool, bool]:
    """One of two siblings: all that hangs on it may be looked at for the other's sake.

    Those of one client come in the order of their clocks. At the same place on both sides they stand in the order of
    their clients, and the search for the first one's place ends at the other.
    """
    is_one_client = one >> CLOCK_BITS == other >> CLOCK_BITS
    is_one_place = one_right == other_right
    if is_one_client and is_one_place:
        return False, False
    if is_one_client or is_one_place:
        return one < other, one > other
    return True, True


class Exact(NamedTuple):
    """The bound, by how much one more item may raise it, how many items there are, and how long the longest is."""

    steps: int
    growth: int
    items: int = 0
    longest: int = 0


def counted(state: bytes, root: str) -> Steps[Exact]:
    """Count a document of which ``state`` is the whole; what names no parent is in ``root``."""
    sections, _ = yield from read_sections_slowly(state, CLOCK_MAX)
    items = (
        Placed.of(client, struct, struct.clock, root if struct.parent is None else struct.parent, state)
        for client, structs in sections.items()
        for struct in structs
        if struct.kind != GC
    )
    return (yield from exact(items))


def exact(items: Iterable[Placed]) -> Steps[Exact]:
    """Count all items of a document."""
    held: dict[int, Placed] = {}
    groups: dict[Left, list[Placed]] = {}
    for number, item in enumerate(items):
        held[item.first] = item
        if not item.is_next:
            groups.setdefault(item.left, []).append(item)
        if number % STEP_STRUCTS == 0:
            yield
    for number, item in enumerate(held.values()):
        if item.is_next and item.left in groups:
            groups[item.left].append(item)
        if number % STEP_STRUCTS == 0:
            yield
    starts = sorted(held)
    pieces = dict(held)
    for number, (left, group) in enumerate(groups.items()):
        holder = _holder(starts, left)
        if holder is not None and isinstance(left, int) and left + 1 < held[holder].end:
            rest = Placed(left + 1, held[holder].end, left, held[holder].right)
            group.append(rest)
            pieces[rest.first] = rest
        if number % STEP_STRUCTS == 0:
            yield
    contested = [group for group in groups.values() if not _is_in_line(group)]
    yield
    weights = (yield from _weights(pieces)) if contested else {}
    steps = growth = 0
    for group in contested:
        of_group = yield from _count(group, weights)
        steps, growth = steps + of_group.steps, growth + of_group.growth
        yield
    longest = max((item.end - item.first for item in held.values()), default=0)
    return Exact(steps, growth, len(held), longest)


def _holder(starts: list[int], left: Left) -> int | None:
    """The item that holds this clock, if any does."""
    index = bisect_right(starts, left) - 1 if isinstance(left, int) else -1
    return starts[index] if index >= 0 else None


def _is_in_line(group: list[Placed]) -> bool:
    """Whether each stands before the one that came before it."""
    members = {item.first for item in group}
    rights = [item.right for item in group if item.right in members]
    return len(rights) == len(group) - 1 == len({*rights})


def _weights(pieces: dict[int, Placed]) -> Steps[dict[int, int]]:
    """How many items hang on each, itself among them."""
    starts = sorted(pieces)
    above: dict[int, int] = {}
    waiting = dict.fromkeys(pieces, 0)
    for number, (first, item) in enumerate(pieces.items()):
        holder = _holder(starts, item.left)
        if holder is not None and isinstance(item.left, int) and item.left < pieces[holder].end:
            above[first] = holder
            waiting[holder] += 1
        if number % STEP_STRUCTS == 0:
            yield
    weights = dict.fromkeys(pieces, 1)
    ready = [first for first, below in waiting.items() if not below]
    for number, first in enumerate(ready):
        parent = above.get(first)
        if parent is not None:
            weights[parent] += weights[first]
            waiting[parent] -= 1
            if not waiting[parent]:
                ready.append(parent)
        if number % STEP_STRUCTS == 0:
            yield
    return weights


def _count(group: list[Placed], weights: dict[int, int]) -> Steps[Exact]:
    """The sum of the siblings of one place."""
    after: dict[int, list[int]] = {item.first: [] for item in group}
    order: list[tuple[int, int]] = []
    for item in group:
        if item.right is not None and item.right in after:
            after[item.right].append(item.first)
        else:
            order.append((item.first, 0))
    for number, (first, depth) in enumerate(order):
        order += [(later, depth + 1) for later in after[first]]
        if number % STEP_STRUCTS == STEP_STRUCTS - 1:
            yield
    if len(group) > SIBLINGS_MAX:
        return (yield from _count_many(order, after, weights))
    before = {item.first: {item.first} for item in group}
    for first, _ in order:
        for later in after[first]:
            before[later] |= before[first]
    steps = growth = 0
    for index, one in enumerate(group):
        for other in group[index + 1 :]:
            if one.first in before[other.first] or other.first in before[one.first]:
                continue
            ours, theirs = _looked_at(one.first, one.right, other.first, other.right)
            steps += max(ours * weights[one.first], theirs * weights[other.first])
            growth += ours + theirs
    return Exact(steps, growth)


def _count_many(order: list[tuple[int, int]], after: dict[int, list[int]], weights: dict[int, int]) -> Steps[Exact]:
    """The same at most, without comparing each with each; ``order`` has each one's depth in the tree."""
    steps = growth = 0
    below: dict[int, int] = {}
    for number, (first, depth) in enumerate(reversed(order)):
        below[first] = sum(1 + below[later] for later in after[first])
        others = len(order) - 1 - depth - below[first]
        steps += others * weights[first]
        growth += others
        if number % STEP_STRUCTS == STEP_STRUCTS - 1:
            yield
    return Exact(steps - growth // 2, growth)  # of each pair, all that hangs on one is looked at, and of none on both
