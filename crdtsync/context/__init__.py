"""Context: what of the shared state goes into a model's window.

A store with 50,000 tokens in it is useless to an agent with room for 8,000. This room counts tokens, makes content
compact, and shows the part of the state that an agent should read, within a budget that is never exceeded: offline,
without a model, and the same on every host.

    from crdtsync.context import SharedContext, Views, compress, count

Open first: ``view.aio`` for views of the state, ``shared.aio`` for results that agents hand each other, or
``compact.compress`` for a text alone. All three stand on ``tokens``.

Rooms and modules, top to bottom:

- ``view``: the part of the state that one agent needs, within a budget
- ``memory``: what agents have learnt, by whom and since when
- ``search``: entries found by their words, and by what they mean
- ``shared``: a context that several agents share, compact by default
- ``compact``: the same content in fewer tokens
- ``tokens``: counting, exact or by an estimate that errs upwards
- ``given``: what callers hand in, by its type
- ``extras``: packages that are imported at first use (``pip install 'crdtsync[context]'``)

Its place: above the public client only. A module here may import :class:`crdtsync.Client`,
:class:`crdtsync.AsyncClient`, ``crdtsync.client`` and ``crdtsync.errors``; never ``crdtsync.core``,
``crdtsync.wire`` or ``crdtsyncd``. ``mcp``, ``adapters`` and ``sessions`` may import this room, and it none of
them, but for one door: ``search`` opens ``sessions.searching`` when it meets a saved session. import-linter holds both
rules (the contracts ``agent-layer`` and ``library-rooms`` in ``pyproject.toml``).

Why: what is built on promises that every program has stays true when the inside changes. What cannot be done
through the public client is missing there, and is to be added there.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crdtsync.context.compact.compress import compress
    from crdtsync.context.compact.result import Compact
    from crdtsync.context.memory.aio import AsyncMemory
    from crdtsync.context.memory.blocking import Memory
    from crdtsync.context.search.aio import AsyncSearch
    from crdtsync.context.search.blocking import Search
    from crdtsync.context.search.index import Found
    from crdtsync.context.shared.aio import AsyncSharedContext
    from crdtsync.context.shared.blocking import SharedContext
    from crdtsync.context.shared.entry import ContextEntry, SharedContextStats
    from crdtsync.context.tokens import Tokenizer, count, count_tokens, tokenizer
    from crdtsync.context.view.aio import AsyncViews
    from crdtsync.context.view.blocking import Views
    from crdtsync.context.view.choose import View

_MODULES = {
    "AsyncMemory": "memory.aio",
    "AsyncSearch": "search.aio",
    "AsyncSharedContext": "shared.aio",
    "AsyncViews": "view.aio",
    "Compact": "compact.result",
    "ContextEntry": "shared.entry",
    "Found": "search.index",
    "Memory": "memory.blocking",
    "Search": "search.blocking",
    "SharedContext": "shared.blocking",
    "SharedContextStats": "shared.entry",
    "Tokenizer": "tokens",
    "View": "view.choose",
    "Views": "view.blocking",
    "compress": "compact.compress",
    "count": "tokens",
    "count_tokens": "tokens",
    "tokenizer": "tokens",
}

__all__ = [
    "AsyncMemory",
    "AsyncSearch",
    "AsyncSharedContext",
    "AsyncViews",
    "Compact",
    "ContextEntry",
    "Found",
    "Memory",
    "Search",
    "SharedContext",
    "SharedContextStats",
    "Tokenizer",
    "View",
    "Views",
    "compress",
    "count",
    "count_tokens",
    "tokenizer",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"crdtsync.context.{_MODULES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
