"""Blobs: seen whole or not at all, gone with what their remover had seen, and never longer on disk than is needed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from hashlib import sha256
from random import Random
from typing import Any

import pytest

from crdtsync.core.background.upload_sweep import SWEEP_INTERVAL_S, UNFINISHED_MS_MAX
from crdtsync.wire.blobs import BLOB_PREFIX, PART_BYTES
from crdtsync.wire.codec import unpack
from tests.fleet.agent import Agent, Refusal
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host
from tests.simulator.cuts import patiently

KEY = "reports/q3"
DATA = Random(1).randbytes(2 * PART_BYTES + 1000)
OTHER = Random(2).randbytes(PART_BYTES + 1)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with fleet_of("a", "b", linked=True) as made:
        yield made


def upload(agent: Agent, number: int, data: bytes = DATA, key: str = KEY) -> dict[str, Any]:
    """Store the parts; what the entry is to say of them."""
    name = f"{number:024x}"
    for part in range(-(-len(data) // PART_BYTES)):
        piece = data[part * PART_BYTES : (part + 1) * PART_BYTES]
        agent.do("blob_write", key=key, upload=name, part=part, value=piece)
    return {"key": key, "upload": name, "size": len(data), "sha256": sha256(data).hexdigest()}


def put(agent: Agent, number: int, data: bytes = DATA, **args: Any) -> str:
    """The upload's name."""
    said = upload(agent, number, data)
    agent.do("blob_set", **said, **args)
    return str(said["upload"])


