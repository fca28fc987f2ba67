"""The database's tables. ``user_version`` is the format; a daemon refuses a newer one and leaves it untouched.

An older format is brought up to date by :mod:`crdtsyncd.storage.migration`, so a change here needs a new ``FORMAT`` and
a step there.
"""

from crdtsync.core.storage.long_values import MEMORY_BYTES_MAX

APPLICATION_ID = 0x63726474
FORMAT = 8
INLINE_BYTES_MAX = MEMORY_BYTES_MAX
"""A longer value has a row of its own: SQLite writes a whole row anew when it is marked."""

ARCHIVES = """
-- spaces that were dropped: what is left of them stays under their number for a while
CREATE TABLE archives (
    space INTEGER PRIMARY KEY, name TEXT NOT NULL, epoch INTEGER NOT NULL,
    time_ms INTEGER NOT NULL,       -- when
    entries INTEGER NOT NULL, size_bytes INTEGER NOT NULL,
    unseen INTEGER NOT NULL         -- changes that the node that dropped it had not seen
);
-- what is asked of one space must not cost what others hold
CREATE INDEX changes_by_space ON changes (space);
CREATE INDEX removals_by_space ON removals (space);
"""

DEATHS = (
    "value_bytes INTEGER",  # of a value that stands in entry_values; NULL: it stands in the row, or there is none
    "position INTEGER",  # of the change that removed it, in this node's log; NULL: it is alive
    "time_ms INTEGER",  # when that was applied here
    "by_n INTEGER",  # which operation of that change removed it; NULL: not known
    "fate INTEGER",  # replaced, lost, deleted, expired or trimmed, by number; NULL: not known
)
"""The last columns of an entry; those of the mark that it is dead come with the mark."""

NEW_IN_6 = """
-- long values, by the row of their entry, so that a mark on an entry does not write its value again
CREATE TABLE entry_values (row INTEGER PRIMARY KEY, value BLOB NOT NULL);
-- what is alive; what is dead, in the order in which it died, and by key and time of writing; what was lost, likewise
CREATE INDEX entries_alive ON entries (space) WHERE position IS NULL;
CREATE INDEX entries_dead ON entries (space, position) WHERE position IS NOT NULL;
CREATE INDEX entries_dead_by_key ON entries (space, key, hlc) WHERE position IS NOT NULL;
CREATE INDEX entries_lost ON entries (space, key, hlc) WHERE fate = 2;
-- rows of large commits that are on their way into their tables, a slice each
CREATE TABLE backlog (id INTEGER PRIMARY KEY, rows BLOB NOT NULL);
"""

NEW_IN_8 = """
-- long values that the log does not store once more: see log_values
CREATE TABLE change_values (
    row INTEGER PRIMARY KEY,        -- of entry_values
    position INTEGER NOT NULL,      -- of the change, in the log
    place INTEGER NOT NULL,         -- in the whole body of that change, in bytes from its beginning
    size_bytes INTEGER NOT NULL
);
CREATE INDEX change_values_by_position ON change_values (position);
"""

SCHEMA = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;

