"""What is purged is gone from every place on every host: to the byte, from the files too."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest
from pycrdt import Doc, Text

from crdtsync.core.background import purging
from crdtsync.core.background.retention_caps import Caps
from crdtsync.core.interface import DiskSpace
from crdtsync.errors import NoSpace
from crdtsync.wire.codec import pack, unpack
from tests.fleet.agent import Refusal
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host
from tests.simulator.cuts import patiently, put_blob, shown
from tests.unit.daemon.counting import counters, counters_by_sum

SECRET = "the-launch-code-is-4711"
LONG = SECRET + "x" * 2000


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purging, "SLICE_ROWS", 4)
    monkeypatch.setattr(purging, "SLICE_TEXTS", 1)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with fleet_of("a", "b", "c") as made:
        yield made


def wipe(machine: Host) -> None:
    """What the daemon does between its turns."""
    while machine.store.release_space():
        pass
    if machine.store.is_wiping_due:
        machine.store.wipe()


def found_in(machine: Host, secret: str = SECRET) -> list[str]:
    """The files of a host that have the secret in them."""
    return [path.name for path in sorted(machine.store.data_dir.iterdir()) if secret.encode() in path.read_bytes()]


def settle(fleet: Fleet) -> None:
    fleet.run(3, 0.02)
    for machine in fleet.machines.values():
        wipe(machine)
        assert counters(machine.store) == counters_by_sum(machine.store)


def purges(machine: Host) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = machine.agent().ask("purges")["items"]
    return items


def check_gone(fleet: Fleet, *names: str) -> None:
    for name in names:
        assert all(item["done"] for item in purges(fleet[name]))
        assert found_in(fleet[name]) == [], name


def text_update(content: str) -> bytes:
    doc: Doc[Any] = Doc()
    doc["text"] = Text(content)
    return doc.get_update()


def write_secrets(machine: Host) -> None:
    """Into keys of every kind."""
    ann = machine.agent()
    ann.set("notes/a", SECRET)
    ann.set("notes/a", LONG)
    ann.set("notes/a", LONG + "!")
    ann.append("notes/log", SECRET)
    ann.append("notes/log", LONG)
    ann.do("add", key="notes/set", value=pack(SECRET))
    ann.do("merge", key="notes/map", fields={"f": pack(SECRET)})
    ann.do("text_apply", key="notes/text", document=None, update=text_update(LONG))
    ann.do(
        "batch", ops=[["set", {"key": "notes/b", "value": pack(SECRET)}], ["set", {"key": "kept", "value": pack(7)}]]
    )
    ann.set("kept", 8)
    ann.delete("notes/b")


def test_it_is_gone_to_the_byte_on_every_host(fleet: Fleet) -> None:
    a, b = fleet["a"], fleet["b"]
    fleet.link("a", "b")
    write_secrets(a)
    settle(fleet)
    assert found_in(a)
    assert found_in(b)
    answer = a.agent().do("purge", pattern="notes/**")
    assert (answer["removed"], answer["more"]) == (5, False)
    settle(fleet)
    check_gone(fleet, "a", "b")
    for machine in (a, b):
        assert machine.agent().get("notes/a") is None
        page = machine.agent().ask("history", key="notes/a", limit=100)
        assert (page["items"], page["complete"]) == ([], False)
        assert [unpack(item["value"]) for item in machine.agent().ask("history", key="kept")["items"]] == [8, 7]
        (item,) = purges(machine)
        assert (item["pattern"], item["values"], item["changes"], item["texts"]) == ("notes/**", 9, 9, 1)
        counts = {"values": 9, "changes": 9, "texts": 1}
        assert ("purged", {"space": "default", "pattern": "notes/**", **counts}) in machine.log
    assert a.replica.entries.digest == b.replica.entries.digest


def test_without_a_purge_a_delete_leaves_it_in_the_files(fleet: Fleet) -> None:
    """The control."""
    a = fleet["a"]
    write_secrets(a)
    a.agent().delete("notes/a")
    settle(fleet)
    assert found_in(a)


def test_a_host_that_was_away_neither_brings_it_back_nor_keeps_it(fleet: Fleet) -> None:
    a, c = fleet["a"], fleet["c"]
    wire = fleet.link("a", "c")
    write_secrets(a)
    settle(fleet)
    wire.close("away")
    settle(fleet)
    a.agent().do("purge", pattern="notes/**")
    settle(fleet)
    c.agent().set("mine", 1)
    assert found_in(c)
    fleet.link("a", "c")
    settle(fleet)
    check_gone(fleet, "a", "c")
    assert a.replica.entries.digest == c.replica.entries.digest
    assert a.agent().get("mine") == 1
    assert a.agent().get("notes/a") is None
    assert "divergence" not in a.alarms | c.alarms


def test_a_host_that_never_had_it_catches_up_over_redacted_changes(fleet: Fleet) -> None:
    a, b, c = fleet["a"], fleet["b"], fleet["c"]
    write_secrets(a)
    settle(fleet)
    a.agent().do("purge", pattern="notes/**")
    settle(fleet)
    a.agent().set("kept", 9)
    fleet.link("a", "b")
    settle(fleet)
    check_gone(fleet, "a", "b")
    assert b.replica.vector == a.replica.vector
    assert b.replica.entries.digest == a.replica.entries.digest
    fleet.link("b", "c")  # and hands them on
    settle(fleet)
    check_gone(fleet, "c")
    assert c.agent().get("kept") == 9
    assert c.replica.hashes == a.replica.hashes


def test_a_host_that_comes_back_to_a_snapshot_purges_too() -> None:
    with fleet_of("a", "b", caps=Caps(log_bytes_max=4000)) as fleet:
        a, b = fleet["a"], fleet["b"]
        wire = fleet.link("a", "b")
        write_secrets(a)
        settle(fleet)
        assert found_in(b)
        wire.close("away")
        a.agent().do("purge", pattern="notes/**")
        for n in range(100):
            a.agent().set("kept", n)
        settle(fleet)
        fleet.link("a", "b")
        settle(fleet)
        assert b.replica.floor
        check_gone(fleet, "a", "b")


def test_what_is_written_at_the_same_time_stays(fleet: Fleet) -> None:
    a, b = fleet["a"], fleet["b"]
    wire = fleet.link("a", "b")
    a.agent().set("notes/a", SECRET)
    settle(fleet)
    wire.close("away")
    b.agent().set("notes/a", "new")
    a.agent().do("purge", pattern="notes/a")
    fleet.link("a", "b")
    settle(fleet)
    check_gone(fleet, "a", "b")
    for machine in (a, b):
        assert machine.agent().get("notes/a") == "new"
    a.agent().set("notes/a", "newer")
    settle(fleet)
    assert [unpack(item["value"]) for item in b.agent().ask("history", key="notes/a")["items"]] == ["newer", "new"]


def test_edits_of_a_purged_text_go_with_it(fleet: Fleet) -> None:
    """They stand on what is gone."""
    a, b = fleet["a"], fleet["b"]
    wire = fleet.link("a", "b")
    first = text_update(SECRET)
    document = a.agent().do("text_apply", key="notes/text", document=None, update=first)["document"]
    settle(fleet)
    wire.close("away")
    settle(fleet)
    doc: Doc[Any] = Doc()
    doc["text"] = text = Text()
    doc.apply_update(first)
    before = doc.get_state()
    text += " and more"
    b.agent().do("text_apply", key="notes/text", document=document, update=doc.get_update(before))
    a.agent().do("purge", pattern="notes/**")
    settle(fleet)
    fleet.link("a", "b")
    settle(fleet)
    fleet.run(10, 0.1)
    settle(fleet)
    assert a.agent().get("notes/text") is None
    assert b.agent().get("notes/text") is None
    check_gone(fleet, "a", "b")


def test_many_keys_go_by_slices(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purging, "SLICE_ROWS", 256)
    a, b = fleet["a"], fleet["b"]
    fleet.link("a", "b")
    for begin in range(0, 1500, 500):
        a.agent().do(
            "batch", ops=[["set", {"key": f"notes/{n}", "value": pack(SECRET)}] for n in range(begin, begin + 500)]
        )
    settle(fleet)
    answer = a.agent().do("purge", pattern="notes/*")
    assert (answer["removed"], answer["more"]) == (100, True)
    fleet.run(20, 0.02)
    settle(fleet)
    check_gone(fleet, "a", "b")
    assert purges(b)[0]["values"] == 1500


def test_after_a_kill_or_a_failed_commit_it_is_done_all_the_same(fleet: Fleet) -> None:
    a = fleet["a"]
    write_secrets(a)
    settle(fleet)
    a.agent().do("purge", pattern="notes/**")
    fleet.run(0.06, 0.02)
    a.restart()
    fleet.run(0.06, 0.02)
    fleet.pass_time(0.02)
    a.refuse(NoSpace("full"))
    settle(fleet)
    check_gone(fleet, "a")


def test_a_second_purge_of_the_keys_reaches_what_came_after_the_first(fleet: Fleet) -> None:
    a = fleet["a"]
    a.agent().set("notes/a", "old")
    a.agent().do("purge", pattern="notes/a")
    settle(fleet)
    a.agent().set("notes/a", SECRET)
    settle(fleet)
    assert found_in(a)
    a.agent().do("purge", pattern="notes/a")
    settle(fleet)
    check_gone(fleet, "a")
    assert len(purges(a)) == 1


def test_what_frees_disk_may_use_the_reserve(fleet: Fleet) -> None:
    a = fleet["a"]
    agent = a.agent()
    for key in ("notes/a", "notes/b"):
        agent.set(key, LONG)
    for n in range(3):
        agent.append("log", n)
    a.step(DiskSpace("full", has_reserve=True))
    with pytest.raises(Refusal, match="full"):
        agent.set("k", 1)
    with pytest.raises(Refusal, match="full"):
        agent.do("batch", ops=[["delete", {"key": "log"}]])
    agent.delete("notes/b")
    agent.do("trim", key="log", keep=1)
    assert len(agent.ask("log", key="log")["items"]) == 1
    agent.do("purge", pattern="notes/**")
    settle(fleet)
    check_gone(fleet, "a")
    a.step(DiskSpace("full"))
    with pytest.raises(Refusal, match="full"):
        agent.delete("log")
    with pytest.raises(Refusal, match="full"):
        agent.do("purge", pattern="log")


def test_keys_that_only_begin_alike_stay(fleet: Fleet) -> None:
    a = fleet["a"]
    a.agent().set("notes/a", 1)
    a.agent().set("notes/ab", 2)
    a.agent().set("notes/ab", 3)
    a.agent().do("purge", pattern="notes/a")
    settle(fleet)
    assert [unpack(item["value"]) for item in a.agent().ask("history", key="notes/ab")["items"]] == [3, 2]


def test_a_reply_that_is_kept_for_a_retry_tells_nothing_of_it(fleet: Fleet) -> None:
    a = fleet["a"]
    a.agent().set("notes/a", SECRET)
    a.agent("other").set("notes/a", 1)  # blindly: its reply tells what it replaced
    a.agent().do("purge", pattern="notes/a")
    settle(fleet)
    check_gone(fleet, "a")


@pytest.mark.parametrize("pattern", ["_schema/x", "", "a/b*", None, "x" * 1020])
def test_what_is_no_pattern_is_refused(fleet: Fleet, pattern: object) -> None:
    with pytest.raises(Refusal):
        fleet["a"].agent().do("purge", pattern=pattern)


def write_what_a_checkpoint_holds(machine: Host) -> None:
    """Secrets in keys of every kind, a checkpoint, and afterwards the deletion of half of them."""
    ann = machine.agent()
    write_secrets(machine)
    for n, name in enumerate(("gone", "stays")):
        put_blob(ann, f"notes/{name}", SECRET.encode(), f"{n:024x}")
    ann.set("kept", "before")
    ann.do("checkpoint_set", name="before")
    for key in ("notes/gone", "notes/set", "notes/a"):
        ann.delete(key)
    ann.do("trim", key="notes/log", keep=0)
    ann.set("kept", "after")


def test_what_a_checkpoint_holds_goes_on_every_host_too(fleet: Fleet) -> None:
    a = fleet["a"]
    fleet.link("a", "b")
    write_what_a_checkpoint_holds(a)
    a.agent().do("blob_write", key="notes/unfinished", upload="f" * 24, part=0, value=SECRET.encode())
    settle(fleet)
    a.agent().do("purge", pattern="notes/**")
    settle(fleet)
    check_gone(fleet, "a", "b")
    for machine in (a, fleet["b"]):
        agent, at = machine.agent(), "checkpoint:before"
        assert unpack(patiently(agent, "get", key="kept", at=at)["value"]) == "before"
        with pytest.raises(Refusal, match="of this key less is kept than that, by a purge"):
            patiently(agent, "get", key="notes/a", at=at)
        with pytest.raises(Refusal, match="or a prefix beside them"):
            shown(agent, at)
        assert [item["key"] for item in shown(agent, at, prefix="k")] == ["kept"]
        with pytest.raises(Refusal, match="too_old"):
            agent.ask("blob_read", key="notes/gone", upload=f"{0:024x}", part=0)


def test_what_was_recalled_of_a_checkpoint_goes_too() -> None:
    with fleet_of("a", "b", linked=True, caps=Caps(log_bytes_max=4000, history_bytes_max=1 << 40)) as fleet:
        a = fleet["a"]
        write_what_a_checkpoint_holds(a)
        for n in range(100):
            a.agent().set("churn", n)
        fleet.run(20, 1)
        fleet.add("c")
        fleet.link("a", "c")
        fleet.run(30, 0.5)
        settle(fleet)
        c = fleet["c"]
        assert c.replica.floor
        assert c.agent().ask("checkpoints")["items"][0]["whole"]
        assert found_in(c)
        a.agent().do("purge", pattern="notes/**")
        fleet.run(60, 1)  # a waits for the end of its snapshot
        settle(fleet)
        check_gone(fleet, "a", "b", "c")


def test_a_blob_that_is_finished_at_the_same_time_stays_whole(fleet: Fleet) -> None:
    a, b = fleet["a"], fleet["b"]
    wire = fleet.link("a", "b")
    put_blob(b.agent(), "notes/blob", b"old", f"{1:024x}")
    b.agent().do("blob_write", key="notes/blob", upload=f"{2:024x}", part=0, value=b"new")
    settle(fleet)
    wire.close("away")
    digest = sha256(b"new").hexdigest()
    b.agent().do("blob_set", key="notes/blob", size=3, sha256=digest, media_type=None, upload=f"{2:024x}")
    a.agent().do("purge", pattern="notes/**")
    fleet.run(purging.TAKEOVER_S + 5, 0.1)
    settle(fleet)
    fleet.link("a", "c")
    settle(fleet)
    fleet.link("b", "c")
    fleet.link("a", "b")
    settle(fleet)
    for machine in fleet.machines.values():
        assert machine.agent().ask("blob_read", key="notes/blob", upload=f"{2:024x}", part=0)["value"] == b"new"
    fleet.run(purging.AWAY_S, 0.1)
    assert all(purges(machine)[0]["done"] for machine in fleet.machines.values())


def test_a_purge_is_done_only_when_the_host_of_an_unfinished_upload_has_been_back(fleet: Fleet) -> None:
    a, b = fleet["a"], fleet["b"]
    wire = fleet.link("a", "b")
    a.agent().set("notes/a", LONG)
    for part in range(3):
        b.agent().do("blob_write", key="notes/blob", upload=f"{1:024x}", part=part, value=SECRET.encode() * 100)
    settle(fleet)
    wire.close("away")
    a.agent().do("purge", pattern="notes/**")
    fleet.run(purging.TAKEOVER_S + 5, 0.1)
    settle(fleet)
    assert not purges(a)[0]["done"]
    assert found_in(a)
    assert [entry["value"] for entry in a.agent().ask("history", key="notes/a")["items"]] == []
    a.restart()
    fleet.run(2 * purging.AWAY_S, 0.1)
    assert not purges(a)[0]["done"]
    fleet.link("a", "b")
    fleet.run(purging.AWAY_S + 5, 0.1)
    settle(fleet)
    check_gone(fleet, "a", "b")
    assert [event for event, _ in a.log].count("purged") == 1
