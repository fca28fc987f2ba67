"""An invite need not be among the words of a command, which every user of the host can read."""

from __future__ import annotations

from pathlib import Path

import pytest
from crdtsyncd.config.invite_argument import invite_of

from tests.harness import wait_until
from tests.integration.test_clusters import hosts, invite, run

__all__ = ["hosts"]

pytestmark = pytest.mark.integration


def words_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


@pytest.mark.parametrize("way", ["a file", "stdin"])
def test_a_daemon_joins_by_an_invite_that_ps_does_not_show(hosts, tmp_path, way):
    first = hosts.start("host-a")
    run(first, "cluster", "init")
    word, file = invite(first), tmp_path / "invite"
    file.write_text(word + "\n")
    option = f"--join {file}" if way == "a file" else f"--join - < {file}"
    second = hosts.start("host-b", prefix=["sh", "-c", f'exec "$@" {option}', "sh"])
    wait_until(lambda: "host-b" in run(first, "cluster", "members"))
    assert "--join" in words_of(second.pid)
    assert word not in words_of(second.pid)
    file.unlink()  # it was needed once
    second.reload()
    second.wait_log(lambda event: event.get("event") == "reloaded")


def test_a_command_joins_by_a_file(hosts, tmp_path):
    first, second = hosts.start("host-a"), hosts.start("host-b")
    run(first, "cluster", "init")
    (tmp_path / "invite").write_text(invite(first) + "\n")
    assert "joined" in run(second, "cluster", "join", str(tmp_path / "invite"))


def test_an_invite_itself_is_no_file_and_what_is_neither_is_left_to_who_reads_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "crdtsync1.word").write_text("another")
    assert invite_of("crdtsync1.word") == "crdtsync1.word"
    for nothing in ("nowhere", "", ".", "a\0b"):
        assert invite_of(nothing) == nothing
