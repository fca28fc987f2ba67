"""How much memory this process may still take: what the host has, or what its cgroup allows if that is less."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


def free_memory_bytes(proc: Path = PROC, cgroups: Path = CGROUPS) -> int | None:
    """See the module's description; None: the system does not say."""
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
