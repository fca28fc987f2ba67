"""The kinds of keys. Each module says how one is written, read and told.

Merging knows nothing of kinds: it looks at dots alone (:mod:`crdtsync.core.crdt.entries`). A kind gives the entries of
a key their meaning. Two ``incr`` of Ann and Bob, for example, are two entries of one key; the module ``counter`` adds
them up, and says that the second does not replace the first.

Where to begin:

- ``base``: :class:`~.base.Rules`, all that the rest of the core knows of a kind: how entries form values, its requests,
  what its events tell, what history shows of it, when its values are in conflict, how a long one is read in parts;
- ``register``: the shortest kind that has siblings; ``counter``: one that has none; then ``sets``, ``maps``, ``log``,
  ``text``, ``blob``;
- ``registry``: the table of all kinds, and which operation an :class:`~crdtsync.wire.change.Op` of a change is;
- ``operations``: what agents, events and history call an operation, and what its event tells;
- ``values``: from the entries of a key to what a reader sees: winner, siblings, version.

``arguments`` checks what requests share, ``rank_check`` refuses a write that ranks too low under the key's schema,
``crowding`` keeps siblings within their bound, ``json_schema`` checks values against JSON Schemas in bounded time.

A new kind takes a number and a row in :mod:`crdtsync.wire.kinds`, a module here with its ``RULES``, a line in
``registry``, and for each request a line in :mod:`crdtsync.wire.requests`. Outside of the core it takes methods of the
client, commands, a line in ``crdtsyncd.cli.data.kinds``, a module in ``tests/simulator/kinds``, and a row in
``docs/how-to/model-data.md``.

This room may import ``text``, ``storage``, ``crdt`` and below. It knows replicas and drafts by type alone: they are
handed in.
"""
