"""This process: how full what it keeps in bounds is (connections, buffers, open files, the write-ahead log), how much
memory it may still take, and giving back what was freed.

The C library keeps freed memory otherwise, in case it is asked for again.
"""

from __future__ import annotations

import asyncio
import re
import resource
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from crdtsyncd.loop.agent_socket import BACKLOG_REQUESTS_MAX, WRITE_BUFFER_BYTES_MAX, AgentConnection
from crdtsyncd.storage.database import Store
from crdtsyncd.storage.retry_replies import OUTCOMES_BYTES_MAX, OUTCOMES_MAX
from crdtsyncd.storage.wal_checkpoint import WAL_BYTES_MAX

from crdtsync.core.diagnostics.usage import BUFFER, CAP, LIMIT, Usage, fullest

if TYPE_CHECKING:
    from crdtsyncd.config.model import Config


def shell_usages(config: Config, store: Store, agents: Iterable[AgentConnection], peers: int) -> tuple[Usage, ...]:
    """How full all of it is, now; costs some µs, and a few for each agent."""
    attached = list(agents)
    outcomes, outcome_bytes = store.outcome_stats()
    backlogs = [(each.backlog_requests, "") for each in attached]
    unread = [(each.unread_bytes, "") for each in attached]
    return (
        Usage("agents", len(attached), config.agents_max, "agents", LIMIT),
        fullest("agent_backlog", backlogs, BACKLOG_REQUESTS_MAX, "requests", BUFFER),
        fullest("agent_replies", unread, WRITE_BUFFER_BYTES_MAX, "bytes", BUFFER),
        Usage("open_files", _open_files(), resource.getrlimit(resource.RLIMIT_NOFILE)[0], "files", LIMIT),
        Usage("peer_connections", peers, config.peers_max, "connections", LIMIT),
        Usage("remembered_replies", outcomes, OUTCOMES_MAX, "replies", CAP),
        Usage("remembered_reply_bytes", outcome_bytes, OUTCOMES_BYTES_MAX, "bytes", CAP),
        Usage("write_ahead_log", store.wal_bytes(), WAL_BYTES_MAX, "bytes", BUFFER),
    )  # fmt: skip


def _open_files() -> int:
    try:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return 0


PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")
GIVE_BACK_BYTES_MIN = 4 * 1024 * 1024
"""So much has to have been freed before it is worth the call."""
_DONTNEED = 4
"""MADV_DONTNEED of madvise(2): the pages are taken from this process, and read again from the file when touched."""
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r-xp \S+ \S+ [1-9]\d* +/")
_CHANGED = re.compile(r"(?:Private_Dirty|Anonymous): +[1-9]")


def free_memory_bytes(proc: Path = PROC, cgroups: Path = CGROUPS) -> int | None:
    """How much this process may still take: what the host has, or what its cgroup allows if that is less.

    None: the system does not say.
    """
    found: list[int] = []
    with suppress(OSError, ValueError, StopIteration):
        lines = (proc / "meminfo").read_text().splitlines()
        found.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]))
    with suppress(OSError, ValueError, StopIteration):
        lines = (proc / "self" / "cgroup").read_text().splitlines()
        own = next(line for line in lines if line.startswith("0::"))[3:].strip("/")  # cgroups(7), version 2
        group = cgroups / own
        while True:
            with suppress(OSError, ValueError):
                allowed, taken = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
                found.append(max(0, allowed - taken + _cached_bytes(group)))
            if group == cgroups:
                break
            group = group.parent
    return min(found, default=None)


def _cached_bytes(group: Path) -> int:
    """Bytes of cached files, which the kernel gives up when it is asked for memory."""
    names = ("active_file", "inactive_file")
    words = (line.split() for line in (group / "memory.stat").read_text().splitlines())
    return sum(int(count) for name, count in words if name in names)


def release_start_pages() -> int:
    """Give back the code of libraries that is mapped; how many bytes of mappings that were.

    Only the start needed most of it. Code that is used comes back at once, from the page cache. With OpenSSL twice, the
    Yjs library and SQLite that is 12 MB of resident memory, measured. Only code that is as in its file is touched.
    """
    import ctypes  # here and below: not before the first agents are served

    try:
        maps = Path("/proc/self/smaps").read_text(encoding="utf-8", errors="surrogateescape")
        madvise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return 0
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    released = 0
    for block in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", maps):
        mapping = _MAPPING.match(block)
        if mapping is not None and _CHANGED.search(block) is None:
            first, end = int(mapping[1], 16), int(mapping[2], 16)
            if madvise(first, end - first, _DONTNEED) == 0:
                released += end - first
    return released


class MemoryGuard:
    """Watches how much memory the documents take; see :meth:`check`."""

    def __init__(self) -> None:
        self._peak_bytes = 0

    async def check(self, used_bytes: int) -> bool:
        """Give back what has been freed since the last peak, if that is much; whether it did."""
        if self._peak_bytes - used_bytes < GIVE_BACK_BYTES_MIN:
            self._peak_bytes = max(self._peak_bytes, used_bytes)
            return False
        self._peak_bytes = used_bytes
        import ctypes

        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc; others give back by themselves
        if trim is not None:
            await asyncio.to_thread(trim, 0)
        return True
