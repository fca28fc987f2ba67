"""A context that several agents share: each reads what others put there in few tokens, and in full when it must.

Open first: ``aio``; ``blocking`` is the same without asyncio, generated from it.

How it goes: a researcher on one host calls ``context.put("survey", answer)``. The put compresses the answer once, and
writes two keys in one batch: ``context/survey`` with the compact text and its figures, ``context.full/survey`` with
the answer as it was. An analyst on another host calls ``context.get("survey")`` and pays for the compact text alone.

Modules:

- ``entry``: what is stored and handed out: :class:`~crdtsync.context.shared.entry.ContextEntry`
- ``aio``: :class:`AsyncSharedContext`
- ``blocking``: :class:`SharedContext`

May import: ``crdtsync.context.compact``, ``crdtsync.context.tokens`` and the public client.
"""
