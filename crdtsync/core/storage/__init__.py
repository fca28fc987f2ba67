"""Storage: what the core asks of a disk, and what it wants written. There is no disk in here.

Open first: :mod:`crdtsync.core.storage.interface`. It holds three things:

- ``Storage``, a protocol: reads of committed state, answered at once. The daemon implements it with SQLite
  (``crdtsyncd.storage``).
- The row types: a ``NamedTuple`` for each kind of row.
- ``Batch``: everything that one commit must make durable, as rows by table. The core never writes. It hands a batch
  to its caller, as ``Ready.persist``.

Example: a replica applies a change. It appends a ``ChangeRow`` for the log and an ``EntryRow`` for the new value to
the batch of the node's ``Ledger``. ``Node.ready`` takes that batch, and the daemon commits it, with what all other
spaces have added in the same turn.

Modules:

- ``interface``: the rows, ``Batch`` and ``Storage``
- ``long_values``: values that memory does not hold: read when asked for, through a cache
- ``write_batch``: the ledger: the batch of the next commit, the newest position in the log and the newest row in
  use

To keep something new on disk: a row type and a list in ``Batch`` here; in the daemon a table in ``storage.schema``
with a new format and a step in ``storage.migration``, its writing in ``storage.writes`` and its reading in
``storage.reads``.

May import: ``crdt`` (entries are rows too), ``crdtsync.wire``, ``crdtsync.causality``.
"""
