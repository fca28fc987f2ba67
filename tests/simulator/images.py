"""Disks that lose what was not flushed, go back in time, are copied, or are gone for good.

A disk is the database, its write-ahead log, and the journal's file. What was flushed is certain; of what was written
since, any subset of sectors may be there after a power cut. The runtime directory is in memory: it is empty after a
reboot.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, NamedTuple

from crdtsyncd.storage.database import DATABASE_NAME, JOURNAL_NAME

from crdtsync.causality import Writer
from tests.simulator.flushing import WAL_NAME, Files, put_files, read_files
from tests.simulator.model import ChangeId
from tests.simulator.sessions import Keeping

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.simulator.hosts import Host
    from tests.simulator.world import World

SECTOR_BYTES = 512
WAL_HEADER_BYTES = 32


class Image(NamedTuple):
    """A copy of a disk, and what was on it."""

    files: Files
    applied: list[ChangeId]
    digest: int
    has_jumped: bool


class Torn(NamedTuple):
    """Of a host whose power went during a commit: what it holds if that commit is on the disk after all."""

    applied: int
    digest: int
    created: list[ChangeId]


def reboot(host: Host) -> None:
    """What was in memory is gone: the runtime directory."""
    for path in (host.directory / "run").iterdir():
        path.unlink()


def tear(flushed: Files, written: Files, random: Random) -> Files:
    """What a disk holds after a power cut: what was flushed, and of what was written since any sectors.

    SQLite flushes the header of a log that it begins anew before what follows, and the log before the database.
    """
    torn = {**written, JOURNAL_NAME: _torn(flushed[JOURNAL_NAME], written[JOURNAL_NAME], random)}
    if flushed[DATABASE_NAME] == written[DATABASE_NAME]:  # else a checkpoint: it flushes the log and the database
        wal = written[WAL_NAME]
        torn[WAL_NAME] = wal[:WAL_HEADER_BYTES] + _torn(flushed[WAL_NAME], wal, random)[WAL_HEADER_BYTES:]
    return torn


def _torn(old: bytes, new: bytes, random: Random) -> bytes:
    kept = random.choice((0.0, 0.5, 0.9, 1.0))
    torn = bytearray(old)
    for start in range(0, len(new), SECTOR_BYTES):
        if random.random() < kept:
            torn.extend(bytes(max(0, start - len(torn))))
            torn[start : start + SECTOR_BYTES] = new[start : start + SECTOR_BYTES]
    return bytes(torn)


def watch_disk(world: World, host: Host) -> None:
    """From here on it is known what is flushed, so that a power cut may take the rest."""
    world.turn(host)
    if host.store is not None and not host.is_busy:
        host.store.checkpoint()
        host.synced = {}


def cut_power(world: World, host: Host) -> None:
    """The machine goes off: maybe in the middle of a commit, which is then there or not, as a whole."""
    if host.store is None:
        return
    world.counts["power cut"] += 1
    flushed, torn = None if host.synced is None else {**read_files(host), **host.synced}, None
    host.flushed = flushed
    ready = host.committing or (None if host.is_frozen else world.begin_turn(host))
    if ready is not None and ready.persist and flushed is not None:
        host.store.commit(ready.persist)
        torn = Torn(len(host.applied), host.replica.entries.digest, host.created)
        host.created = []
    written = read_files(host)
    lost_from = host.durable
    applied = list(host.applied)
    world.crash(host)
    if torn is not None:
        host.applied = applied
        host.durable = lost_from
    put_files(host, written if flushed is None else tear(flushed, written, world.random))
    reboot(host)
    host.torn = torn


def settle_torn(world: World, host: Host) -> None:
    """The daemon runs again: now it shows whether the commit at the power cut was on the disk."""
    torn, host.torn = host.torn, None
    if torn is None:
        return
    vector = dict(host.applied[: torn.applied])
    if host.replica.vector == vector and torn.applied >= host.durable and host.replica.entries.digest == torn.digest:
        host.durable, host.digest = torn.applied, torn.digest
        world.counts["torn commit kept"] += 1
    else:
        world.oracle.forget(torn.created)
        world.counts["torn commit lost"] += 1


def keep_image(world: World, host: Host) -> None:
    """Copy the disk of a running host, as a snapshot of its file system would."""
    world.turn(host)
    if host.node is not None and not host.is_busy:
        host.kept = Image(read_files(host), host.applied[: host.durable], host.digest, host.has_jumped)


def roll_back(world: World, host: Host, is_rebooted: bool) -> None:
    """Put back an older copy of the disk. What only this host had acknowledged since is gone for good."""
    image = host.kept
    if image is None:
        return
    world.counts["rolled back"] += 1
    if host.node is not None:
        world.crash(host)
    if host.torn is not None:
        world.oracle.forget(host.torn.created)
        host.torn = None
    put_files(host, image.files)
    if is_rebooted:
        reboot(host)
    host.went_back, host.conn_before = True, world.conn_last
    give_up(world, host, {*host.applied[: host.durable]} - {*image.applied})
    host.applied, host.digest = list(image.applied), image.digest
    host.durable, host.has_jumped = len(image.applied), image.has_jumped
    host.synced = None


def copy(world: World, host: Host) -> Host | None:
    """Start another machine on a copy of the disk of ``host``."""
    image = host.kept
    if image is None:
        return None
    world.counts["copied"] += 1
    twin = world.make_host(host.skew_ms)
    twin.twin_of = host.original
    put_files(twin, image.files)
    twin.applied, twin.digest = list(image.applied), image.digest
    twin.durable, twin.has_jumped = len(image.applied), image.has_jumped
    world.start(twin)
    return twin


def leave(world: World, host: Host) -> None:
    """A machine is gone for good, with what only it had."""
    world.counts["left"] += 1
    if host.node is not None:
        world.turn(host)
    if host.node is not None:
        world.crash(host)
    if host.torn is not None:
        world.oracle.forget(host.torn.created)
        host.torn = None
    host.is_gone = True
    give_up(world, host, {*host.applied[: host.durable]})
    homes = world.staying()
    for agent in [agent for agent in world.agents if agent.home is host]:
        agent.move(homes[world.random.randrange(len(homes))])
    world.watchers[:] = [watcher for watcher in world.watchers if watcher.home is not host]


def give_up(world: World, host: Host, lost: set[ChangeId]) -> None:
    """Of these changes, which ``host`` has lost, nobody can expect those that no other disk holds.

    Sessions that have seen any of those would wait for them for ever; they begin anew.
    """
    for other in world.staying():
        if other is not host:
            lost -= {*other.applied[: other.durable]}
    world.forgone |= lost
    for watcher in world.watchers:
        if watcher.home is host or _has_seen(watcher.vector, lost):
            watcher.start_over()
    for agent in world.agents:
        has_seen = agent.keeping is not None and _has_seen(agent.keeping.past, lost)
        if has_seen:
            agent.keeping = Keeping() if agent.keeping is not None else None
            agent.move(agent.home)
        elif agent.home is host:
            agent.lost()


def _has_seen(vector: Mapping[Writer, int], lost: Iterable[ChangeId]) -> bool:
    return any(vector.get(Writer(writer), 0) >= seq for writer, seq in lost)
