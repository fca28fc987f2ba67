"""Storage: what the core asks of a disk, and what it wants written. There is no disk in here.

Open first:

- ``Storage`` in :mod:`crdtsync.core.storage.interface`, a protocol: reads of committed state, answered at once. The
  daemon implements it with SQLite (``crdtsyncd.storage``).
- :mod:`crdtsync.core.storage.rows`: a ``NamedTuple`` for each kind of row.
- ``WriteBatch`` in :mod:`crdtsync.core.storage.write_batch`: everything that one commit must make durable, as rows by
  table. The core never writes. It hands a batch to its caller, as ``Ready.persist``.

Example: a replica applies a change. It appends a ``ChangeRow`` for the log and an ``EntryRow`` for the new value to
the batch of the node's ``Ledger``. ``Node.ready`` takes that batch, and the daemon commits it, with what all other
spaces have added in the same turn.

Modules:

- ``interface``: ``Storage``
- ``rows``: the rows, and the names of what a node keeps for itself
- ``long_values``: values that memory does not hold: read when asked for, through a cache
- ``write_batch``: ``WriteBatch``; the ledger: the batch of the next commit, the newest position in the log and the
  newest row in use

To keep something new on disk: a row type in ``rows`` and a list in ``WriteBatch``; in the daemon a table in
``storage.schema`` with a new format and a step in ``storage.migration``, its writing in ``storage.writes`` and its
reading in ``storage.reads``.

May import: ``crdt`` (entries are rows too), ``crdtsync.wire``, ``crdtsync.causality``.
"""
