"""The parts that a view was made of, kept for the next time.

The problem. An agent asks for the same view before each of its steps. Reading 10,000 entries and counting their tokens
takes half a second; since the last step two have changed. So a client's views keep what they have read, ask the daemon
what is new, and count only that. What is kept is bounded in views and in characters; what does not fit is read anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from crdtsync.context.view.choose import Known, View
from crdtsync.context.view.definition import Definition
from crdtsync.context.view.items import Item

VIEWS_MAX = 8
CHARS_MAX = 16 * 1024 * 1024
"""Characters of all that one client's views keep."""


@dataclass(slots=True)
class HeldView:
    """The items of one view at ``token``, and what was found out about them. ``chars``: what they take; ``rules``: by
    which they were read, under others they may be none of this agent's business; ``shown``: the view that came of them,
    with the version of the summary in it.
    """

    items: Mapping[str, Item]
    token: str
    chars: int
    rules: object = None
    known: Known = field(default_factory=Known)
    shown: tuple[str | None, View] | None = None

    def after(self, changed: Iterable[Item], gone: Iterable[str], token: str) -> HeldView:
        """The same, later. This one stays as it is: others may still be looking at it."""
        changed, lost = list(changed), set(gone) & self.items.keys()
        if not changed and not lost:
            return replace(self, token=token)
        items = dict(self.items)
        old = [items.pop(key) for key in lost] + [items[item.key] for item in changed if item.key in items]
        items |= {item.key: item for item in changed}
        return HeldView(items, token, self.chars + chars_of(changed) - chars_of(old), self.rules, self.known)


def chars_of(items: Iterable[Item]) -> int:
    """Characters that they take, about."""
    return sum([len(item.text) + len(item.key) for item in items])


class HeldViews:
    """The views of one client, the one that was asked for last at the end."""

    def __init__(self) -> None:
        self._held: OrderedDict[Definition, HeldView] = OrderedDict()

    def get(self, definition: Definition) -> HeldView | None:
        """The kept parts of a view; None if nothing is."""
        return self._held.get(definition)

    def keep(self, definition: Definition, held: HeldView) -> None:
        """Keep it, in the place of what was kept of that view; what was not asked for lately goes."""
        self._held.pop(definition, None)
        self._held[definition] = held
        while len(self._held) > VIEWS_MAX or sum(one.chars for one in self._held.values()) > CHARS_MAX:
            self._held.popitem(last=False)
