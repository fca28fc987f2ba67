"""The service's systemd units: where they go, what they say, and the calls that put them in force.

Every step is idempotent and reported to the caller as ``(what, path or unit)``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from crdtsync.errors import ConfigError
from crdtsync.named_tuple import NamedTuple

UNITS = ("crdtsyncd.socket", "crdtsyncd.service")
ON_DEMAND = ("crdtsyncd-peers.socket",)
"""Put in place as well, for who wants to enable them."""
SERVICE_DATA = Path("/var/lib/crdtsync")
"""Where the service keeps its data; see ``StateDirectory`` in its unit."""
CALL_TIMEOUT_S = 120.0
_HIDDEN_FROM_SERVICES = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108  # by ProtectHome and PrivateTmp

Report = Callable[[str, str], None]


class UnitsPlace(NamedTuple):
    """Where a kind of installation keeps its files, and how its manager is called."""

    units: Path
    sysusers: Path | None
    manager: tuple[str, ...]

    @property
    def whose(self) -> str:
        """The suffix of a unit's name, since both kinds may be installed at once."""
        return "" if self.sysusers is not None else " of this user"

    @property
    def templates(self) -> str:
        """The folder of the unit files that belong here."""
        return "system" if self.sysusers is not None else "user"


class UnitState(NamedTuple):
    """The manager's report on one unit. ``result`` and ``status``: how its last process ended, ``success`` and 0 if
    well or if none has; ``text``: what the daemon said last; ``last_pid``: of the process that runs, or ran last.
    """

    unit: str
    active: str
    enabled: str
    pid: int
    restarts: int
    text: str
    result: str
    status: int
    last_pid: int = 0


def is_service_here() -> bool:
    """Whether the service is installed for this machine, or has left its data."""
    return SERVICE_DATA.is_dir() or Path("/etc/systemd/system", UNITS[1]).exists()


def place_of(user: bool) -> UnitsPlace:
    """The place for the whole machine, or for the calling user alone.

    :raises ConfigError: systemd does not run here, or this user may not install for the machine.
    """
    if shutil.which("systemctl") is None or not Path("/run/systemd/system").is_dir():
        raise ConfigError("systemd does not run on this machine: start crdtsyncd by the service manager that does")
    if user:
        base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        return UnitsPlace(Path(base) / "systemd" / "user", None, ("systemctl", "--user"))
    return UnitsPlace(Path("/etc/systemd/system"), Path("/etc/sysusers.d/crdtsync.conf"), ("systemctl",))


def installed_places() -> list[UnitsPlace]:
    """Where the service is installed: for the machine, and for the calling user.

    :raises ConfigError: systemd does not run here.
    """
    places = [place_of(user=is_user) for is_user in (False, True)]
    return [place for place in places if (place.units / UNITS[1]).exists()]


def states(place: UnitsPlace) -> list[UnitState]:
    """The units of an installation; those for who wants them, if they are in place.

    :raises ConfigError: the manager does not say.
    """
    wanted = [unit for unit in ON_DEMAND if (place.units / unit).exists()]
    return [state(place, unit) for unit in (*UNITS, *wanted)]


def install(place: UnitsPlace, report: Report) -> None:
    """Write the units, enable them and start them. Units that stand already are left as they are.

    :raises ConfigError: a file cannot be written, or the manager refuses.
    """
    _check_rights(place)
    program = _program(place)
    changed = False
    if place.sysusers is not None and _write(place.sysusers, _template("sysusers", "crdtsync.conf"), report):
        _call(["systemd-sysusers", str(place.sysusers)])
    for unit in (*UNITS, *ON_DEMAND):
        text = _template(place.templates, unit).replace("@crdtsyncd@", str(program))
        changed |= _write(place.units / unit, text, report)
    if changed:
        _call([*place.manager, "daemon-reload"])
    for unit in UNITS:
        before = state(place, unit)
        _call([*place.manager, "enable", "--quiet", unit])
        if before.enabled != "enabled":
            report("enabled", unit)
    if state(place, UNITS[0]).active == "failed":  # the manager opens it anew only while the service does not run
        _call([*place.manager, "stop", UNITS[1]])
    for unit in UNITS:
        was_active = state(place, unit).active == "active"
        if not was_active or (changed and unit == "crdtsyncd.service"):
            _start(place, unit, "restart" if was_active else "start")
            report("restarted" if was_active else "started", unit)


