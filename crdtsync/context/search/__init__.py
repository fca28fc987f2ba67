"""Search: what was written about something, in any key, from any agent.

A finding is one of 50,000 entries, and nobody knows its key. A search names it by its words, in a few milliseconds.

The words are in an index of this user on this host: a file beside other caches, made from the shared state, which
loses nothing when it is deleted. Before each search it is brought up to date with what the daemon has heard of since,
so that whatever a read would show is found. The daemon knows nothing of it. Where rules say who may read what, each
agent has an index of its own, of what it may read.

Open first: ``aio``.

Modules:

- ``aio``, ``blocking``: the search of one client
- ``index``: the file: passages, their words and their vectors
- ``meaning``: what a text means, as a vector
- ``passages``: what of an entry is looked through, in pieces that a person would quote

May import: ``crdtsync.context.compact``, ``crdtsync.context.shared`` and ``crdtsync.context.view``; beside these as all
of ``crdtsync.context``. It has the texts of a saved session from ``crdtsync.sessions.searching``, a door.
"""
