"""A machine of its own with a real systemd: private namespaces over a writable copy of this machine's files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from email import message_from_bytes
from importlib.metadata import Distribution, distribution
from pathlib import Path
from time import monotonic, sleep
from typing import Self

from packaging.requirements import Requirement

BOOT_TIMEOUT_S = 100.0
SCRIPT = Path(__file__).with_name("boot.sh")
SYSTEMD = Path("/lib/systemd/systemd")
PYTHON = Path(f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}")


def lacks() -> str:
    """Why no machine can be booted here; empty if it can."""
    if os.geteuid() != 0:
        return "booting a machine needs root"
    if not SYSTEMD.exists() or shutil.which("unshare") is None:
        return "systemd is not installed here"
    if not PYTHON.exists():
        return f"needs {PYTHON}, for services do not see an interpreter in somebody's home"
    return ""


class Machine:
    """Booted on entry, gone on exit with all its processes and files. Commands run in it as root."""

    def __init__(self, opt: Path) -> None:
        self._opt = opt
        self._top = Path(tempfile.mkdtemp(prefix="crdtsync-boot-"))
        self._outer: subprocess.Popen[bytes] | None = None
        self._pid = 0

    def __enter__(self) -> Self:
        flags = ("--pid", "--fork", "--kill-child", "--mount", "--cgroup", "--net", "--uts", "--ipc")
        self._outer = subprocess.Popen(
            ["unshare", *flags, "sh", str(SCRIPT), str(self._top), str(self._opt)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            self._wait_booted()
            self.run("ip", "link", "set", "lo", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._outer is not None
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)  # as the first of its namespace it takes all others along
        self._outer.kill()
        self._outer.wait()
        shutil.rmtree(self._top, ignore_errors=True)

    def _wait_booted(self) -> None:
        assert self._outer is not None
        deadline = monotonic() + BOOT_TIMEOUT_S
        while monotonic() < deadline:
            assert self._outer.poll() is None, "the machine went down while it booted"
            self._pid = self._pid or _first_process(self._outer.pid)
            if self._pid and self.call("systemctl", "is-system-running").stdout.strip() in ("running", "degraded"):
                return
            sleep(0.1)
        raise TimeoutError(f"the machine did not boot within {BOOT_TIMEOUT_S:.0f} s")

    def call(self, *command: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a command in the machine, whatever its exit status."""
        return subprocess.run(
            [
                "nsenter",
                "--target",
                str(self._pid),
                "--all",
                "--",
                "env",
                "-i",
                f"PATH={_PATH}",
                "LANG=C.UTF-8",
                *command,
            ],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def run(self, *command: str, timeout_s: float = 60.0) -> str:
        """Run a command in the machine that must succeed; its output."""
        done = self.call(*command, timeout_s=timeout_s)
        assert done.returncode == 0, f"{' '.join(command)}: {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Start a command in the machine; the caller waits for it."""
        return subprocess.Popen(
            ["nsenter", "--target", str(self._pid), "--all", "--", "env", "-i", f"PATH={_PATH}", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def property(self, unit: str, name: str) -> str:
        """What systemd says of a unit."""
        return self.run("systemctl", "show", unit, "--property", name, "--value").strip()


_PATH = "/opt/crdtsync/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _first_process(unshare: int) -> int:
    """The child of ``unshare``, once it has become systemd."""
    try:
        children = Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()
        return next((int(pid) for pid in children if Path(f"/proc/{pid}/exe").resolve() == SYSTEMD.resolve()), 0)
    except OSError:
        return 0


def install_wheel(wheel: Path, opt: Path) -> None:
    """Install a wheel into ``opt``/crdtsync, to be used as /opt/crdtsync, with the packages that it asks for taken
    from this environment: nothing is downloaded.
    """
    place = opt / "crdtsync"
    subprocess.run([str(PYTHON), "-m", "venv", "--without-pip", str(place)], check=True)
    packages = next(place.glob("lib/python*/site-packages"))
    for needed in _closure(_requirements(wheel)):
        _copy(needed, packages)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(place / "bin/python")]
    subprocess.run([*pip, "install", "--no-index", "--no-deps", str(wheel)], check=True)
    for script in place.glob("bin/crdtsync*"):
        script.write_text(script.read_text().replace(str(place), "/opt/crdtsync"))


def _requirements(wheel: Path) -> list[str]:
    """What a wheel asks for, in its own words: an older one asks for other things."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name)).get_all("Requires-Dist") or []


def _closure(lines: Sequence[str]) -> Iterator[Distribution]:
    """The packages that are asked for, also for the daemon, and all that these ask for."""
    todo, seen = [(line, "daemon") for line in lines], set[str]()
    while todo:
        line, extra = todo.pop()
        requirement = Requirement(line)
        if requirement.name in seen or (requirement.marker and not requirement.marker.evaluate({"extra": extra})):
            continue
        seen.add(requirement.name)
        found = distribution(requirement.name)
        todo += [(needed, "") for needed in found.requires or []]
        yield found


def _copy(package: Distribution, target: Path) -> None:
    for file in package.files or ():
        source = Path(str(file.locate()))
        if ".." not in file.parts and source.is_file():
            place = target / file
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, place)  # with its time: else what was compiled is compiled again at every start
