"""LangGraph on real daemons: its conformance suite, and graphs that go on where a host has died."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.harness import Cluster, Daemon, wait_until
from tests.harness.cluster import healed
from tests.harness.frameworks import FRAMEWORKS, ROOT, environment, passes, program_of_the_page, python_with, run_with
from tests.harness.proxy import Network
from tests.harness.shell import PROGRAM, Running, Shell

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]

NAME = "langgraph"
FLOORS = {"a get of as many bytes, ms", "a write of as many bytes, ms"}
WITH_ANOTHER = FRAMEWORKS / NAME / "with_another.py"


def test_the_checkpointers(daemon: Daemon) -> None:
    passes(NAME, "saver.py", SOCKET=daemon.socket)


def test_the_stores(daemon: Daemon) -> None:
    passes(NAME, "store.py", SOCKET=daemon.socket)


def test_what_a_store_was_told_is_found_where_its_host_has_died(pair: Cluster, tmp_path: Path) -> None:
    """The program of the how-to page, on two hosts."""
    program = program_of_the_page("CrdtStore", tmp_path / "remember.py")
    run_with(NAME, pair[0], program)
    pair[1].client().wait(pair[0].client().now(), timeout=60)
    pair[0].kill()
    assert run_with(NAME, pair[1], program, "Which pizza?") == "food Ada likes pizza with anchovies\n"


def test_an_item_that_two_hosts_put_at_once(parted: Cluster) -> None:
    program = FRAMEWORKS / NAME / "one_item.py"
    for daemon in parted:
        run_with(NAME, daemon, program, "put", daemon.name)
    states = healed(parted)
    assert len(states[0].conflicts()) == 1
    assert run_with(NAME, parted[0], program, "get") == run_with(NAME, parted[1], program, "get") != "None\n"
    run_with(NAME, parted[0], program, "put", "both")
    states = healed(parted)
    assert [run_with(NAME, daemon, program, "get") for daemon in parted] == ["{'by': 'both'}\n"] * 2
    assert [state.conflicts() for state in states] == [[], []]


def test_a_run_goes_on_where_its_host_has_died(pair: Cluster, tmp_path: Path) -> None:
    """The program of the how-to page, on two hosts."""
    program = program_of_the_page("CrdtSaver", tmp_path / "report.py")
    asked = run_with(NAME, pair[0], program)
    assert "Shall we report that the cache is cold after a restart?" in asked
    pair[1].client().wait(pair[0].client().now(), timeout=60)
    pair[0].kill()
    told = run_with(NAME, pair[1], program, "yes")
    assert "'text': 'the cache is cold after a restart; asked, a person said yes'" in told
    assert "'messages': ['researcher: one finding', 'analyst: asked', 'writer: done']" in told
    pair.start()
    states = healed(pair)
    assert [state.conflicts("langgraph/") for state in states] == [[], []]


def test_a_kill_in_the_middle_of_a_checkpoint_leaves_those_before(daemon: Daemon) -> None:
    program = FRAMEWORKS / NAME / "steps.py"
    command = [str(python_with(NAME)), str(program), "put"]
    with Running(command, environment(CRDTSYNC_SOCKET=daemon.socket), FRAMEWORKS) as steps:
        while int(steps.line()) < 5:
            pass
        daemon.kill()
    daemon.start()
    step, size = run_with(NAME, daemon, program, "show").split()
    assert (int(step) >= 5, size) == (True, "4000000")


@pytest.mark.parametrize("how", [[], ["delta"]], ids=["plain", "delta"])
def test_two_hosts_that_run_one_thread_both_keep_their_branch(how: list[str], parted: Cluster) -> None:
    begin = FRAMEWORKS / NAME / "branches.py"
    run_with(NAME, parted[0], begin, "begin", *how)
    parted.heal()
    parted[1].client().wait(parted[0].client().now(), timeout=60)
    parted.cut(0, 1)
    parted.wait_parted(0, 1)
    for daemon in parted:
        run_with(NAME, daemon, begin, "branch", daemon.name, *how)
    healed(parted)
    shown = [run_with(NAME, daemon, begin, "show", *how) for daemon in parted]
    assert shown[0] == shown[1]
    for daemon in parted:
        assert f"['begun', 'asked on {daemon.name}', 'done on {daemon.name}']" in shown[0]


@pytest.mark.parametrize("how", [[], ["delta"]], ids=["plain", "delta"])
def test_branches_of_two_hosts_are_merged_by_the_graphs_reducers(how: list[str], parted: Cluster) -> None:
    """First the branches, then two that go on from merges which both hosts have made at once."""
    program = FRAMEWORKS / NAME / "branches.py"
    for daemon in parted:
        run_with(NAME, daemon, program, "branch", daemon.name, *how)
    healed(parted)
    parted.cut(0, 1)
    parted.wait_parted(0, 1)
    merged, same = (json.loads(run_with(NAME, daemon, program, "merge", *how)) for daemon in parted)
    assert merged == same
    assert sorted(merged[0]) == sorted(f"{what} on {each.name}" for each in parted for what in ("asked", "done"))
    assert merged[1] == 1, "one head is left"
    for daemon in parted:
        run_with(NAME, daemon, program, "branch", f"{daemon.name} again", *how)
    healed(parted)
    steps, heads = json.loads(run_with(NAME, parted[0], program, "merge", *how))
    assert steps[:4] == merged[0], "nothing is there twice"
    assert sorted(steps[4:]) == sorted(f"{what} on {each.name} again" for each in parted for what in ("asked", "done"))
    assert heads == 1


def test_the_example_of_the_redis_saver_runs_with_its_line_changed(pair: Cluster, tmp_path: Path) -> None:
    """And the second run on another host, since the first one was killed."""
    theirs = FRAMEWORKS / NAME / "crew.py"
    ours = theirs.read_text()
    for old, new in (
        ("from langgraph.checkpoint.redis import RedisSaver", "from crdtsync.adapters.langgraph import CrdtSaver"),
        ("RedisSaver.from_conn_string(sys.argv[1])", "CrdtSaver()"),
    ):
        assert ours.count(old) == 1
        ours = ours.replace(old, new)
    (tmp_path / "ours.py").write_text(ours)
    first = run_with(NAME, pair[0], tmp_path / "ours.py", "", "cache")
    pair[1].client().wait(pair[0].client().now(), timeout=60)
    pair[0].kill()
    second = run_with(NAME, pair[1], tmp_path / "ours.py", "", "index")
    with a_redis_server(tmp_path) as address:
        assert [run_with(NAME, pair[1], theirs, address, topic) for topic in ("cache", "index")] == [first, second]
    shown, history = json.loads(second)
    assert shown["action_items"] == ["warm the cache", "warm the index"]
    assert (len(shown["findings"]), len(shown["messages"]), len(history)) == (2, 8, 10)


def test_what_the_sqlite_saver_has_kept_is_brought_over(daemon: Daemon, tmp_path: Path) -> None:
    run_with(NAME, daemon, WITH_ANOTHER, "keep", str(tmp_path / "kept.sqlite"))
    is_brought_over(daemon, tmp_path, "langgraph-sqlite", str(tmp_path / "kept.sqlite"))
    with closing(sqlite3.connect(tmp_path / "kept.sqlite")) as kept, kept:
        newest = "(SELECT max(checkpoint_id) FROM checkpoints)"
        kept.execute(f"UPDATE checkpoints SET checkpoint = NULL WHERE checkpoint_id = {newest}")
        oldest = newest.replace("max", "min")
        kept.execute(f"UPDATE checkpoints SET thread_id = CAST(x'74ff' AS TEXT) WHERE checkpoint_id = {oldest}")
    done = shell(daemon.socket, tmp_path)("import-from", "langgraph-sqlite", "kept.sqlite", "--prefix", "again")
    assert done.out == "1 created, 0 unchanged, 2 left out\n"
    assert r"the checkpoint {'thread_id': 't\udcff'" in done.err, "which is no UTF-8"
    (tmp_path / "other").write_text("no database" * 1000)
    assert "as a database of LangGraph's SqliteSaver" in bring(daemon, tmp_path, "langgraph-sqlite", "other")
    (tmp_path / "empty").touch()
    assert "no such table" in bring(daemon, tmp_path, "langgraph-sqlite", "empty", "--dry-run")
    assert (tmp_path / "empty").stat().st_size == 0, "it is only read"


def test_what_an_earlier_version_has_kept_goes_on(daemon: Daemon, tmp_path: Path) -> None:
    shell(daemon.socket, tmp_path)("import", str(FRAMEWORKS / NAME / "kept_before.ndjson"))
    assert run_with(NAME, daemon, WITH_ANOTHER, "go on") == "['one', 'and a half', 'yes']\n"


def test_what_a_program_prunes_meanwhile_is_brought_over(daemon: Daemon, tmp_path: Path) -> None:
    run_with(NAME, daemon, WITH_ANOTHER, "keep", str(tmp_path / "kept.sqlite"))
    its_environment = shell(daemon.run / "d", tmp_path).environment
    command = [*PROGRAM, "import-from", "langgraph-sqlite", "kept.sqlite"]
    with closing(Network()) as network:
        door = network.proxy(str(daemon.socket), str(daemon.run / "d"))
        door.cut()
        with Running(command, its_environment, tmp_path) as running:
            wait_until(lambda: door.waiting == 1)
            with closing(sqlite3.connect(tmp_path / "kept.sqlite")) as kept, kept:
                kept.execute("DELETE FROM checkpoints")
            door.heal()
            assert running.line() == "3 created, 0 unchanged\n"


def test_what_the_redis_saver_has_kept_is_brought_over(daemon: Daemon, tmp_path: Path) -> None:
    with a_redis_server(tmp_path) as address:
        assert "no checkpoints of LangGraph's RedisSaver can be read" in bring(
            daemon, tmp_path, "langgraph-redis", address
        )
        run_with(NAME, daemon, WITH_ANOTHER, "keep", address)
        is_brought_over(daemon, tmp_path, "langgraph-redis", address)
        run_with(NAME, daemon, WITH_ANOTHER, "damage", address)
        done = shell(daemon.socket, tmp_path)("import-from", "langgraph-redis", address, "--prefix", "again")
        assert done.out == "2 created, 0 unchanged, 1 left out\n"
        assert "the checkpoint {'thread_id': 't'" in done.err


@contextmanager
def a_redis_server(folder: Path) -> Iterator[str]:
    """One with the modules that LangGraph's RedisSaver asks for; its address."""
    if sys.platform != "linux":
        pytest.skip("the packages that have the server's modules are for Linux alone")
    command = [str(python_with(NAME)), str(FRAMEWORKS / NAME / "redis_server.py"), str(folder)]
    with Running(command, environment(), folder, is_told=True) as server:
        yield server.line().strip()