def _start(place: UnitsPlace, unit: str, how: str) -> None:
    """:raises ConfigError: it does not start; why, as far as that can be told."""
    from crdtsyncd.service.diagnose_units import start_failed

    try:
        _call([*place.manager, how, unit])
    except ConfigError:
        if unit != UNITS[1]:
            raise
        fault = start_failed(place, state(place, unit))
        raise ConfigError(f"{fault.unit} {fault.message}; {fault.remedy}") from None


def uninstall(place: UnitsPlace, report: Report) -> None:
    """Stop, disable and remove the units. Data, configuration and the user stay.

    :raises ConfigError: a file cannot be removed, or the manager refuses.
    """
    _check_rights(place)
    for unit in reversed((*UNITS, *ON_DEMAND)):
        before = state(place, unit)
        if before.active in ("active", "activating", "failed"):
            _call([*place.manager, "stop", unit])
            report("stopped", unit)
        if before.enabled == "enabled":
            _call([*place.manager, "disable", "--quiet", unit])
            report("disabled", unit)
    found = [
        path
        for path in (*(place.units / unit for unit in (*UNITS, *ON_DEMAND)), place.sysusers)
        if path and path.exists()
    ]
    for path in found:
        try:
            path.unlink()
        except OSError as error:
            raise ConfigError(f"cannot remove {path}: {error.strerror}") from None
        report("removed", str(path))
    if found:
        _call([*place.manager, "daemon-reload"])


def state(place: UnitsPlace, unit: str) -> UnitState:
    """The manager's knowledge of a unit, which need not exist."""
    names = (
        "ActiveState", "UnitFileState", "MainPID", "NRestarts", "StatusText", "Result", "ExecMainStatus", "ExecMainPID"
    )  # fmt: skip
    output = _call([*place.manager, "show", unit, "--property", ",".join(names)])
    found = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
    return UnitState(
        unit,
        found.get("ActiveState", "unknown"),
        found.get("UnitFileState") or "not installed",
        int(found.get("MainPID") or 0),
        int(found.get("NRestarts") or 0),
        found.get("StatusText", ""),
        found.get("Result", ""),
        int(found.get("ExecMainStatus") or 0),
        int(found.get("ExecMainPID") or 0),
    )


def is_current(place: UnitsPlace, unit: str) -> bool:
    """Whether the unit file in place is that of this version; also where this cannot be told."""
    try:
        text = _template(place.templates, unit).replace("@crdtsyncd@", str(_program(place)))
        return (place.units / unit).read_text(encoding="utf-8") == text
    except (ConfigError, OSError):
        return True


def _check_rights(place: UnitsPlace) -> None:
    if place.sysusers is not None and os.geteuid() != 0:
        raise ConfigError("the service of the whole machine needs root: use sudo, or --user for yourself alone")


def _program(place: UnitsPlace) -> Path:
    """The daemon that belongs to this command."""
    program = Path(sys.prefix) / "bin" / "crdtsyncd"
    if not program.is_file():
        found = shutil.which("crdtsyncd")
        if found is None:
            raise ConfigError("there is no crdtsyncd beside this command: install the package anew")
        program = Path(found)
    if place.sysusers is not None:
        _check_visible(program, "install the package into /opt/crdtsync or the like, or use --user")
        interpreter = Path(sys.executable).resolve()  # of a venv it is a link to one elsewhere
        _check_visible(interpreter, f"make {sys.prefix} anew with a Python of the system, or use --user")
    return program


def _check_visible(path: Path, remedy: str) -> None:
    if str(path).startswith(tuple(f"{folder}/" for folder in _HIDDEN_FROM_SERVICES)):
        raise ConfigError(f"{path} lies where system services cannot see it: {remedy}")


def _templates() -> Traversable:
    """The unit files: in the package, or, in a checkout, beside it."""
    packaged = files("crdtsyncd") / "systemd"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[3] / "systemd"


def _template(folder: str, name: str) -> str:
    return (_templates() / folder / name).read_text(encoding="utf-8")


def _write(path: Path, text: str, report: Report) -> bool:
    try:
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            report("unchanged", str(path))
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o644)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None
    report("wrote", str(path))
    return True


def _call(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=CALL_TIMEOUT_S, check=False)
    except FileNotFoundError:
        raise ConfigError(f"{command[0]} is not installed on this machine") from None
    except subprocess.TimeoutExpired:
        raise ConfigError(f"`{' '.join(command)}` did not end within {CALL_TIMEOUT_S:.0f} s") from None
    if done.returncode != 0:
        raise ConfigError(f"`{' '.join(command)}` failed: {' '.join(done.stderr.split()) or done.returncode}")
    return done.stdout
