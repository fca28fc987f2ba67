"""Agents under the names that their frameworks give them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crdtsync import Client, InvalidRequest
from tests.harness import Cluster, Daemon, wait_until_equal
from tests.harness.shell import Shell

pytestmark = pytest.mark.integration

NAMES = ["Research Lead", "crew:writer", "Claude Code (2)", "Ünïcode/助手", "a" * 128, "name@example.com", "x"]


def test_names_as_frameworks_have_them_are_shown_on_every_host(pair: Cluster) -> None:
    for name in NAMES:
        with Client(socket=pair[0].socket, agent=name) as one:
            one.set(name, 1)
            one.append("l", name)
            one.session(f"{name[:-1]}z").set(f"{name}/2", 1)
            assert next(one.watch(name, timeout=60)).agent == name
            assert name in [agent["name"] for agent in one.status()["agents"]]
    wait_until_equal(pair)
    other = pair[1].client("reader")
    for name in NAMES:
        entry, session = other.entry(name), other.entry(f"{name}/2")
        assert entry is not None
        assert session is not None
        assert (entry.agent, session.agent) == (name, f"{name[:-1]}z")
        assert other.history(name)[0].agent == name
    assert [item.agent for item in other.log_items("l")] == NAMES


def test_what_would_not_show_on_one_line_is_no_name(daemon: Daemon) -> None:
    for name in (" a", "a ", "a\nb", "a\x1b[31m", "a\u200bb", "a" * 129, "\u2028", "a\tb"):
        with pytest.raises(InvalidRequest, match="cannot name an agent: use 1 to 128 printable characters"):
            daemon.client(name)
        with pytest.raises(InvalidRequest, match="cannot name an agent"):
            daemon.client("a").session(name).set("k", 1)


def test_the_command_line_takes_and_shows_it(daemon: Daemon, tmp_path: Path) -> None:
    crdtsync = Shell(daemon.socket, tmp_path)
    crdtsync.ok("--agent", "Research Lead", "set", "k", "1")
    assert json.loads(crdtsync.ok("get", "k", "--json"))["agent"] == "Research Lead"
    assert "Research Lead" in crdtsync.ok("history", "k")
    assert crdtsync("--agent", "a\nb", "set", "k", "1").status == 2
