"""Limits made so small that a short history reaches them: what is seldom in real life is common in some worlds."""

from __future__ import annotations

from contextlib import ExitStack
from importlib import import_module
from random import Random
from unittest import mock

SMALL: dict[str, tuple[str, int]] = {
    "indexes of a key": ("crdtsync.core.crdt.entries.SMALL_ENTRIES_MAX", 2),
    "entries taken out one by one": ("crdtsync.core.crdt.key_entries.REMOVED_SINGLY_MAX", 2),
    "entries whose hashes are put off": ("crdtsync.core.crdt.entries.UNHASHED_ENTRIES_MAX", 2),
    "dots in a version": ("crdtsync.core.kinds.values.NAMED_DOTS_MAX", 3),
    "dots in a removal": ("crdtsync.core.crdt.read_context.NAMED_DOTS_MAX", 2),
    "own dots in a version": ("crdtsync.core.kinds.draft.OWN_DOTS_MAX", 4),
    "entries in a part of a snapshot": ("crdtsync.core.replica.snapshots.snapshot.PART_ENTRIES_MAX", 3),
    "bytes in a part of a snapshot": ("crdtsync.core.replica.snapshots.snapshot.PART_BYTES_MAX", 200),
    "writers in a part of a snapshot": ("crdtsync.core.replica.snapshots.snapshot.PART_WRITERS_MAX", 2),
    "bytes of a snapshot in memory alone": ("crdtsync.core.replica.snapshots.staging.HELD_BYTES_MAX", 300),
    "changes that are more than a snapshot": ("crdtsync.core.sync.snapshot_server.MISSING_CHANGES_MIN", 5),
    "bytes of a bulky text": ("crdtsync.core.text.document.BULKY_BYTES_MIN", 10),
    "rows that are brought in at once": ("crdtsyncd.storage.writes.DIRECT_ROWS_MAX", 3),
    "rows in a record of the backlog": ("crdtsyncd.storage.backlog.SLICE_ROWS", 2),
    "characters of a new text in one operation": ("crdtsync.core.text.document_cache.CHUNK_CHARS_MAX", 5),
    "bytes of a text that is compacted at once": ("crdtsync.core.text.document_cache.AT_ONCE_BYTES_MAX", 30),
    "bytes that a text begins with at once": ("crdtsync.core.replica.text_edits.AT_ONCE_BYTES_MAX", 30),
    "open texts": ("crdtsync.core.text.document_cache.OPEN_DOCUMENTS_MAX", 2),
    "edits until a text is stored whole": ("crdtsync.core.text.document_cache.STATE_EVERY_UPDATES", 3),
    "changes in a message": ("crdtsync.core.sync.change_feed.FRAME_CHANGES_MAX", 3),
    "keys in a slice of a watch": ("crdtsync.core.watch.change_watch.SLICE_KEYS_MAX", 2),
    "changes in a slice of a watch": ("crdtsync.core.watch.change_watch.SLICE_CHANGES_MAX", 2),
    "keys in a slice of a state watch": ("crdtsync.core.watch.state_watch.SLICE_KEYS_MAX", 2),
    "changes in a slice of a state watch": ("crdtsync.core.watch.state_watch.SLICE_CHANGES_MAX", 2),
    "keys that a state watcher may have missed": ("crdtsync.core.watch.state_watch.DIRTY_KEYS_MAX", 3),
    "entries of a key that is told as a whole": ("crdtsync.core.watch.partial_updates.WHOLE_ENTRIES_MAX", 1),
    "siblings of a key": ("crdtsync.wire.limits.KEY_SIBLINGS_MAX", 3),
    "bytes in a frame of events": ("crdtsync.core.watch.events.FRAME_BYTES_MAX", 300),
}


JOURNAL_BYTES = 8 * 1024
"""Of the journal's file, in every such world: it is used again and again."""

SETTLING = {"SLICE_CHANGES": 4, "TRANSACTION_CHANGES": 8, "PENDING_CHANGES_MAX": 16}
"""Of what goes from there to its tables at once, likewise: a history has some hundred changes."""

MEMORY_BYTES = 0
"""Of a value that stays in memory, likewise: nearly all are read from disk, or through a cache of so many bytes."""
CACHE_BYTES = 1000


def make_small(rng: Random) -> ExitStack:
    """Make about half of the limits small, until the result is closed."""
    undo = ExitStack()
    undo.enter_context(mock.patch("crdtsyncd.storage.journal.file.FILE_BYTES", JOURNAL_BYTES))
    for name, value in SETTLING.items():
        undo.enter_context(mock.patch(f"crdtsyncd.storage.journal.journal.{name}", value))
    undo.enter_context(mock.patch("crdtsync.core.storage.long_values.MEMORY_BYTES_MAX", MEMORY_BYTES))
    undo.enter_context(mock.patch("crdtsync.core.storage.long_values.CACHE_BYTES_MAX", CACHE_BYTES))
    for path, value in SMALL.values():
        if rng.random() < 0.5:
            module, _, name = path.rpartition(".")
            undo.enter_context(mock.patch.object(import_module(module), name, value))
    return undo
