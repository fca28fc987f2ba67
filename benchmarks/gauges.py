"""What daemons take up: memory, files, and what they say of themselves; and figures made of many readings."""

from __future__ import annotations

import math
import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.daemons import DaemonError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.daemons import Daemon
    from crdtsync.client import AsyncClient

MIB = 1024 * 1024
_FROM_STATUS = (
    "log_changes", "log_bytes", "history_bytes", "document_bytes", "keys", "entries", "siblings", "digest",
    "version_vector",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reading:
    """One daemon at one moment."""

    writes: int
    """How many writes of the benchmark had been acknowledged by then."""
    node: str
    rss_bytes: int
    file_bytes: int
    wal_bytes: int
    log_changes: int
    log_bytes: int
    history_bytes: int
    document_bytes: int
    keys: int
    entries: int
    siblings: int
    hash_rows: int
    """Of changes that the log no longer holds."""
    digest: str
    version_vector: dict[str, int]


@dataclass(frozen=True, slots=True)
class Live:
    """The live state as the database has it."""

    entries: int
    bytes: int
    """Of keys and values."""


def rss_bytes(pid: int | None) -> int:
    """Resident memory of a process.

    :raises DaemonError: there is no such process, or no ``/proc``.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise DaemonError(f"cannot read the memory of process {pid}: {error} (this takes Linux's /proc)") from None
    found = next((line for line in status.splitlines() if line.startswith("VmRSS:")), None)
    if found is None:
        raise DaemonError(f"process {pid} has ended")
    return int(found.split()[1]) * 1024


def private_bytes(pid: int | None) -> int:
    """What of its memory no other process shares."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def cpu_s(pid: int | None) -> float:
    """The processor time that a process has taken so far, in seconds; unlike time, it does not count what others do.

    :raises DaemonError: there is no such process, or no ``/proc``.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise DaemonError(f"cannot read the times of process {pid}: {error} (this takes Linux's /proc)") from None
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def cpu_exact_s(pid: int | None) -> float:
    """Processor time of all threads, in the kernel's ns: the ticks of /proc/PID/stat are too coarse for an idle one."""
    return sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


async def read(daemon: Daemon, client: AsyncClient, writes: int = 0) -> Reading:
    """Read one daemon, with a client of it."""
    space = await default_space(client)
    return Reading(
        writes=writes,
        node=daemon.name,
        rss_bytes=rss_bytes(daemon.pid),
        file_bytes=_size(daemon.database),
        wal_bytes=_size(daemon.database.with_name(f"{daemon.database.name}-wal")),
        hash_rows=_rows(daemon.database, "change_hashes"),
        **{name: space[name] for name in _FROM_STATUS},
    )


async def default_space(client: AsyncClient) -> dict[str, Any]:
    """The default space in the daemon's status."""
    status = await client.status()
    return next(space for space in status["spaces"] if space["name"] == "default")


def live(daemon: Daemon) -> Live:
    """What the database holds as live state."""
    with _opened(daemon.database) as database:
        row = database.execute(
            "SELECT COUNT(*), TOTAL(LENGTH(CAST(key AS BLOB)) + IFNULL(value_bytes, LENGTH(value))) FROM entries "
            "WHERE position IS NULL"
        )
        count, size_bytes = row.fetchone()
    return Live(int(count), int(size_bytes))


def differences(readings: Sequence[Reading]) -> list[str]:
    """In what the states of daemons differ that must all hold the same; empty: in nothing."""
    found = []
    for name in ("version_vector", "digest", "keys", "entries", "siblings"):
        values = {str(getattr(reading, name)) for reading in readings}
        if len(values) > 1:
            listed = "; ".join(f"{reading.node}: {getattr(reading, name)}" for reading in readings)
            found.append(f"the nodes differ in {name}: {listed}")
    return found


def slope(points: Iterable[tuple[float, float]]) -> float:
    """How much the second number grows with the first, by least squares; 0 for fewer than two points."""
    known = list(points)
    if len(known) < 2:
        return 0.0
    mean_x = sum(x for x, _ in known) / len(known)
    mean_y = sum(y for _, y in known) / len(known)
    spread = sum((x - mean_x) ** 2 for x, _ in known)
    return sum((x - mean_x) * (y - mean_y) for x, y in known) / spread if spread else 0.0


def percentile(values: Iterable[float], share: float) -> float:
    """The value that ``share`` of them do not exceed (nearest rank); NaN for none."""
    known = sorted(values)
    return known[max(0, math.ceil(share * len(known)) - 1)] if known else math.nan


def _rows(path: Path, table: str) -> int:
    with _opened(path) as database:
        (count,) = database.execute(f"SELECT COUNT(*) FROM {table}").fetchone()
    return int(count)


def _opened(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
