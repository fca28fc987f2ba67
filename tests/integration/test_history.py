"""History on real daemons: who wrote what, when, on which host, after seeing what, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from crdtsync.client import AsyncClient, PastValue
from tests.harness import Cluster, Daemon, wait_until, wait_until_equal
from tests.harness.shell import Shell

pytestmark = pytest.mark.integration


def brief(values: list[PastValue]) -> list[tuple[Any, str | None, str | None]]:
    return [(value.value, value.agent, value.fate) for value in values]


def test_two_hosts_that_could_not_reach_each_other_tell_who_wrote_what_after_seeing_what(pair: Cluster) -> None:
    began = datetime.now(UTC) - timedelta(seconds=1)
    with pair[0].client("planner") as client:
        client.set("plan/goal", "draft")
    wait_until_equal(pair)
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    for daemon, agent in ((pair[0], "planner"), (pair[1], "critic")):
        with daemon.client(agent) as client:
            assert client.get("plan/goal") == "draft"
            client.set("plan/goal", f"by {agent}")
    with pair[1].client("scout") as client:  # never reads it
        client.set("plan/goal", "blind")
    pair.heal()
    wait_until_equal(pair)

    told = [daemon.client().history("plan/goal") for daemon in pair]
    for values in told:
        by_value = {value.value: value for value in values}
        draft, planner, critic, blind = (by_value[v] for v in ("draft", "by planner", "by critic", "blind"))
        times = [value.time for value in values if value.time is not None]
        assert times == sorted(times, reverse=True)
        assert {(v.value, v.agent, v.node, v.fate) for v in values} == {
            ("draft", "planner", "host-a", "replaced"),
            ("by planner", "planner", "host-a", "live"),
            ("by critic", "critic", "host-b", "lost"),
            ("blind", "scout", "host-b", "live"),
        }
        assert planner.seen == critic.seen == [draft.dot]
        assert (blind.seen, blind.blind) == ([], [critic.dot])
        assert critic.removed_by is not None
        assert (critic.removed_by.dot, critic.removed_by.agent) == (blind.dot, "scout")
        assert critic.removed_by.node == "host-b"
        assert all(value.time is not None and began <= value.time <= datetime.now(UTC) for value in values)
        assert values.is_complete
    assert [value.dot for value in told[0]] == [value.dot for value in told[1]]
    # what each sibling had seen shows where the conflict is listed, too
    (entry,) = pair[0].client().conflicts()
    seen = {one.value: one.seen for one in (entry, *entry.siblings)}
    assert seen == {"by planner": [told[0][-1].dot], "blind": []}

    with pair[1].client("judge") as client:
        client.resolve("plan/goal", take=next(one.dot for one in (entry, *entry.siblings) if one.value == "blind"))
    wait_until_equal(pair)
    for daemon in pair:
        lost = daemon.client().history("plan/goal", lost=True)
        assert {(value.value, value.removed_by and value.removed_by.op) for value in lost} == {
            ("by planner", "resolve"),
            ("by critic", "set"),
        }
        token = daemon.client().history("plan/goal", last=1)[0].token
        assert pair[0].client().wait(token) >= 1


def test_it_survives_kill_and_restart(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon("alone")
    with daemon.client("ann") as client:
        client.set("k", 1)
        client.set("k", 2, ttl=0.2)
        wait_until(lambda: client.get("k") is None)
        wait_until(lambda: client.history("k")[0].removed_by is not None)
        client.set("k", 3)
        client.delete("k")
        before = client.history("k")
    assert [(value.value, value.fate) for value in before] == [(3, "deleted"), (2, "expired"), (1, "replaced")]
    daemon.kill()
    daemon.start()
    with daemon.client("bob") as client:
        assert client.history("k") == before


def test_what_came_with_a_snapshot_is_told_as_far_as_it_is_known(make_cluster: Callable[..., Cluster]) -> None:
    fleet = make_cluster(2, log_bytes_max=64 * 1024)
    with fleet[0].client("ann") as client:
        client.set("kept", "seen by both")
    wait_until_equal(fleet)
    fleet[1].stop()
    with fleet[0].client("ann") as client:
        assert client.get("kept") == "seen by both"
        client.set("kept", "missed")
        client.set("new", 1)
        client.set("new", 2)
        for n in range(600):
            client.set("filler", str(n) * 200)
        wait_until(lambda: client.status()["spaces"][0]["log_bytes"] < 80_000)
    fleet[1].start()
    wait_until_equal(fleet)
    here, there = (daemon.client() for daemon in fleet)
    assert brief(here.history("new")) == [(2, "ann", "live"), (1, "ann", "replaced")]
    assert here.history("new").is_complete
    told = there.history("new")
    assert brief(told) == [(2, "ann", "live")]
    assert told[0].seen is None
    assert not told.is_complete
    assert told.since is not None
    kept = there.history("kept")
    assert [(value.value, value.fate, value.removed_by) for value in kept] == [
        ("missed", "live", None),
        ("seen by both", None, None),
    ]


def test_a_long_log_and_a_busy_key_come_page_by_page(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    with daemon.client("ann") as client:
        for start in range(0, 3000, 1000):
            with client.batch() as batch:
                for n in range(start, start + 1000):
                    batch.append("log", n)
        client.trim("log", keep=1200)
        for n in range(1500):
            client.set("busy", n)
        client.text("notes").insert(0, "a")
        for _ in range(1100):
            client.text("notes").insert(0, "b")
        everything = client.history("log", last=None)
        assert [value.value for value in everything] == [*range(2999, -1, -1)]
        assert [value.fate for value in everything] == ["live"] * 1200 + ["trimmed"] * 1800
        assert not everything.has_more
        last = client.history("log", last=5)
        assert [value.value for value in last] == [2999, 2998, 2997, 2996, 2995]
        assert last.has_more
        assert len(client.history("busy", last=None)) == 1500
        (edits,) = client.history("notes")
        assert (edits.edits, edits.fate, edits.value) == (1101, "live", None)
        newest = client.history(prefix="", last=3)
        assert [(value.key, value.edits) for value in newest] == [("notes", 1101), ("busy", 1), ("busy", 1)]
        assert newest.has_more


async def test_the_asyncio_client_tells_the_same(daemon: Daemon) -> None:
    with daemon.client("ann") as client:
        client.merge("profile", {"name": "x", "age": 3})
        client.merge("profile", {"age": 4})
        wanted = client.history("profile")
    async with AsyncClient(socket=daemon.socket, agent="bob") as client:
        assert await client.history("profile") == wanted
        assert [value.field for value in await client.history(prefix="pro", last=3)] == ["age", "age", "name"]


# -- the command line --------------------------------------------------------------------------------------------


@pytest.fixture
def crdtsync(daemon: Daemon, tmp_path: Path) -> Shell:
    return Shell(daemon.socket, tmp_path)


def test_the_command_line(crdtsync: Shell) -> None:
    crdtsync.ok("set", "plan/goal", "1", "--agent", "ann")
    crdtsync.ok("set", "plan/goal", "2", "--agent", "bob")
    crdtsync.ok("set", "plan/other", "3")
    crdtsync.ok("del", "plan/other")
    told = crdtsync.json("history", "plan/goal", "--json")
    assert [(one["value"], one["agent"], one["fate"]) for one in told] == [(2, "bob", "live"), (1, "ann", "lost")]
    assert told[0]["blind"] == [told[1]["dot"]]
    assert told[1]["removed_by"]["agent"] == "bob"
    assert "field" not in told[0]
    assert crdtsync.json("history", "plan/goal", "-n", "1", "--json") == told[:1]
    assert crdtsync.json("history", "plan/", "--lost", "--json") == told[1:]
    everything = crdtsync.json("history", "--json")
    assert (everything[0]["key"], everything[0]["fate"]) == ("plan/other", "deleted")
    assert crdtsync.json("history", "plan/o", "--prefix", "--json") == everything[:1]
    table = crdtsync.ok("history", "plan/")
    assert table.splitlines()[0].split()[:4] == ["TIME", "KEY", "OP", "AGENT"]
    assert "bob@" in table
    assert crdtsync.ok("history", "nothing/", "--lost").strip() == "nothing was lost"
    for status, said, arguments in ((1, "no history", ["nothing"]), (2, "at most 1,000", ["plan/", "-n", "1001"])):
        done = crdtsync("history", *arguments)
        assert done.status == status
        assert said in done.err


def test_what_is_written_all_the_time_does_not_push_out_the_history_of_a_plan(
    make_daemon: Callable[..., Daemon],
) -> None:
    caps: dict[str, bool | int | timedelta] = {"none": False, "bytes": 20_000, "age": timedelta(milliseconds=1)}
    with make_daemon(history_bytes_max=200_000).client("ann") as client:
        for name, cap in caps.items():
            client.schema_set(f"beats/{name}/**", "lww", history=cap)
        client.set("plan/goal", "ship")
        client.set("plan/goal", "wait")
        for _ in range(4):  # in portions: what is written within a second may not be twice what the space may hold
            for n in range(50):
                for name in caps:
                    client.set(f"beats/{name}/ann", f"{n}" + "x" * 1000)
            for name in caps:
                key = f"beats/{name}/ann"
                wait_until(lambda key=key: len(client.history(key, last=None)) < 40, what=f"{key} is forgotten")  # type: ignore[misc]
        for name, cap in caps.items():
            schema = client.schema(f"beats/{name}/ann")
            assert schema is not None
            assert schema.history == cap
        assert [past.value for past in client.history("plan/goal")] == ["wait", "ship"]