CREATE TABLE spaces (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, epoch INTEGER NOT NULL,
    hlc BLOB NOT NULL DEFAULT x'0000000000000000',
    floor BLOB,                     -- the vector below which the log no longer reaches; NULL: it is whole
    log_changes INTEGER NOT NULL DEFAULT 0, log_bytes INTEGER NOT NULL DEFAULT 0,
    history_bytes INTEGER NOT NULL DEFAULT 0, document_bytes INTEGER NOT NULL DEFAULT 0,
    trimmed_position INTEGER NOT NULL DEFAULT 0,    -- of the last change trimmed from the log
    history_floor BLOB,             -- the vector below which history no longer tells an older cut; NULL: it is whole
    history_since_ms INTEGER NOT NULL DEFAULT 0     -- since when it tells all
);
CREATE TABLE own_writers (space INTEGER NOT NULL, writer INTEGER NOT NULL, PRIMARY KEY (space, writer));
CREATE TABLE heads (
    space INTEGER NOT NULL, writer INTEGER NOT NULL, seq INTEGER NOT NULL, hash BLOB NOT NULL,
    position INTEGER NOT NULL,      -- of that change in the log
    PRIMARY KEY (space, writer)
) WITHOUT ROWID;
CREATE TABLE origins (
    space INTEGER NOT NULL, writer INTEGER NOT NULL, node TEXT NOT NULL, name TEXT NOT NULL,
    PRIMARY KEY (space, writer)
) WITHOUT ROWID;
-- the log: every change, in the order in which this node applied it
CREATE TABLE changes (
    position INTEGER PRIMARY KEY, space INTEGER NOT NULL, writer INTEGER NOT NULL, seq INTEGER NOT NULL,
    hash BLOB NOT NULL, body BLOB NOT NULL,
    time_ms INTEGER NOT NULL        -- when it was applied here
);
CREATE UNIQUE INDEX changes_by_number ON changes (space, writer, seq);
-- what was written: one row for its whole life. What removes it marks it, and copies nothing
CREATE TABLE entries (
    row INTEGER PRIMARY KEY, space INTEGER NOT NULL, writer INTEGER NOT NULL, seq INTEGER NOT NULL, n INTEGER NOT NULL,
    key TEXT NOT NULL, sub TEXT, kind INTEGER NOT NULL, hlc BLOB NOT NULL, agent TEXT NOT NULL,
    value BLOB, value_hash BLOB NOT NULL, attrs BLOB,
    seen BLOB,                      -- what the operation that wrote it took the place of; NULL: not known
    {", ".join(DEATHS)}
);
-- every operation that removed something from a key, so that an older cut can be told apart
CREATE TABLE removals (
    id INTEGER PRIMARY KEY, space INTEGER NOT NULL, key TEXT NOT NULL,
    writer INTEGER NOT NULL, seq INTEGER NOT NULL, n INTEGER NOT NULL, removes BLOB NOT NULL,
    position INTEGER NOT NULL, time_ms INTEGER NOT NULL,
    hlc BLOB, agent TEXT, operation TEXT    -- who did what, and when; NULL: from before format 3
);
CREATE INDEX removals_by_position ON removals (position, n);
-- edits of texts and documents, which are named by the dot of their first marker
CREATE TABLE document_updates (
    space INTEGER NOT NULL, writer INTEGER NOT NULL, seq INTEGER NOT NULL, n INTEGER NOT NULL,
    position INTEGER NOT NULL, by_writer INTEGER NOT NULL, by_seq INTEGER NOT NULL, by_n INTEGER NOT NULL,
    agent TEXT NOT NULL, update_v1 BLOB NOT NULL,
    PRIMARY KEY (space, writer, seq, n, position, by_n)
) WITHOUT ROWID;
-- whole documents, each as of a position of the log; older ones stay while a snapshot in transfer needs them
CREATE TABLE document_states (
    space INTEGER NOT NULL, writer INTEGER NOT NULL, seq INTEGER NOT NULL, n INTEGER NOT NULL,
    position INTEGER NOT NULL, state BLOB NOT NULL,
    PRIMARY KEY (space, writer, seq, n, position)
);
-- what a client's write was answered, so that a retry is not a second write; the oldest first
CREATE TABLE outcomes (
    id INTEGER PRIMARY KEY,
    client BLOB NOT NULL, slot INTEGER NOT NULL, number INTEGER NOT NULL, time_ms INTEGER NOT NULL, reply BLOB NOT NULL
);
CREATE UNIQUE INDEX outcomes_by_slot ON outcomes (client, slot);
CREATE TABLE peers (node TEXT PRIMARY KEY, name TEXT NOT NULL, last_seen_ms INTEGER NOT NULL) WITHOUT ROWID;
-- the first 8 bytes of the hashes of changes that were trimmed from the log, the oldest first
CREATE TABLE change_hashes (
    space INTEGER NOT NULL, writer INTEGER NOT NULL, seq INTEGER NOT NULL, hash BLOB NOT NULL, time_ms INTEGER NOT NULL
);
CREATE UNIQUE INDEX change_hashes_by_number ON change_hashes (space, writer, seq);

-- a snapshot of a space on its way from a peer
CREATE TABLE snapshot_parts (
    space INTEGER NOT NULL, part INTEGER NOT NULL, snapshot BLOB NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (space, part)
);
{ARCHIVES}
{NEW_IN_6}
{NEW_IN_8}
"""
