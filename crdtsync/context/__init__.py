"""Context: what of the shared state goes into a model's window. Empty yet.

What will live here, for agents that have a budget of tokens and a state that is larger:

- counting tokens, and compressing a text or a conversation to a budget
- views: the part of the state that one role needs, within a budget
- search over keys and values
- memory: notes that agents keep for later, with what they were about
- a context that several agents share

Its place: above the public client only. A module here may import :class:`crdtsync.Client`,
:class:`crdtsync.AsyncClient`, ``crdtsync.client`` and ``crdtsync.errors``; never ``crdtsync.core``,
``crdtsync.wire`` or ``crdtsyncd``. ``mcp``, ``adapters`` and ``sessions`` may import this room, and it none of
them. import-linter holds both rules (the contracts ``agent-layer`` and ``library-rooms`` in ``pyproject.toml``).

Why: what is built on promises that every program has stays true when the inside changes. What cannot be done
through the public client is missing there, and is to be added there.

What takes a package of its own (a tokenizer, an index) is an optional extra, imported when it is first used.
"""
