"""Counters, sets, maps and conflicts through the command line: read, written, watched, exported and imported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crdtsync.client import Client
from tests.harness import Cluster, Daemon
from tests.harness.cluster import healed
from tests.harness.shell import Running, Shell
from tests.harness.values import AWKWARD

pytestmark = pytest.mark.integration


@pytest.fixture
def crdtsync(daemon: Daemon, tmp_path: Path) -> Shell:
    """The command line of one daemon."""
    return Shell(daemon.socket, tmp_path)


def lines(running: Running, count: int) -> list[Any]:
    return [running.event() for _ in range(count)]


def test_the_commands_of_counters_sets_and_maps(crdtsync: Shell) -> None:
    assert [crdtsync.ok("incr", "c"), crdtsync.ok("incr", "c", "-3"), crdtsync.ok("incr", "c", "--", "-1")] == [
        "1",
        "-2",
        "-3",
    ]
    (done,) = crdtsync.json("incr", "c", "5", "--json", "--agent", "critic")
    assert done == {"value": 2, "token": done["token"]}
    (version,) = [entry["version"] for entry in crdtsync.json("get", "c", "--json")]
    assert crdtsync("reset", "c", "--if-version", "v1.kwAAkA").status == 1
    assert crdtsync.ok("reset", "c", "--if-version", version) == "2"
    assert crdtsync.ok("get", "c") == "0"

    token = crdtsync.ok("add", "s", "-", stdin='{"$bytes": "AP8="}')
    assert crdtsync.ok("wait", token) == "1"
    crdtsync.ok("add", "s", "-5")
    assert crdtsync.json("add", "s", "--string", "-5", "--json")[0]["added"] is True
    assert crdtsync.ok("members", "s") == '{"$bytes": "AP8="}\n-5\n"-5"'
    assert crdtsync.ok("members", "s", "-n", "1") == '{"$bytes": "AP8="}'
    assert set(crdtsync.json("members", "s", "--json")[0]) == {"value", "agent", "node", "time"}
    assert crdtsync.json("discard", "s", "-5", "--json")[0]["existed"] is True

    crdtsync.ok("merge", "m", '{"a": {"$bytes": "AA=="}, "b": 1}')
    (done,) = [json.loads(crdtsync.ok("merge", "m", "-", "--json", stdin='{"$$bytes": 2}'))]
    assert set(done) == {"token", "siblings", "nodes"}
    assert crdtsync.ok("get", "m") == '{"$bytes": 2, "a": {"$bytes": "AA=="}, "b": 1}'
    crdtsync.ok("drop", "m", "b")
    assert [(line["key"], line["kind"]) for line in crdtsync.json("ls", "--json")] == [
        ("c", "counter"),
        ("m", "map"),
        ("s", "set"),
    ]


def test_what_the_commands_refuse(crdtsync: Shell) -> None:
    crdtsync.ok("set", "r", "1")
    crdtsync.ok("add", "s", "1")
    crdtsync.ok("doc", "d", "--set", "a", "1")
    dot = crdtsync.json("get", "r", "--json")[0]["dot"]
    expected: dict[int, list[tuple[str, ...]]] = {
        1: [
            ("members", "none"),
            ("discard", "s", "2"),
            ("drop", "none", "a"),
            ("discard", "none", "1"),
            ("doc", "none", "--delete", "a"),
            ("doc", "d", "--delete", "a/b"),
            ("resolve", "none", "--merge"),
            ("resolve", "d", "--merge"),
            ("resolve", "r", "--take", dot),
        ],
        2: [("incr", "c", "1.5"), ("merge", "m", "{"), ("resolve", "r"), ("resolve", "r", "--value", "1", "--merge")],
        4: [
            ("incr", "r"),
            ("incr", "c", str(2**53 + 1)),
            ("merge", "m", "[1]"),
            ("merge", "m", '{"": 1}'),
            ("members", "r"),
            ("resolve", "r", "--take", "x"),
            ("resolve", "s", "--merge"),
        ],
    }
    for status, commands in expected.items():
        for command in commands:
            done = crdtsync(*command)
            assert (command, done.status, done.out) == (command, status, ""), done.err
            assert done.err.count("\n") == 1
    error = json.loads(crdtsync("discard", "s", "2", "--json").err)["error"]
    assert error == {"code": "absent", "message": "2 is not in 's'"}


def test_a_watch_prints_the_events_of_every_kind(crdtsync: Shell) -> None:
    with crdtsync.start("watch") as watch:
        watch.event()
        crdtsync.ok("incr", "c", "4")
        crdtsync.ok("add", "s", '{"$bytes": "AP8="}')
        crdtsync.ok("discard", "s", '{"$bytes": "AP8="}')
        crdtsync.ok("batch", "-", stdin='{"op":"merge","key":"m","fields":{"a":1,"b":2}}\n{"op":"incr","key":"c"}')
        single = [(e["event"], e["key"], e["kind"], e["op"], e["value"]) for e in lines(watch, 3)]
        assert single[:2] == [
            ("set", "c", "counter", "incr", 4),
            ("set", "s", "set", "add", {"$bytes": "AP8="}),
        ]
        assert single[2][:2] == ("delete", "s")
        batch = watch.event()
        assert [(e["key"], e["op"], e["value"]) for e in batch["events"]] == [
            ("m", "merge", {"a": 1, "b": 2}),
            ("c", "incr", 5),
        ]


def test_conflicts_are_shown_and_settled_from_the_shell(parted: Cluster, tmp_path: Path) -> None:
    for number, daemon in enumerate(parted):
        client = daemon.client(f"agent-{number}")
        client.merge("m", {"f": f"value {number}", "own": 1} if number else {"f": f"value {number}"})
        client.set("r", number)
    healed(parted)
    crdtsync = Shell(parted[0].socket, tmp_path)
    table = crdtsync.ok("conflicts").splitlines()
    assert table[0].split() == ["KEY", "DOT", "AGENT", "NODE", "TIME", "SEEN", "VALUE"]
    assert [row.split()[0] for row in table[1:]] == ["m", "m", "r", "r"]
    found = {entry["key"]: entry for entry in crdtsync.json("conflicts", "--json")}
    (sibling,) = found["m"]["siblings"]
    assert sibling["field"] == "f"
    assert json.dumps({"f": sibling["value"]}) in table[2]
    done = crdtsync("get", "m", "--siblings")
    assert done.out.splitlines()[1] == json.dumps({"f": sibling["value"]})
    (settled,) = crdtsync.json("resolve", "m", "--take", sibling["dot"], "--json")
    assert settled["resolved"] == 1
    assert crdtsync.json("get", "m")[0]["f"] == sibling["value"]
    crdtsync.ok("resolve", "r", "--value", "-7")
    assert crdtsync.ok("get", "r", "--siblings") == "-7"
    assert crdtsync.ok("conflicts") == "no conflicts"
    assert crdtsync.ok("conflicts", "--json") == ""


def fill(client: Client, other: Client) -> None:
    client.incr("k/counter", 12)
    client.incr("k/counter", -15)
    client.incr("k/zero", 0)
    for value in AWKWARD:
        client.add("k/set", value)
    client.merge("k/map", {f"field {number}": value for number, value in enumerate(AWKWARD)})
    client.get("k/conflict")
    other.get("k/conflict")
    for author, value in ((client, "a"), (other, "b")):
        author.merge("k/conflict", {"f": value, author.status()["node"]["name"]: 1}, seen="?")


def exported(shell: Shell) -> list[dict[str, Any]]:
    """What an import restores of an export."""

    def bare(fields: dict[str, Any]) -> dict[str, Any]:
        kept = {name: value for name, value in fields.items() if name not in ("agent", "node", "time")}
        return kept | ({"siblings": [bare(each) for each in kept["siblings"]]} if "siblings" in kept else {})

    return [bare(record) for record in shell.json("export")]


def test_an_export_of_every_kind_is_restored_elsewhere(
    crdtsync: Shell, daemon: Daemon, make_daemon: Callable[..., Daemon], tmp_path: Path
) -> None:
    fill(daemon.client("a"), daemon.client("b"))
    (tmp_path / "there").mkdir()
    there = Shell(make_daemon().socket, tmp_path / "there")
    content = crdtsync.ok("export")
    assert [json.loads(line)["kind"] for line in content.splitlines()] == ["map", "counter", "map", "set", "counter"]
    assert there.ok("import", "-", stdin=content) == "5 created"
    assert exported(there) == exported(crdtsync)
    for policy in ("skip", "set"):
        assert there.ok("import", "-", "--on-conflict", policy, stdin=content) == "5 unchanged"


CONFLICTING = """\
{"key": "counter", "kind": "counter", "value": 5}
{"key": "map", "kind": "map", "value": {"a": "new", "b": 1}}
{"key": "other", "kind": "set", "value": ["new"]}
{"key": "set", "kind": "set", "value": ["new", "both"]}
"""


@pytest.mark.parametrize(
    "policy, summary, values",
    [
        ("skip", "4 skipped", ["7", '{"a": "old", "c": 2}', "1", '["old", "both"]']),
        ("set", "4 replaced", ["5", '{"a": "new", "b": 1}', '["new"]', '["both", "new"]']),
        (
            "sibling",
            "3 added, 1 skipped",
            ["12", '{"a": "new", "b": 1, "c": 2}\n{"a": "old"}', "1", '["old", "both", "new"]'],
        ),
    ],
)
def test_import_over_what_exists(crdtsync: Shell, daemon: Daemon, policy: str, summary: str, values: list[str]) -> None:
    client = daemon.client()
    client.incr("counter", 7)
    client.merge("map", {"a": "old", "c": 2})
    client.set("other", 1)
    client.add("set", "old")
    client.add("set", "both")
    assert crdtsync.ok("import", "-", "--on-conflict", policy, stdin=CONFLICTING) == summary
    shown = [crdtsync("get", key, "--siblings").out.rstrip("\n") for key in ("counter", "map", "other", "set")]
    assert shown == values
    if policy == "set":
        assert crdtsync.ok("import", "-", "--on-conflict", policy, stdin=CONFLICTING) == "4 unchanged"


def test_what_no_import_can_write_is_said(parted: Cluster, tmp_path: Path) -> None:
    parted[0].client().incr("k")
    parted[1].client().add("k", 1)
    healed(parted)
    done = Shell(parted[0].socket, tmp_path)("export")
    assert done.status == 0
    assert "a sibling of k was left out: it is a" in done.err
    assert done.out.count("\n") == 1


def test_a_set_and_a_map_too_large_for_one_reply_are_exported_and_imported(crdtsync: Shell, daemon: Daemon) -> None:
    client = daemon.client()
    for number in range(6):
        client.add("s", str(number) * 900_000)
        client.merge("m", {str(number): str(number) * 900_000})
    (crdtsync.directory / "all").write_text(crdtsync.ok("export"))
    assert crdtsync.ok("import", "all", "--on-conflict", "set") == "2 unchanged"
    client.discard("s", "3" * 900_000)
    client.drop("m", "3")
    assert crdtsync.ok("import", "all", "--on-conflict", "set") == "2 replaced"
    assert len(client.members("s")) == len(client.fields("m")) == 6
