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

Why: what is built on promises that every program has stays true when the inside changes. If something cannot be
done through the public client, it is missing there, and is to be added there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.lazy import lazy

if TYPE_CHECKING:
    from crdtsync.context.compact.compress import compress as compress
    from crdtsync.context.compact.result import Compact as Compact
    from crdtsync.context.memory.aio import AsyncMemory as AsyncMemory
    from crdtsync.context.memory.blocking import Memory as Memory
    from crdtsync.context.search.aio import AsyncSearch as AsyncSearch
    from crdtsync.context.search.blocking import Search as Search
    from crdtsync.context.search.index import Found as Found
    from crdtsync.context.shared.aio import AsyncSharedContext as AsyncSharedContext
    from crdtsync.context.shared.blocking import SharedContext as SharedContext
    from crdtsync.context.shared.entry import ContextEntry as ContextEntry
    from crdtsync.context.shared.entry import SharedContextStats as SharedContextStats
    from crdtsync.context.tokens import Tokenizer as Tokenizer
    from crdtsync.context.tokens import count as count
    from crdtsync.context.tokens import count_tokens as count_tokens
    from crdtsync.context.tokens import tokenizer as tokenizer
    from crdtsync.context.view.aio import AsyncViews as AsyncViews
    from crdtsync.context.view.blocking import Views as Views
    from crdtsync.context.view.choose import View as View

__getattr__ = lazy(
    globals(),
    {
        "compact.compress": ("compress",),
        "compact.result": ("Compact",),
        "memory.aio": ("AsyncMemory",),
        "memory.blocking": ("Memory",),
        "search.aio": ("AsyncSearch",),
        "search.blocking": ("Search",),
        "search.index": ("Found",),
        "shared.aio": ("AsyncSharedContext",),
        "shared.blocking": ("SharedContext",),
        "shared.entry": ("ContextEntry", "SharedContextStats"),
        "tokens": ("Tokenizer", "count", "count_tokens", "tokenizer"),
        "view.aio": ("AsyncViews",),
        "view.blocking": ("Views",),
        "view.choose": ("View",),
    },
)
