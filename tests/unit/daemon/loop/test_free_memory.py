"""How much memory is free: the host's, or what a cgroup above this process allows."""

from __future__ import annotations

from pathlib import Path

from crdtsyncd.loop.free_memory import free_memory_bytes

MIB = 1024 * 1024


def machine(place: Path, limits: dict[str, tuple[str, int]]) -> tuple[Path, Path]:
    """A host with 100 MiB available, and this process in ``a/b``; of each group the most and what is in use."""
    proc, cgroups = place / "proc", place / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 204800 kB\nMemAvailable:  102400 kB\n")
    (proc / "self" / "cgroup").write_text("0::/a/b\n")
    (cgroups / "a" / "b").mkdir(parents=True)
    for group, (most, current) in limits.items():
        (cgroups / group / "memory.max").write_text(f"{most}\n")
        (cgroups / group / "memory.current").write_text(f"{current}\n")
        (cgroups / group / "memory.stat").write_text(f"anon 5\nactive_file {MIB}\ninactive_file {MIB}\n")
    return proc, cgroups


def test_without_a_limit_it_is_what_the_host_has(tmp_path: Path) -> None:
    assert free_memory_bytes(*machine(tmp_path, {"a/b": ("max", 7)})) == 100 * MIB


def test_the_narrowest_limit_counts_without_what_is_cached(tmp_path: Path) -> None:
    limits = {"a": (str(50 * MIB), 30 * MIB), "a/b": (str(80 * MIB), 30 * MIB)}
    assert free_memory_bytes(*machine(tmp_path, limits)) == 22 * MIB


def test_a_system_that_does_not_say(tmp_path: Path) -> None:
    assert free_memory_bytes(tmp_path / "none", tmp_path / "none") is None


def test_this_one_says() -> None:
    assert free_memory_bytes() is not None