def is_brought_over(daemon: Daemon, folder: Path, what: str, place: str) -> None:
    """What WITH_ANOTHER has kept there: with a dry run, once, and whole."""
    assert bring(daemon, folder, what, place, "--dry-run") == "3 created, 0 unchanged, if it were done\n"
    assert bring(daemon, folder, what, place) == "3 created, 0 unchanged\n"
    assert bring(daemon, folder, what, place) == "0 created, 3 unchanged\n"
    assert run_with(NAME, daemon, WITH_ANOTHER, "go on") == "['one', 'and a half', 'yes']\n"


def bring(daemon: Daemon, folder: Path, *arguments: str) -> str:
    """What ``crdtsync import-from`` says."""
    done = shell(daemon.socket, folder)("import-from", *arguments)
    return done.out or done.err


def shell(socket: Path, folder: Path) -> Shell:
    """One with LangGraph's packages."""
    packages = next((python_with(NAME).parents[1] / "lib").glob("python*/site-packages"))
    made = Shell(socket, folder)
    made.environment["PYTHONPATH"] = f"{ROOT}:{packages}"
    return made


def test_the_benchmark_measures_all_savers() -> None:
    python_with(NAME)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "checkpointers", "--steps", "30", "--json"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found.keys() == {"in memory", "SQLite", "Redis", "bare", "crdtsync"}
    assert found["SQLite"].keys() == found["Redis"].keys() == found["crdtsync"].keys() - FLOORS
    assert found["bare"].keys() == found["in memory"].keys() - {"100 of them, ms"} | FLOORS
    assert all(figure > 0 for of in found.values() for figure in of.values())
