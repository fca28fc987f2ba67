"""Storage: SQLite, and the journal before it: what is committed here survives a kill and a power cut.

Open first: :class:`~crdtsyncd.storage.database.Store`, and in it ``commit``. It takes the ``WriteBatch`` of a turn and
returns when that is on disk. This is where a write is made durable. A commit of ordinary writes is one record at
the end of the journal's file: one write, one flush. The tables follow by slices, between the turns of others, in a
transaction that ends once it has hundreds of them. A commit that does more, or is large, goes to the tables directly,
after what is in the journal; if it has many rows of entries, these follow by slices of their own (``backlog``). An
entry keeps its row for life: it dies by a mark.

Failures, and where they are handled:

- The disk is full: ``NoSpace``, nothing was stored. ``disk_guard`` refuses writes before that, and keeps a file to
  give up.
- The disk fails: ``StorageError``; the process must end and start over from what the disk holds.
- A row fits into no table: its commit goes to quarantine, and the core takes its changes in again.
- The directory went back in time (a copy, a snapshot of the machine): ``writer_mark`` shows it, and this node takes
  new writers.

Modules:

- ``database``: the store: open, commit, close
- ``settling``: what was committed, on its way into the tables
- ``journal``: (a room) commits on their way into the tables
- ``writes``: the rows of a batch into their tables
- ``in_list``: conditions on a few rows at once
- ``log_values``: long values that log and state share
- ``backlog``: rows of large commits, on their way there by slices
- ``reads``: reads of committed state: the SQL behind the core's ``Storage``; ``past_reads``: of what is dead
- ``schema``: the tables; ``migration``: from an older format
- ``check_schema``: nothing in a database runs by itself, and its tables are the daemon's
- ``typed_rows``: a row whose types a flipped bit has changed is called damage
- ``open_database``: locks, private files, the format checked before SQLite touches it
- ``file_header``: what a database file says of itself, read without SQLite
- ``upkeep``, ``wal_checkpoint``: how large the files are, and what keeps them short
- ``retry_replies``: replies to writes, for repeated ones
- ``disk_guard``: free space
- ``writer_mark``: the count of own changes, kept outside of the data directory

May import: ``security``, ``telemetry``, ``service``, ``config``, ``wording``, and ``crdtsync`` (of the core: the
rows).
"""
