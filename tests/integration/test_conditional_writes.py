"""Optimistic concurrency: a write that names what it wants to find is refused with what there is instead.

On one host it is decided by that host. Where two cut-off hosts both say yes, both values live on as siblings.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crdtsync import AsyncClient, Client
from crdtsync.client import Batch, Entry
from crdtsync.errors import KindMismatch, VersionMismatch
from tests.harness import Cluster, Daemon, wait_until_equal
from tests.harness.shell import Shell
from tests.harness.workers import in_processes, increments

pytestmark = pytest.mark.integration

MAKE: dict[str, Callable[[Client], Any]] = {
    "register": lambda state: state.set("k", 1),
    "log": lambda state: state.append("k", 1),
    "counter": lambda state: state.incr("k"),
    "set": lambda state: state.add("k", 1),
    "map": lambda state: state.merge("k", {"f": 1}),
    "text": lambda state: state.text("k").set("one"),
}
Write = Callable[[Client, str], Any]
WRITES: dict[str, tuple[str, Write]] = {
    "set": ("register", lambda state, v: state.set("k", 2, if_version=v)),
    "delete": ("register", lambda state, v: state.delete("k", if_version=v)),
    "resolve": ("register", lambda state, v: state.resolve("k", value=2, if_version=v)),
    "append": ("log", lambda state, v: state.append("k", 2, if_version=v)),
    "trim": ("log", lambda state, v: state.trim("k", 1, if_version=v)),
    "incr": ("counter", lambda state, v: state.incr("k", if_version=v)),
    "reset": ("counter", lambda state, v: state.reset("k", if_version=v)),
    "add": ("set", lambda state, v: state.add("k", 2, if_version=v)),
    "discard": ("set", lambda state, v: state.discard("k", 1, if_version=v)),
    "merge": ("map", lambda state, v: state.merge("k", {"g": 2}, if_version=v)),
    "drop": ("map", lambda state, v: state.drop("k", "f", if_version=v)),
    "text insert": ("text", lambda state, v: state.text("k").insert(0, "x", if_version=v)),
    "text delete": ("text", lambda state, v: state.text("k").delete(0, 1, if_version=v)),
    "text set": ("text", lambda state, v: state.text("k").set("two", if_version=v)),
}
MAKING: dict[str, Callable[[Client], Any]] = {
    "set": lambda state: state.set("k", 1, if_absent=True),
    "append": lambda state: state.append("k", 1, if_absent=True),
    "incr": lambda state: state.incr("k", if_absent=True),
    "add": lambda state: state.add("k", 1, if_absent=True),
    "merge": lambda state: state.merge("k", {"f": 1}, if_absent=True),
    "text": lambda state: state.text("k").set("one", if_absent=True),
}


def entry_of(state: Client) -> Entry:
    entry = state.entry("k")
    assert entry is not None
    assert entry.version is not None
    return entry


def change(daemon: Daemon, kind: str) -> None:
    """Somebody else comes between."""
    other = daemon.client("rival")
    other.text("k").insert(0, "!") if kind == "text" else MAKE[kind](other)


def test_a_write_is_done_only_at_the_version_that_it_names(daemon: Daemon) -> None:
    state, reader = daemon.client("author"), daemon.client()
    for name, (kind, write) in WRITES.items():
        MAKE[kind](state)
        version = entry_of(state).version
        assert version is not None
        change(daemon, kind) if kind != "set" else daemon.client("rival").add("k", 3)
        now = entry_of(reader)
        with pytest.raises(VersionMismatch) as refused:
            write(state, version)
        assert (name, refused.value.current) == (name, now), "the value and version that there are"
        assert (name, entry_of(reader)) == (name, now), "nothing was written"
        assert now.version is not None
        write(state, refused.value.current.version)
        assert (name, reader.entry("k")) != (name, now)
        reader.delete("k")


def test_a_write_makes_a_key_only_if_it_is_absent(daemon: Daemon) -> None:
    state, rival = daemon.client("author"), daemon.client("rival")
    for name, make in MAKING.items():
        make(state)
        with pytest.raises(VersionMismatch) as refused:
            make(rival)
        assert (name, refused.value.current) == (name, entry_of(state))
        assert (name, refused.value.current.agent) == (name, "author")
        state.delete("k")


def test_one_of_many_makes_the_key(daemon: Daemon) -> None:
    """Of 20 authors who create it at once one does, and the others are told."""
    made = [_tries(daemon.client(f"agent-{n}")) for n in range(20)]
    assert sum(made) == 1


def _tries(state: Client) -> bool:
    try:
        state.set("k", 1, if_absent=True)
    except VersionMismatch:
        return False
    return True


def test_processes_that_update_one_number_lose_no_step(daemon: Daemon) -> None:
    in_processes(increments, [(str(daemon.socket), "number", 100)] * 4)
    assert daemon.client().get("number") == 400


def test_a_race_of_two_hosts_that_both_pass_becomes_siblings(pair: Cluster) -> None:
    here, there = (daemon.client(daemon.name) for daemon in pair)
    here.set("k", "before")
    wait_until_equal(pair)
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    version = here.entry("k").version  # type: ignore[union-attr]
    assert version == there.entry("k").version, "a version means the same on every host"  # type: ignore[union-attr]
    for state, value in ((here, "left"), (there, "right")):
        state.set("k", value, if_version=version)
        state.set("new", value, if_absent=True)
        state.update("u", lambda _, value=value: value)  # type: ignore[misc]
    pair.heal()
    wait_until_equal(pair)
    for daemon in pair:
        for key in ("k", "new", "u"):
            entry = daemon.client().entry(key)
            assert entry is not None
            assert {(one.value, one.agent) for one in (entry, *entry.siblings)} == {
                ("left", "host-a"),
                ("right", "host-b"),
            }
    found = pair[1].client().entry("k")
    assert found is not None
    with pytest.raises(VersionMismatch):
        here.set("k", "late", if_version=version)
    here.set("k", "settled", if_version=found.version)
    assert here.entry("k").siblings == []  # type: ignore[union-attr]


# -- update ------------------------------


def test_an_update_is_done_again_on_what_came_between(daemon: Daemon) -> None:
    state, rival = daemon.client(), daemon.client("rival")
    seen: list[Any] = []

    def function(value: Any) -> Any:
        seen.append(value)
        if len(seen) < 4:
            rival.set("k", len(seen))
        return [value]

    state.update("k", function, default="none")
    assert (seen, state.get("k")) == (["none", 1, 2, 3], [3])


def test_an_update_gives_up_after_its_attempts_and_shows_what_there_is(daemon: Daemon) -> None:
    state, rival = daemon.client(), daemon.client("rival")
    runs: list[Any] = []

    def function(value: Any) -> Any:
        runs.append(value)
        rival.set("k", len(runs))
        return "never"

    with pytest.raises(VersionMismatch) as refused:
        state.update("k", function, attempts=3)
    assert (len(runs), refused.value.current.value, state.get("k")) == (3, 3, 3)


def test_an_update_of_siblings_replaces_them_all_or_is_done_again(pair: Cluster) -> None:
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    for daemon in pair:
        daemon.client().set("k", [daemon.name])
    pair.heal()
    wait_until_equal(pair)
    state, rival = pair[0].client(), pair[0].client("rival")
    runs: list[Any] = []

    def join(values: list[list[str]]) -> list[str]:
        runs.append(values)
        if len(runs) == 1:
            rival.set("k", ["rival"], seen="?")
        return sorted(name for value in values for name in value)

    state.update("k", join, siblings=True)
    assert [len(values) for values in runs] == [2, 3]
    entry = entry_of(state)
    assert (entry.value, entry.siblings) == (["host-a", "host-b", "rival"], [])


def test_an_update_of_the_winner_leaves_its_siblings(pair: Cluster) -> None:
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    for daemon in pair:
        daemon.client().set("k", daemon.name)
    pair.heal()
    wait_until_equal(pair)
    state = pair[0].client()
    winner = entry_of(state)
    state.update("k", lambda value: value + "!")
    entry = entry_of(state)
    assert entry.value == winner.value + "!"
    assert [one.value for one in entry.siblings] == [one.value for one in winner.siblings]


def test_an_update_of_another_kind_is_refused_before_its_function_runs(daemon: Daemon) -> None:
    state = daemon.client()
    for kind in ("log", "counter", "set", "map", "text"):
        MAKE[kind](state)
        with pytest.raises(KindMismatch, match=f"'k' is a {kind}"):
            state.update("k", lambda _: pytest.fail("it ran"))
        state.delete("k")


def test_a_key_that_changes_its_kind_during_an_update_ends_it(daemon: Daemon) -> None:
    state, rival = daemon.client(), daemon.client("rival")
    state.set("k", 1)

    def function(_: Any) -> Any:
        rival.delete("k")
        rival.append("k", "log now")
        return 2

    with pytest.raises(KindMismatch, match="'k' is a log"):
        state.update("k", function)
    assert state.log("k") == ["log now"]


async def test_the_asyncio_client_takes_conditions_too(daemon: Daemon) -> None:
    async with AsyncClient(daemon.socket) as state:
        await state.append("log", 1, if_absent=True)
        version = (await state.entry("log")).version  # type: ignore[union-attr]
        await state.session("rival").append("log", 2)
        with pytest.raises(VersionMismatch) as refused:
            await state.append("log", 3, if_version=version)
        assert refused.value.current.value == [1, 2]
        await state.merge("map", {"a": 1}, if_absent=True)
        with pytest.raises(VersionMismatch):
            await state.merge("map", {"a": 2}, if_absent=True)
        text = state.text("text")
        await text.set("one", if_absent=True)
        with pytest.raises(VersionMismatch):
            await text.insert(0, "x", if_absent=True)
        assert await text.read() == "one"


# -- the command line ------------------------------


def test_the_command_line_refuses_with_what_there_is(daemon: Daemon, tmp_path: Path) -> None:
    shell = Shell(daemon.socket, tmp_path)
    make: dict[str, tuple[str, ...]] = {
        "set r": ("set", "r", "1"),
        "append l": ("append", "l", "1"),
        "incr c": ("incr", "c"),
        "add s": ("add", "s", "1"),
        "merge m": ("merge", "m", '{"f": 1}'),
        "text t": ("text", "t", "--insert", "0", "x"),
    }
    for command in make.values():
        shell.ok(*command, "--if-absent")
        assert shell(*command, "--if-absent").status == 1
        assert shell(*command, "--if-absent", "--json").status == 1
    error = json.loads(shell(*make["text t"], "--if-absent", "--json").err)["error"]
    assert (error["code"], error["key"], error["current"]["value"]) == ("version_mismatch", "t", "x")
    old = {key: json.loads(shell.ok("get", key, "--json"))["version"] for key in "rlcsmt"}
    for command in (
        ("set", "r", "2"),
        ("append", "l", "2"),
        ("incr", "c"),
        ("add", "s", "2"),
        ("merge", "m", '{"g": 2}'),
    ):
        shell.ok(*command)
    shell.ok("text", "t", "--insert", "0", "y")
    late: list[tuple[str, ...]] = [
        ("set", "r", "3"), ("del", "r"), ("resolve", "r", "--value", "3"), ("append", "l", "3"),
        ("trim", "l", "--keep", "0"),
        ("incr", "c"), ("reset", "c"), ("add", "s", "3"), ("discard", "s", "1"), ("merge", "m", '{"f": 3}'),
        ("drop", "m", "f"),
        ("text", "t", "--set", "-"), ("text", "t", "--delete", "0", "1"),
    ]  # fmt: skip
    for command in late:
        done = shell(*command, "--if-version", old[command[1]], "--json")
        assert done.status == 1, command
        error = json.loads(done.err)["error"]
        current = json.loads(shell.ok("get", command[1], "--json"))
        assert error["current"] == {name: current[name] for name in error["current"]}
    for command in late[:1]:
        shell.ok(*command, "--if-version", error_version(shell, "r"))
    assert shell.ok("get", "r") == "3"


def error_version(shell: Shell, key: str) -> str:
    version: str = json.loads(shell("set", key, "0", "--if-absent", "--json").err)["error"]["current"]["version"]
    return version


def test_update_and_edit_run_again_from_the_command_line(daemon: Daemon, tmp_path: Path) -> None:
    shell = Shell(daemon.socket, tmp_path)
    shell.ok("set", "k", "0")
    marker = tmp_path / "marker"
    script = f"read v; if [ ! -e {marker} ]; then touch {marker}; crdtsync set k 10 >/dev/null; fi; echo $((v + 1))"
    shell.ok("update", "k", "--", "sh", "-c", script)
    assert shell.ok("get", "k") == "11"
    always = "read v; crdtsync incr other >/dev/null; crdtsync set k $((v + 100)) >/dev/null; echo $((v + 1))"
    done = shell("update", "k", "--attempts", "3", "--json", "--", "sh", "-c", always)
    assert done.status == 1
    assert json.loads(done.err)["error"]["current"]["value"] == 311
    assert shell.ok("get", "other") == "3"
    for key, command in (("l", ("append", "l", "1")), ("c", ("incr", "c"))):
        shell.ok(*command)
        done = shell("update", key, "--", "sh", "-c", f"touch {tmp_path}/ran; cat")
        assert (done.status, (tmp_path / "ran").exists()) == (4, False)


def spoil(batch: Batch) -> None:
    """The third of four operations finds its key."""
    batch.incr("c")
    batch.append("l", 1)
    batch.set("k", 1, if_absent=True)
    batch.add("s", 1)


def test_a_batch_says_which_condition_was_false(daemon: Daemon, tmp_path: Path) -> None:
    state = daemon.client()
    state.set("k", "there")
    with pytest.raises(VersionMismatch) as refused, state.batch() as batch:
        spoil(batch)
    assert (refused.value.index, refused.value.current.value) == (2, "there")
    assert state.keys() == ["k"]
    shell = Shell(daemon.socket, tmp_path)
    lines = [{"op": "incr", "key": "c"}, {"op": "append", "key": "k", "value": 1, "if_absent": True}]
    path = tmp_path / "ops"
    path.write_text("\n\n".join(map(json.dumps, lines)))
    done = shell("batch", str(path))
    assert done.status == 1
    assert done.err.startswith(f"crdtsync: {path}:3: operation 1 of the batch (append): 'k' exists already")
    error = json.loads(shell("batch", str(path), "--json").err)["error"]
    assert (error["index"], error["op"], error["current"]["value"]) == (1, "append", "there")
    assert shell.ok("ls") == "k"
