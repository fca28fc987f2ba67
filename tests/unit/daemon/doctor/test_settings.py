"""``doctor`` judges the settings of the daemon that runs, not those that a daemon of its own user would take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from crdtsyncd.doctor import settings
from crdtsyncd.doctor.settings import examine_settings, started_with

PID = 4711


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file that a daemon of this user takes by itself."""
    file = tmp_path / "config" / "crdtsync" / "crdtsyncd.toml"
    file.parent.mkdir(parents=True)
    file.write_text('node_name = "own"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("CRDTSYNC_SOCKET", "CRDTSYNC_NODE_NAME"):
        monkeypatch.delenv(name, raising=False)
    return file


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Have a daemon run that was started by these words."""
    true = started_with

    def start(*words: str) -> None:
        place = tmp_path / "proc" / str(PID)
        place.mkdir(parents=True, exist_ok=True)
        (place / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
        if not (place / "cwd").is_symlink():
            (place / "cwd").symlink_to(tmp_path)
        monkeypatch.setattr(settings, "started_with", lambda pid: true(pid, tmp_path / "proc"))

    return start


def test_the_file_and_the_options_are_the_daemons(started: Callable[..., None], tmp_path: Path):
    (tmp_path / "other.toml").write_text('node_name = "other"\npeers_max = 7\n')
    for words in (["--config", "other.toml"], [f"--config={tmp_path}/other.toml"]):
        started("/usr/bin/python3", "/opt/crdtsync/bin/crdtsyncd", *words, "--listen", "127.0.0.1:1", "--archive")
        config, finding = examine_settings(None, PID)
        assert config is not None
        assert (config.node_name, config.peers_max, config.listen) == ("other", 7, ["127.0.0.1:1"])
        assert (finding.state, "other.toml" in finding.message, "--listen" in finding.message) == ("ok", True, True)


def test_options_are_named_as_they_are_typed(started: Callable[..., None]):
    started("crdtsyncd", "--peer", "host-b:7420", "--archive")
    config, finding = examine_settings(None, PID)
    assert config is not None
    assert config.peers == ["wss://host-b:7420"]
    assert finding.message.endswith("options --archive, --peer")


def test_without_an_option_it_is_the_default(started: Callable[..., None], own: Path):
    started("/usr/bin/python3", "/opt/crdtsync/bin/crdtsyncd")
    assert started_with(PID) is None, "that is no process of this machine"
    config, finding = examine_settings(None, PID)
    assert config is not None
    assert (config.node_name, finding.message) == ("own", str(own))


def test_a_file_that_is_named_is_judged_and_that_it_is_not_the_daemons_is_told(
    started: Callable[..., None], own: Path, tmp_path: Path
):
    (tmp_path / "other.toml").write_text('node_name = "other"\n')
    started("crdtsyncd", "--config", str(tmp_path / "other.toml"))
    config, finding = examine_settings(str(own), PID)
    assert config is not None
    assert (config.node_name, finding.state) == ("own", "warning")
    assert f"was started with {tmp_path}/other.toml" in finding.message
    _, finding = examine_settings(str(tmp_path / "other.toml"), PID)
    assert finding.state == "ok"


@pytest.mark.parametrize("words", [["/usr/sbin/sshd", "--config", "/etc/x"], ["python3", "-c", "crdtsyncd()"], []])
def test_of_another_program_nothing_is_believed(started: Callable[..., None], own: Path, words: list[str]):
    started(*words)
    config, finding = examine_settings(None, PID)
    assert config is not None
    assert (config.node_name, finding.message) == ("own", str(own))


def test_a_faulty_file_is_a_problem(started: Callable[..., None], tmp_path: Path):
    (tmp_path / "other.toml").write_text("lissten = 1\n")
    started("crdtsyncd", "--config", "other.toml")
    config, finding = examine_settings(None, PID)
    assert config is None
    assert (finding.state, "other.toml" in finding.message) == ("problem", True)
