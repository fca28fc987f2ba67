"""Fetch what the rivals need: programs of Debian, a venv of their own, and packages of npm; once."""

from __future__ import annotations

import compileall
import fcntl
import hashlib
import os
import shutil
import site
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".rivals"
PYTHON = CACHE / "venv" / "bin" / "python"
NODE_MODULES = CACHE / "node" / "node_modules"

PROGRAMS = {
    "redis-server": "redis-server", "nats-server": "nats-server", "etcd": "etcd-server", "npm": "npm",
    "chromium": "chromium",
}  # fmt: skip
"""What must be on the path, and Debian's package that has it. The last one is for tests of pages."""
INSTALL_TIMEOUT_S = 240


class InstallError(Exception):
    """Something could not be fetched; the message says what."""


def install_programs(names: set[str]) -> None:
    """Install with apt-get those of ``names`` that are not there; needs root then.

    Services that the packages would start are kept from starting. Of several processes that want something, one
    installs at a time: apt-get itself fails where another one runs.

    :raises InstallError: it does not work.
    """
    with (Path(tempfile.gettempdir()) / "crdtsync-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _install_missing(names)


def _install_missing(names: set[str]) -> None:
    missing = sorted({PROGRAMS[name] for name in names if shutil.which(name) is None})
    if not missing:
        return
    policy = Path("/usr/sbin/policy-rc.d")  # asked before a service is started; 101: do not
    is_ours = not policy.exists()
    if is_ours:
        policy.write_text("#!/bin/sh\nexit 101\n", encoding="ascii")
        policy.chmod(0o755)
    try:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        _run(["apt-get", "update", "-q"], environment)
        _run(["apt-get", "install", "-q", "-y", "--no-install-recommends", *missing], environment)
    finally:
        if is_ours:
            policy.unlink()


def install_python() -> None:
    """Make the venv, and let this process import from it what it does not have itself.

    :raises InstallError: it does not work.
    """
    lock = HERE / "requirements.lock"
    if _is_stale("venv", lock):
        shutil.rmtree(CACHE / "venv", ignore_errors=True)
        _run([sys.executable, "-m", "venv", "--without-pip", str(CACHE / "venv")])
        pip = [sys.executable, "-m", "pip", "--python", str(PYTHON), "install", "--quiet"]
        _run([*pip, "--require-hashes", "--no-deps", "-r", str(lock)])
        _fresh("venv", lock)
    for packages in (CACHE / "venv" / "lib").glob("python*/site-packages"):
        site.addsitedir(str(packages))


def compile_project() -> None:
    """Compile the daemon's modules, as an installation does: a checkout may do without, and compile at every start."""
    for package in ("crdtsync", "daemon/crdtsyncd"):
        compileall.compile_dir(HERE.parents[1] / package, quiet=2)


def install_node() -> None:
    """Fetch the servers that run on Node.

    :raises InstallError: it does not work.
    """
    lock = HERE / "node" / "package-lock.json"
    if _is_stale("node", lock):
        shutil.rmtree(CACHE / "node", ignore_errors=True)
        shutil.copytree(HERE / "node", CACHE / "node")
        _run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(CACHE / "node")])
        _fresh("node", lock)


def _is_stale(name: str, lock: Path) -> bool:
    stamp = CACHE / f"{name}.stamp"
    return not stamp.exists() or stamp.read_text(encoding="ascii") != _digest(lock)


def _fresh(name: str, lock: Path) -> None:
    (CACHE / f"{name}.stamp").write_text(_digest(lock), encoding="ascii")


def _digest(lock: Path) -> str:
    return hashlib.sha256(lock.read_bytes()).hexdigest()


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    print(f"installing: {' '.join(command)}", file=sys.stderr, flush=True)
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=INSTALL_TIMEOUT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise InstallError(f"{command[0]} did not end in {INSTALL_TIMEOUT_S} s") from None
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-10:])
        raise InstallError(f"{command[0]} failed:\n{tail}")
