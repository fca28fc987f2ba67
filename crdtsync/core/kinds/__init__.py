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
- ``draft``: :class:`~.draft.Draft`, one change in the making, to which the operations of a kind add;
- ``values``: from the entries of a key to what a reader sees: winner, siblings, version; and the keys of a
  space that have several values.

``arguments`` checks what requests share, ``schema_check`` holds an operation against the schema of its key,
``crowding`` keeps siblings within their bound, ``seen`` tells what a write took the place of, and ``text_join`` is
where a text's document takes the place of others: compaction, merge.

A new kind takes a number and a row in :mod:`crdtsync.wire.kinds`, a module here with its ``RULES``, a line in
``registry``, and for each request a line in :mod:`crdtsync.wire.requests`. Outside of the core it takes methods of the
client, commands, a line in ``crdtsyncd.cli.data.kinds``, a module in ``tests/simulator/kinds``, and a row in
``docs/how-to/model-data.md``.

This room may import :mod:`crdtsync.core.space`, ``text``, ``storage``, ``crdt`` and below.
"""
