"""Replica: one replica of one space: it applies changes, makes new ones, and gives snapshots away and takes them in.

Open first: :class:`~crdtsync.core.replica.replica.Replica`. It holds the version vector, the live entries, the
causal gate, the schemas and the texts of one space. It has two ways in: ``commit`` makes a change of this node out
of operations, ``receive`` takes in a change of another node. Both end in ``_apply``, which changes memory and adds
the rows for the next commit to the node's ``Ledger``. A replica never writes to disk and never sends.

How a write comes about: ``write_operations`` finds the kind's function for the operation; that function looks at
what there is through a ``Draft``, refuses or adds operations to it; ``Replica.commit`` encodes and applies them as
one change.

Example: ann sets ``k`` and had read the value that bob wrote. The draft turns what ann had seen into the dots that
the new operation removes. The change carries these dots, so every node removes exactly them, in whatever order
changes come.

Modules:

- ``replica``: the state of one space in memory; applying changes; writers
- ``asleep``: what stays in memory of a space that nobody uses, and when it may sleep
- ``fork_healing``: two branches of one writer: which keeps its numbers, and new names for the other
- ``text_edits``: what changes do to the texts of a replica: tried, applied or skipped, and written down for the disk
- ``space_draft``: a change in the making (``kinds.draft``) with the replica that will commit it
- ``write_operations``: the table of all write operations
- ``bring_back``: writing anew what a snapshot took away
- ``resolve``: one value in place of all siblings
- ``restore``: makes of keys what they were at a point of the past
- ``checkpoint_operations``: requests that make and delete checkpoints
- ``purges``: what is to be gone for good, on every host: the request, and the records of it
- ``spoilt_values``: values that the disk has spoilt, as the log has them
- ``schemas``: (a room) what is declared for the keys of a pattern, and what that does to writes
- ``reader_view``: what a plain read hands over of a key's values, by its read policy
- ``snapshots``: (a room) the live state of a space, given away in parts and merged at once

May import: the rooms of the core below it (see :mod:`crdtsync.core`): ``history``, ``kinds``, ``text``,
``storage``, ``crdt``. It knows neither peers nor agents.
"""
