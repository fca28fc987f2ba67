"""Where the service may be installed from: what the manager starts must be where a service can see it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from crdtsyncd.service import install_units
from crdtsyncd.service.install_units import UnitsPlace

from crdtsync.errors import ConfigError


@pytest.fixture
def hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that services do not see; the environment of this command is elsewhere."""
    home, venv = tmp_path / "home", tmp_path / "opt"
    monkeypatch.setattr(install_units, "_HIDDEN_FROM_SERVICES", (str(home),))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(sys, "prefix", str(venv))
    monkeypatch.setattr(sys, "executable", str(venv / "bin" / "python"))
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "crdtsyncd").touch()
    home.mkdir()
    return home


def test_a_venv_of_an_interpreter_in_somebodys_home_is_refused_before_anything_is_written(tmp_path, hidden):
    """The venv is in the right place, and its python is a link into a home: each start would fail with status 203."""
    (hidden / "python3.11").touch()
    (tmp_path / "opt" / "bin" / "python").symlink_to(hidden / "python3.11")
    place = UnitsPlace(tmp_path / "units", tmp_path / "sysusers.conf", ("false",))
    with pytest.raises(ConfigError, match=r"python3.11 lies where system services cannot see it: make .* anew with a"):
        install_units.install(place, lambda *_: None)
    assert not place.units.exists()


def test_for_oneself_alone_any_interpreter_will_do(tmp_path, hidden):
    (hidden / "python3.11").touch()
    (tmp_path / "opt" / "bin" / "python").symlink_to(hidden / "python3.11")
    place = UnitsPlace(tmp_path / "units", None, ("true",))
    with pytest.raises(ConfigError, match="make"):
        install_units._program(place._replace(sysusers=tmp_path / "sysusers.conf"))
    assert install_units._program(place) == tmp_path / "opt" / "bin" / "crdtsyncd"
