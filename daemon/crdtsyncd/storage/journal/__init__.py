"""Journal: commits on their way into the tables, so that an acknowledgement waits for one write and one flush.

A write changes a dozen pages of the tables: log, index, live state, history, replies, sizes. So a commit appends
its rows, packed, to a file of its own. That is what is synced. The tables follow for many commits at once; that
transaction notes which record is the last that the tables have. After a crash, a start brings into the tables what
the file has beyond it.

Example: 20 writes in 50 ms are 20 records, each with its own flush, and one transaction of the tables. If the host
loses power after the fifteenth, the start finds fifteen whole records and perhaps a torn one, which nobody was
answered for.

Open first: :class:`~crdtsyncd.storage.journal.journal.Journal`. The docstring of ``file`` has the table of which
file goes with which database: a file that does not is refused and left as it is.

Modules:

- ``journal``: the rows of a commit as one record; what the tables lack
- ``file``: the file: its size never changes, records are numbered, keyed and checked
- ``quarantine``: commits that were acknowledged and fit into no table

May import: ``telemetry``, ``config``, and ``crdtsync`` (of the core: the rows). Only ``storage`` and ``loop`` use
it.
"""
