"""What a host's database ought to hold, asked in SQL: counters that add up, a log that reaches down to its floor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsyncd.storage.journal.file import JournalFile, unpacked_state
from crdtsyncd.storage.journal.journal import META_NAME, unpacked
from crdtsyncd.storage.writes import CHANGE_BYTES, DEAD_BYTES, REMOVAL_BYTES

from crdtsync.causality import Dot
from tests.simulator.model import Broken, require

if TYPE_CHECKING:
    from tests.simulator.hosts import Host
    from tests.simulator.world import World

SPACE = 1


def check_disk(world: World, host: Host) -> None:
    """Everything that holds at any time between two commits."""
    _check_counters(host)
    _check_log(world, host)
    _check_heads(world, host)


def check_tables(host: Host) -> None:
    """What a start would find after a kill: the journal's file has what the tables lack. Right after a commit."""
    assert host.store is not None
    db, journal = host.store._checkpointer, host.store._journal  # which sees no transaction that is still open
    ((state,),) = db.execute("SELECT value FROM meta WHERE name = ?", (META_NAME,))
    heads = dict(db.execute("SELECT writer, seq FROM heads WHERE space = ?", (SPACE,)))
    _, records = JournalFile(journal.path).rows(unpacked_state(bytes(state)))
    try:
        batches = [unpacked(record) for record in records]
    except Exception as error:  # what stands in the place of a record: anything
        raise Broken(f"{host.name} has lost records of its journal that its tables lack") from error
    kept = {(row.writer, row.seq) for batch in batches for row in batch.changes if row.space == SPACE}
    heads |= {row.writer: row.seq for batch in batches for row in batch.heads if row.space == SPACE}
    beyond = [(w, n) for w, last in host.model.vector.items() for n in range(heads.get(w, 0) + 1, last + 1)]
    lost = [change for change in beyond if change not in kept]
    require(not lost, host.name, "has the changes", lost, "neither in its tables nor its journal")


def _rows(host: Host, statement: str, *parameters: object) -> list[Any]:
    assert host.store is not None
    return host.store._db.execute(statement, parameters).fetchall()


def _total(host: Host, table: str, size: str) -> int:
    return int(_rows(host, f"SELECT IFNULL(SUM({size}), 0) FROM {table} WHERE space = ?", SPACE)[0][0])


def _check_counters(host: Host) -> None:
    """What the status tells is what there is."""
    assert host.store is not None
    if host.store.has_backlog:
        return
    told = host.store.log_stats(SPACE)
    counted = {
        "log_changes": _total(host, "changes", "1"),
        "log_bytes": _total(host, "changes", CHANGE_BYTES),
        "history_bytes": _total(host, "entries", f"CASE WHEN position IS NULL THEN 0 ELSE {DEAD_BYTES} END")
        + _total(host, "removals", REMOVAL_BYTES),
        "document_bytes": _total(host, "document_updates", "LENGTH(update_v1)")
        + _total(host, "document_states", "LENGTH(state)"),
    }
    require(told == counted, host.name, "counts", told, "and has on disk", counted)


def _check_log(world: World, host: Host) -> None:
    """The log holds every change above its floor, and tells in what order they came: a causal one."""
    floor = host.replica.floor
    rows = _rows(host, "SELECT writer, seq, hash FROM changes WHERE space = ? ORDER BY position", SPACE)
    logged = {(writer, seq): change_hash for writer, seq, change_hash in rows}
    for writer, seq in host.model.vector.items():
        lacking = [n for n in range(floor.get(writer, 0) + 1, seq + 1) if (writer, n) not in logged]
        require(not lacking, host.name, f"has a log without changes {lacking} of {writer} above its floor", floor)
    reached = dict(floor)
    for (writer, seq), change_hash in logged.items():
        known = world.oracle.changes[writer, seq]
        require(known.hash == change_hash, host.name, "has another change in its log than", known.id)
        if seq <= floor.get(writer, 0):
            continue
        early = {w: s for w, s in known.clock.items() if (w, s) != known.id and reached.get(w, 0) < s}
        require(not early, host.name, "has change", known.id, "in its log before", early)
        reached[writer] = max(seq, reached.get(writer, 0))


def _check_heads(world: World, host: Host) -> None:
    for writer, seq, change_hash in _rows(host, "SELECT writer, seq, hash FROM heads WHERE space = ?", SPACE):
        known = world.oracle.changes.get((writer, seq))
        require(known is not None and known.hash == change_hash, host.name, "has a head", (writer, seq))
        require(
            host.model.vector.get(writer) == seq, host.name, "has a head", (writer, seq), "and holds", host.model.vector
        )


def check_bounds(world: World, host: Host) -> None:
    """When all is quiet, log and history are within their caps, and what nobody can ask for is gone."""
    assert host.store is not None
    told, caps = host.store.log_stats(SPACE), world.caps
    if caps is None:
        return
    require(told["log_bytes"] <= caps.log_bytes_max, host.name, "has a log of", told, "with a cap of", caps)
    require(told["history_bytes"] <= caps.history_bytes_max, host.name, "has a history of", told, "with a cap of", caps)
    require(not _rows(host, "SELECT 1 FROM snapshot_parts"), host.name, "still has parts of a snapshot")
    _check_documents(host)


def _check_documents(host: Host) -> None:
    """A document is kept while a live marker names it, or its end is no older than the log, and no longer."""
    rows = _rows(
        host,
        "SELECT writer, seq, n, MAX(position) FROM (SELECT writer, seq, n, position FROM document_updates "
        "UNION ALL SELECT writer, seq, n, position FROM document_states) GROUP BY writer, seq, n",
    )
    stored = {Dot(writer, seq, n): position for writer, seq, n, position in rows}
    live = {value.document for values in host.model.keys.values() for value in values.values() if value.document}
    require(live <= {*stored}, host.name, "lacks the documents", live - {*stored})
    trimmed = _rows(host, "SELECT trimmed_position FROM spaces WHERE id = ?", SPACE)[0][0]
    dead = [document for document, position in stored.items() if document not in live and position <= trimmed]
    require(not dead, host.name, "keeps the documents", dead, "which are neither alive nor in its log")