def read(agent: Agent, name: str, data: bytes = DATA) -> bytes:
    parts = range(-(-len(data) // PART_BYTES))
    return b"".join(agent.ask("blob_read", key=KEY, upload=name, part=part)["value"] for part in parts)


def stored(host: Host) -> int:
    """How many parts have a row on disk, alive or dead."""
    host.store.settle()
    while host.store.has_backlog:
        host.store.bring_some_in()
    living = sum(len(host.replica.entries.held(key)) for key in host.replica.entries.keys(BLOB_PREFIX, hidden=True))
    return living + len(host.store.dead_under(host.replica.id, BLOB_PREFIX, None, 1000))


def test_a_blob_is_seen_when_it_is_whole(fleet: Fleet) -> None:
    ann, bob = fleet["a"].agent("ann"), fleet["b"].agent("bob")
    said = upload(ann, 1)
    fleet.sync()
    assert ann.ask("get", key=KEY) is None
    assert bob.ask("get", key=KEY) is None
    assert bob.ask("scan", prefix="")["items"] == []
    ann.do("blob_set", **said, media_type="application/pdf")
    fleet.sync()
    shown = bob.ask("get", key=KEY)
    assert (shown["kind"], unpack(shown["value"])["media_type"]) == ("blob", "application/pdf")
    assert read(bob, said["upload"]) == DATA
    assert [row[0] for row in bob.ask("scan", prefix="")["items"]] == [KEY]


def test_an_entry_is_refused_that_says_more_than_is_there(fleet: Fleet) -> None:
    ann, bob = fleet["a"].agent("ann"), fleet["b"].agent("bob")
    said = upload(ann, 1)
    fleet.sync()
    for faulty in ({"size": len(DATA) + 1}, {"size": len(DATA) + PART_BYTES}, {"upload": "f" * 24}):
        with pytest.raises(Refusal, match="is missing here"):
            ann.do("blob_set", **{**said, **faulty})
    with pytest.raises(Refusal, match="is missing here"):
        bob.do("blob_set", **said)  # the parts are another node's, which may clear them away
    ann.do("blob_set", **said)
    with pytest.raises(Refusal, match="was finished before"):
        ann.do("blob_set", **said)
    ann.set("other", 1)
    elsewhere = upload(ann, 2, key="other")
    with pytest.raises(Refusal, match="put_blob works on a blob"):
        ann.do("blob_set", **elsewhere)
    with pytest.raises(Refusal, match="set works on a register"):
        ann.set(KEY, 1)


@pytest.mark.parametrize("how", ["delete", "put", "expire"])
def test_the_parts_go_with_the_entry_everywhere_and_free_the_disk(fleet: Fleet, how: str) -> None:
    ann, bob = fleet["a"].agent("ann"), fleet["b"].agent("bob")
    first, second = put(ann, 1, ttl=60_000 if how == "expire" else None), ""
    fleet.sync()
    if how == "delete":
        bob.do("delete", key=KEY)
    elif how == "put":
        second = put(bob, 2, OTHER)
    else:
        fleet.pass_time(61)
    fleet.run(5)
    fleet.sync()
    for name in ("a", "b"):
        assert stored(fleet[name]) == (2 if how == "put" else 0), name
        assert fleet[name].store.log_stats(fleet[name].replica.id)["history_bytes"] < PART_BYTES
    if how == "put":
        assert read(ann, second, OTHER) == OTHER
    with pytest.raises(Refusal, match="too_old"):
        read(ann, first)


def test_whoever_deletes_one_of_two_blobs_that_came_at_once_leaves_the_other(fleet: Fleet) -> None:
    ann, bob = fleet["a"].agent("ann"), fleet["b"].agent("bob")
    put(ann, 1)
    bob.do("delete", key=KEY)
    second = put(bob, 2, OTHER)
    fleet.sync()
    assert ann.ask("get", key=KEY)["siblings"] == 1
    version = ann.ask("get", key=KEY)["version"]
    winner = unpack(ann.ask("get", key=KEY)["value"])["upload"]
    put(ann, 3, OTHER, seen=version)
    fleet.run(3)
    fleet.sync()
    left = second if winner != second else f"{1:024x}"
    data = OTHER if left == second else DATA
    assert read(bob, left, data) == data
    assert bob.ask("get", key=KEY)["siblings"] == 1


def test_what_nobody_finished_is_cleared_away_by_the_node_that_began_it(fleet: Fleet) -> None:
    ann, bob = fleet["a"].agent("ann"), fleet["b"].agent("bob")
    upload(ann, 1)
    kept = put(bob, 2, OTHER)
    fleet.sync()
    fleet.pass_time(UNFINISHED_MS_MAX / 2000)
    fleet.run(2 * SWEEP_INTERVAL_S, 60)
    fleet.sync()
    assert (stored(fleet["a"]), stored(fleet["b"])) == (5, 5)
    fleet.pass_time(UNFINISHED_MS_MAX / 1000)
    fleet.run(2 * SWEEP_INTERVAL_S, 60)
    fleet.sync()
    fleet.run(5)
    assert (stored(fleet["a"]), stored(fleet["b"])) == (2, 2)
    assert read(ann, kept, OTHER) == OTHER


def test_an_upload_that_was_cut_off_is_found_where_it_was_begun(fleet: Fleet) -> None:
    ann, bob = fleet["a"].agent("ann"), fleet["b"].agent("bob")
    digest = sha256(DATA).hexdigest()
    name = digest[:16] + "00000001"
    for part in (0, 1):
        ann.do("blob_write", key=KEY, upload=name, part=part, value=DATA[part * PART_BYTES : (part + 1) * PART_BYTES])
    fleet.sync()
    fleet["a"].restart()
    ann = fleet["a"].agent("ann")
    found = ann.ask("blob_parts", key=KEY, sha256=digest)
    assert (found["upload"], len(found["parts"])) == (name, 2)
    assert bob.ask("blob_parts", key=KEY, sha256=digest) == {"upload": None, "parts": []}
    assert ann.ask("blob_parts", key=KEY, sha256="f" * 64) == {"upload": None, "parts": []}


def test_a_checkpoint_holds_the_bytes_until_it_is_deleted(fleet: Fleet) -> None:
    ann, bob = fleet["a"].agent("ann"), fleet["b"].agent("bob")
    name = put(ann, 1)
    ann.do("checkpoint_set", name="before")
    fleet.sync()
    fleet.run(2)
    bob.do("delete", key=KEY)
    fleet.sync()
    fleet.run(5)
    for agent in (ann, bob):
        then = patiently(agent, "get", key=KEY, at="checkpoint:before")
        assert unpack(then["value"])["upload"] == name
        assert read(agent, name) == DATA
    ann.do("checkpoint_set", name="before", remove=True)
    fleet.sync()
    fleet.run(5)
    assert (stored(fleet["a"]), stored(fleet["b"])) == (0, 0)


def test_a_purge_leaves_nothing_of_the_bytes(fleet: Fleet) -> None:
    ann = fleet["a"].agent("ann")
    put(ann, 1)
    fleet.sync()
    ann.do("purge", pattern="reports/**")
    fleet.sync()
    fleet.run(90)
    piece = DATA[1000:1032]
    for name in ("a", "b"):
        assert stored(fleet[name]) == 0
        for row in fleet[name].store.log(fleet[name].replica.id, 0, 1 << 40, 1000):
            assert piece not in row.body, name


def drafts() -> list[object]:
    return [each for each in gc.get_objects() if type(each).__name__ == "Draft"]


def test_memory_does_not_wait_for_the_collector(fleet: Fleet) -> None:
    """Drafts used to refer to themselves, so what a large write held stayed until the collector came."""
    ann = fleet["a"].agent("ann")
    upload(ann, 1)
    gc.collect()
    gc.disable()
    try:
        before = drafts()  # of other tests, whose tracebacks somebody keeps
        upload(ann, 2)
        fleet["a"].turn()
        assert not [each for each in drafts() if not any(each is other for other in before)]
    finally:
        gc.enable()


def test_a_key_that_is_too_long_for_its_parts_is_refused(fleet: Fleet) -> None:
    ann = fleet["a"].agent("ann")
    longest = "k" * 993
    ann.do("blob_write", key=longest, upload="0" * 24, part=0, value=b"x")
    with pytest.raises(Refusal, match="too long for a blob"):
        ann.do("blob_write", key=longest + "k", upload="0" * 24, part=0, value=b"x")


def test_taking_one_of_two_blobs_leaves_its_bytes_alone(fleet: Fleet) -> None:
    ann, bob = fleet["a"].agent("ann"), fleet["b"].agent("bob")
    names = [put(ann, 1), put(bob, 2, OTHER)]
    fleet.sync()
    entry = bob.ask("entry", key=KEY)
    assert len(entry["siblings"]) == 1
    taken = unpack(entry["siblings"][0]["value"])["upload"]
    bob.do("resolve", key=KEY, take=entry["siblings"][0]["dot"])
    fleet.sync()
    fleet.run(3)
    data = DATA if taken == names[0] else OTHER
    for name, agent in (("a", ann), ("b", bob)):
        assert agent.ask("get", key=KEY)["siblings"] == 0
        assert read(agent, taken, data) == data
        assert stored(fleet[name]) == -(-len(data) // PART_BYTES)


def test_a_restore_takes_blobs_away_and_says_which_it_did_not_bring_back(fleet: Fleet) -> None:
    ann = fleet["a"].agent("ann")
    put(ann, 1)
    ann.do("checkpoint_set", name="before")
    ann.do("delete", key=KEY)
    said = upload(ann, 2, OTHER, "later")
    ann.do("blob_set", **said)
    done = patiently(ann, "restore", n=ann.number + 1, at="checkpoint:before")
    assert done["items"] == [["later", "removed"]]
    ((key, why),) = done["left"]
    assert (key, "put it again" in why) == (KEY, True)
