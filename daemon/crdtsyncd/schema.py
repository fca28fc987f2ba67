"""The database's tables. ``user_version`` is the format; a daemon refuses a newer one and leaves it untouched."""

APPLICATION_ID = 0x63726474
FORMAT = 1

SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;

CREATE TABLE spaces (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, epoch INTEGER NOT NULL,
    hlc BLOB NOT NULL DEFAULT x'0000000000000000',
    floor BLOB,                     -- the vector below which the log no longer reaches; NULL: it is whole
    log_changes INTEGER NOT NULL DEFAULT 0, log_bytes INTEGER NOT NULL DEFAULT 0,
    history_bytes INTEGER NOT NULL DEFAULT 0, document_bytes INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE own_writers (space INTEGER NOT NULL, writer INTEGER NOT NULL, PRIMARY KEY (space, writer));
CREATE TABLE heads (
    space INTEGER NOT NULL, writer INTEGER NOT NULL, seq INTEGER NOT NULL, hash BLOB NOT NULL, position INTEGER NOT
    NULL, PRIMARY KEY (space, writer) ) WITHOUT ROWID; CREATE TABLE origins ( space INTEGER NOT NULL, writer INTEGER
    NOT NULL, node TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (space, writer) ) WITHOUT ROWID;

-- the log: every change, in the order in which this node applied it
CREATE TABLE changes (
    position INTEGER PRIMARY KEY, space INTEGER NOT NULL, writer INTEGER NOT NULL, seq INTEGER NOT NULL,
    hash BLOB NOT NULL, body BLOB NOT NULL
);
CREATE UNIQUE INDEX changes_by_number ON changes (space, writer, seq);

-- live state, and what it superseded: a row moves from entries to history when something removes it
CREATE TABLE entries (
    row INTEGER PRIMARY KEY, space INTEGER NOT NULL, writer INTEGER NOT NULL, seq INTEGER NOT NULL, n INTEGER NOT NULL,
    key TEXT NOT NULL, sub TEXT, kind INTEGER NOT NULL, hlc BLOB NOT NULL, agent TEXT NOT NULL,
    value BLOB, value_hash BLOB NOT NULL, attrs BLOB
);
CREATE TABLE history (
    row INTEGER PRIMARY KEY, space INTEGER NOT NULL, writer INTEGER NOT NULL, seq INTEGER NOT NULL, n INTEGER NOT NULL,
    key TEXT NOT NULL, sub TEXT, kind INTEGER NOT NULL, hlc BLOB NOT NULL, agent TEXT NOT NULL,
    value BLOB, value_hash BLOB NOT NULL, attrs BLOB
);
-- every operation that removed something from a key, so that an older cut can be told apart
CREATE TABLE removals (
    id INTEGER PRIMARY KEY, space INTEGER NOT NULL, key TEXT NOT NULL,
    writer INTEGER NOT NULL, seq INTEGER NOT NULL, n INTEGER NOT NULL, removes BLOB NOT NULL
);

-- texts and documents, named by the dot of their first marker
CREATE TABLE document_updates (
    space INTEGER NOT NULL, writer INTEGER NOT NULL, seq INTEGER NOT NULL, n INTEGER NOT NULL, position INTEGER NOT
    NULL, by_writer INTEGER NOT NULL, by_seq INTEGER NOT NULL, by_n INTEGER NOT NULL, agent TEXT NOT NULL, update_v1
    BLOB NOT NULL, PRIMARY KEY (space, writer, seq, n, position, by_n) ) WITHOUT ROWID; CREATE TABLE document_states
    ( space INTEGER NOT NULL, writer INTEGER NOT NULL, seq INTEGER NOT NULL, n INTEGER NOT NULL, position INTEGER
    NOT NULL, state BLOB NOT NULL, PRIMARY KEY (space, writer, seq, n) );

-- what a client's write was answered, so that a retry is not a second write
CREATE TABLE outcomes (
    client BLOB NOT NULL, slot INTEGER NOT NULL, number INTEGER NOT NULL, time_ms INTEGER NOT NULL, reply BLOB NOT NULL,
    PRIMARY KEY (client, slot)
) WITHOUT ROWID;
CREATE TABLE peers (node TEXT PRIMARY KEY, name TEXT NOT NULL, last_seen_ms INTEGER NOT NULL) WITHOUT ROWID;
"""
