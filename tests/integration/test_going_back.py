"""Checkpoints, restores and undo on real daemons, with hosts that are cut off and killed meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from crdtsync.client import AsyncClient
from crdtsync.client.operations import restore
from crdtsync.client.protocol.steps import Compute
from crdtsync.errors import DamagedValue, InvalidRequest
from crdtsync.wire.blobs import subject_of
from tests.harness import Cluster, Daemon, wait_until, wait_until_equal
from tests.harness.shell import Shell
from tests.integration.test_long_values import flip_a_bit

pytestmark = pytest.mark.integration


def test_a_restore_while_two_hosts_are_cut_off_and_write(cluster: Cluster) -> None:
    first, *others = (
        daemon.client(name) for daemon, name in zip(cluster, ("planner", "critic", "scribe"), strict=True)
    )
    plan: dict[str, Any] = {f"plan/{n:03}": {"step": n} for n in range(300)}
    for key, value in plan.items():
        first.set(key, value)
    first.append("findings", "x")
    first.set("large", "y" * 100_000)
    first.checkpoint("before", note="critic is let loose", w="all")
    for key in list(plan)[:200]:
        others[0].delete(key)
    others[0].set("large", "z")
    others[0].set("plan/new", 1)
    wait_until_equal(cluster)
    cluster[0].kill()
    cluster[0].start()
    first = cluster[0].client("planner")
    wait_until(lambda: first.get("plan/new") == 1, what="the host is back")
    for one, other in ((0, 1), (0, 2), (1, 2)):
        cluster.cut(one, other)
        cluster.wait_parted(one, other)
    for state in others:
        state.get("plan/new")
        state.set("plan/new", f"by {state.agent}")
    others[1].get("plan/250")
    others[1].set("plan/250", "meanwhile")
    done = first.restore("before")
    assert (len(done.restored), done.removed, done.left) == (201, ["plan/new"], {})
    cluster.heal()
    wait_until_equal(cluster)
    for daemon in cluster:
        state = daemon.client("reader")
        entry = state.entry("plan/new")
        assert entry is not None
        found = [entry.value, *(one.value for one in entry.siblings)]
        assert sorted(found) == ["by critic", "by scribe"]  # nobody who restored had seen them
        assert dict(state.items("plan/", limit=300)) == {**plan, "plan/250": "meanwhile"}
        assert (state.log("findings"), state.get("large")) == (["x"], "y" * 100_000)
        assert [each.key for each in state.diff("before")] == ["plan/250", "plan/new"]
        assert state.get("plan/new", at="checkpoint:before") is None


def test_checkpoints_are_made_by_one_node_while_something_changes(pair: Cluster, tmp_path: Path) -> None:
    """With something of every kind in them: each is read back, and found whole."""
    first, second = pair[0].client("planner"), pair[1].client("critic")
    shell = Shell(pair[0].socket, tmp_path)
    shell.ok("checkpoint", "policy", "often", "--every", "1s", "--keep", "3")
    assert "often" in shell.ok("checkpoint", "policy")
    assert [(each.name, each.every, each.keep) for each in first.checkpoint_policies()] == [("often", 1.0, 3)]

    names: set[str] = set()

    def old_ones_are_deleted() -> bool:
        second.append("findings", "x")
        second.set("large", "y" * 50_000)
        second.incr("count")
        second.text("text").set(f"as it was {second.get('count')}")
        second.put_blob("blob", b"z" * 600_000)
        second.delete("large")
        names.update(told := [each.name for each in first.checkpoints()])
        return len(told) == 3 < len(names)

    wait_until(old_ones_are_deleted, what="old ones are deleted")
    assert len({name[-4:] for name in names}) == 1
    wait_until_equal(pair)
    for daemon in pair:
        status = daemon.status()
        assert [space["checkpoint_failures"] for space in status["spaces"]] == [0] * len(status["spaces"])
        assert not [alarm for alarm in status["alarms"] if alarm["code"] == "checkpoint_overdue"]
    newest = first.checkpoints()[-1].name
    assert first.verify_checkpoint(newest).damaged == {}
    assert second.get("count", at=f"checkpoint:{newest}")
    shell.ok("checkpoint", "policy", "often", "--remove")
    assert shell.ok("checkpoint", "policy") == "no policies"


def test_a_comparison_goes_page_by_page_and_misses_no_key(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    state = daemon.client("planner")

    def write(values: dict[str, object]) -> None:
        for first in range(0, len(values), 500):
            with state.batch() as batch:
                for key in list(values)[first : first + 500]:
                    batch.set(key, values[key])

    before: dict[str, object] = {f"k/{number:04}": number for number in range(0, 5200, 2)}
    write(before)
    state.checkpoint("before")
    changes: dict[str, object] = {
        f"k/{number:04}": -number for number in (*range(0, 300, 3), 1999, 2002, 4002, 5198, 5199)
    }
    write(changes)
    write({"k/0002": 3})
    write({"k/0002": 2})  # says the same again
    state.delete("k/4800")
    after = {key: value for key, value in {**before, **changes}.items() if key != "k/4800"}
    expected = [(key, before.get(key), after.get(key)) for key in sorted({**before, **after})
                if before.get(key) != after.get(key)]  # fmt: skip

    def told(**wanted: Any) -> list[tuple[str, object, object]]:
        found = state.diff("before", prefix="k/", **wanted)
        return [(one.key, one.before and one.before.value, one.after and one.after.value) for one in found]

    steps = list[int]()
    monkeypatch.setattr(restore, "NEXT_PAGE", Compute(steps.append, 1))  # what begins the time limit anew
    assert told() == expected
    assert len(steps) == 2, "of three pages"
    pages: list[tuple[str, object, object]] = []
    while page := told(limit=7, start=pages[-1][0] if pages else None):
        pages += page
    assert pages == expected


def test_sets_are_compared_without_their_order(daemon: Daemon, tmp_path: Path) -> None:
    state, shell = daemon.client("planner"), Shell(daemon.socket, tmp_path)
    for element in ("w", {"a": 1, "b": 2}, "x"):
        state.add("tags", element)
    state.checkpoint("before")
    state.discard("tags", "w")
    state.add("tags", {"b": 2, "a": 1})
    state.add("tags", "y")
    assert shell.ok("checkpoint", "diff", "before").splitlines() == ["~ tags", '    - "w"', '    + "y"']
    state.restore("before")
    assert state.get("tags") != state.get("tags", at="checkpoint:before")
    assert state.diff("before") == []


def test_of_a_checkpoint_that_there_is_not_every_command_says_the_same(daemon: Daemon, tmp_path: Path) -> None:
    shell = Shell(daemon.socket, tmp_path)
    commands = [("checkpoint", name, "none") for name in ("show", "delete", "verify", "restore", "diff")]
    for command in (*commands, ("get", "k", "--at", "checkpoint:none")):
        done = shell(*command)
        said = "crdtsync: there is no checkpoint none in space default: see crdtsync checkpoint list\n"
        assert (done.status, done.out, done.err) == (4, "", said)


async def test_both_clients_read_the_past_and_write_nothing_there(daemon: Daemon) -> None:
    async with AsyncClient(daemon.socket, agent="planner") as state:
        await state.set("k", 1)
        token = await state.now()
        await state.set("k", 2)
        past = state.session(at=token)
        assert (await state.get("k", at=token), await past.get("k")) == (1, 1)
        assert await past.items() == [("k", 1)]
        with pytest.raises(InvalidRequest, match="reads the past"):
            await past.set("k", 3)
        await state.set("k", 4)  # what was read of the past does not count as read
        assert (await state.entry("k")).siblings == []  # type: ignore[union-attr]
        done = await state.undo("planner", token)
        assert (done.restored, await state.get("k")) == (["k"], 1)


def test_verifying_finds_what_the_disk_has_spoilt_alive_or_dead(
    make_daemon: Callable[..., Daemon], tmp_path: Path
) -> None:
    daemon = make_daemon(log_bytes_max=65536)
    values = {name: Random(number).randbytes(20_000) for number, name in enumerate(("alive", "dead", "good", "part"))}
    with daemon.client() as client:
        client.checkpoint("early")
        for name in ("alive", "dead", "good"):
            client.set(name, values[name])
        client.append("log", values["good"])
        client.put_blob("blob", values["part"] + bytes(3_000_000))
        client.checkpoint("before")
        client.set("dead", "overwritten")
        assert (client.verify_checkpoint("before").keys, client.verify_checkpoint("before").damaged) == (5, {})
        for n in range(10):
            client.set("filler", values["good"] + bytes([n]))
        wait_until(lambda: daemon.space()["log_bytes"] <= 65536, what="the log is trimmed")
    database = Path(daemon.status()["store"]["path"])
    daemon.stop()
    for name in ("alive", "dead", "part"):
        flip_a_bit(database, values[name])
    daemon.start()
    with daemon.client() as client:
        found = client.verify_checkpoint("before")
        assert (found.keys, sorted(found.damaged), found.older) == (5, ["alive", "blob", "dead"], "early")
        assert "the value of 'blob'" in found.damaged["blob"]
        assert client.get("good", at="checkpoint:before") == values["good"]
        with pytest.raises(DamagedValue):
            client.get("dead", at="checkpoint:before")
        with pytest.raises(InvalidRequest, match="there is no checkpoint other"):
            client.verify_checkpoint("other")
    shell = Shell(daemon.socket, tmp_path)
    done = shell("checkpoint", "verify", "before")
    assert (done.status, [line.split(":")[0] for line in done.out.splitlines()]) == (
        74,
        ["! alive", "! blob", "! dead"],
    )
    assert "the checkpoint early before it is whole" in done.err
    assert shell.ok("checkpoint", "verify", "early") == "whole: 0 keys"


def test_commands_that_find_nothing_say_so(daemon: Daemon, tmp_path: Path) -> None:
    """To a person, beside the result: a script reads a line for each key, or with ``--json`` one object."""
    shell = Shell(daemon.socket, tmp_path)
    shell.ok("set", "plan/goal", "1")
    shell.ok("checkpoint", "create", "here")
    restore, undo = ("checkpoint", "restore", "here"), ("undo", "--agent", "critic", "--since", "checkpoint:here")
    for command, why in ((restore, "these keys are as they were then"), (undo, "nothing that 'critic' has done")):
        for option in ((), ("--dry-run",)):
            done = shell(*command, *option)
            assert (done.status, done.out) == (0, "")
            assert done.err.startswith("crdtsync: there is nothing to ")
            assert why in done.err
        (told,) = shell.json("--json", *command)
        assert (told["restored"], told["removed"], told["changed"], told["left"]) == ([], [], [], {})
    diff = shell("checkpoint", "diff", "here")
    assert (diff.status, diff.out) == (0, "")
    assert diff.err.startswith("crdtsync: nothing differs")
    assert shell.json("--json", "checkpoint", "diff", "here") == []


def test_what_the_disk_has_spoilt_is_fetched_from_the_other_host(
    make_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    """A value, a value that only a checkpoint holds, and a part of a blob."""
    pair = make_cluster(2, log_bytes_max=65536)
    values = {name: Random(number).randbytes(20_000) for number, name in enumerate(("alive", "dead", "good", "part"))}
    first = pair[0].client("planner")
    for name in ("alive", "dead", "good"):
        first.set(name, values[name])
    first.put_blob("blob", values["part"] + bytes(1_000_000))
    first.checkpoint("before", w="all")
    first.set("dead", "overwritten")
    for n in range(10):
        first.set("filler", values["good"] + bytes([n]))
    wait_until_equal(pair)
    wait_until(lambda: all(daemon.space()["log_bytes"] <= 65536 for daemon in pair), what="the logs are trimmed")
    database = Path(pair[0].status()["store"]["path"])
    pair[0].stop()
    for name in ("alive", "dead", "part"):
        flip_a_bit(database, values[name])
    pair[0].start()
    pair.wait_connected(0, 1)
    shell = Shell(pair[0].socket, tmp_path)

    def mended() -> set[str]:
        return {subject_of(str(line["key"])) for line in pair[0].log_events("value_mended")}

    def until_the_next_is_mended(_: int) -> None:
        wait_until(lambda: "dead" in mended(), what="what the listing could not read has come")

    first = pair[0].client("planner")
    found = first.verify_checkpoint("before", progress=until_the_next_is_mended)
    assert (found.keys, found.damaged, sorted(found.mended)) == (4, {}, ["alive", "blob", "dead"])
    assert mended() == {"alive", "blob", "dead"}
    assert first.get("alive") == values["alive"]
    assert first.get("dead", at="checkpoint:before") == values["dead"]
    wait_until(lambda: not pair[0].status()["alarms"], what="the alarm ends")
    pair.cut(0, 1)
    pair[0].kill()
    pair[0].start()
    assert shell.ok("checkpoint", "verify", "before") == "whole: 4 keys"  # it is on its own disk again


def test_hosts_that_came_later_have_what_a_checkpoint_holds_when_all_others_are_gone(
    make_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    """The third host joins by a snapshot, and the fourth knows the third alone."""
    cluster = make_cluster(4, start=False, log_bytes_max=65536)
    for daemon in cluster.daemons[:2]:
        daemon.start()
    cluster.wait_connected()
    first, second = (daemon.client(name) for daemon, name in zip(cluster, ("planner", "critic"), strict=False))
    data = Random(1).randbytes(1_500_000)
    for n in range(300):
        first.set(f"plan/{n:03}", {"step": n})
    first.set("long", "x" * 50_000)
    for n in range(5):
        first.append("findings", n)
    first.incr("count", 3)
    first.text("notes").insert(0, "as it was")
    first.put_blob("blob", data)
    first.checkpoint("before", w=2)
    first.set("plan/000", "ruined")
    for n in range(1, 150):
        second.delete(f"plan/{n:03}")
    second.set("long", "y")
    second.delete("findings")
    second.delete("count")
    second.delete("blob")
    second.text("notes").insert(0, "not ")
    for n in range(20):
        first.set("filler", bytes([n]) * 10_000)
    wait_until_equal(cluster.daemons[:2])
    wait_until(lambda: all(one.space()["log_bytes"] <= 65536 for one in cluster.daemons[:2]), what="logs are trimmed")
    gone = cluster.daemons[:2]
    for late in cluster.daemons[2:]:
        late.start()
        wait_until(partial(late.log_events, "checkpoint_recalled"), what=f"{late.name} has it")
        assert len(late.log_events("snapshot_taken")) == 1
        for daemon in gone:
            daemon.kill()
        gone = [late]
        shell, state = Shell(late.socket, tmp_path), late.client("reader")
        assert shell.ok("checkpoint", "verify", "before") == "whole: 305 keys"
        at = "checkpoint:before"
        assert state.get("plan/000", at=at) == {"step": 0}
        assert state.get("long", at=at) == "x" * 50_000
        assert state.get("notes", at=at) == "as it was"
        blob = state.get_blob("blob", at=at)
        assert blob is not None
        assert blob.read() == data
        assert len(shell.ok("checkpoint", "diff", "before").splitlines()) >= 150
    late = cluster[3]
    state = late.client("planner")
    state.restore("before")
    assert [state.get(f"plan/{n:03}") for n in range(300)] == [{"step": n} for n in range(300)]
    assert (state.get("findings"), state.get("count"), state.get("notes")) == ([*range(5)], 3, "as it was")
    blob = state.get_blob("blob")
    assert blob is not None
    assert blob.read() == data


@pytest.mark.parametrize("what", ["restore", "merge"])
def test_a_command_whose_daemon_dies_says_how_far_it_came_and_how_to_go_on(
    daemon: Daemon, tmp_path: Path, what: str
) -> None:
    run, state = Shell(daemon.socket, tmp_path), daemon.client()
    keys = [f"k/{n:04}" for n in range(3000 if what == "restore" else 600)]

    def write(session: Any, value: str) -> None:
        for first in range(0, len(keys), 500):
            with session.batch() as batch:
                for key in keys[first : first + 500]:
                    batch.set(key, value)

    write(state, "old" if what == "restore" else "then")
    if what == "restore":
        state.checkpoint("before")
        write(state, "ruined")
        command = ["checkpoint", "restore", "before"]
    else:
        state.fork("trial")
        write(state.session(space="trial"), "old")
        command = ["space", "merge", "trial"]
    with run.start("--timeout", "10s", *command) as running:
        wait_until(lambda: state.get(keys[0]) == "old", what="the first change is made")
        daemon.kill()
        out, err = running.process.communicate()
    done = "keys restored" if what == "restore" else "keys merged"
    assert out == b""
    assert running.process.returncode in (3, 5)
    assert re.search(rf"; [\d,]+ {done} before that: run it again, and it goes on with what is left", err.decode())
    daemon.start()
    assert run(*command).status == 0
    assert {value for _, value in daemon.client().items("k/")} == {"old"}
