"""A place of one agent's own: nothing of it leaves the host, and others may not look, until it is published."""

from __future__ import annotations

from pathlib import Path

import pytest

from crdtsync import Client, InvalidRequest, UnknownSpace
from tests.harness import Cluster, Daemon, wait_until

pytestmark = pytest.mark.integration

SECRET = "nobody else is to read this sentence"


def test_what_is_private_stays_on_its_host_until_it_is_published(pair: Cluster):
    here, there = pair
    state = here.client("ann")
    scratch = state.private()
    scratch.set("draft", SECRET, meta={"by": "ann"})
    scratch.append("steps", "one")
    scratch.append("steps", "two")
    assert state.private().get("draft") == SECRET
    assert state.get("draft") is None
    token = state.set("marker", 1, w=2)
    other = there.client("ann")
    assert scratch.space not in [space.name for space in other.spaces() if space.here]
    other.wait(token)
    files = [file for file in there.data.rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if SECRET.encode() in file.read_bytes()]
    scratch.publish("draft", "plan/goal")
    assert (state.get("plan/goal"), scratch.get("draft")) == (SECRET, None)
    entry = other.entry("plan/goal", after=scratch.publish("steps"))
    assert entry is not None
    assert (entry.value, entry.meta, entry.agent) == (SECRET, {"by": "ann"}, "ann")
    assert other.log("steps") == ["one", "two"]
    with pytest.raises(LookupError, match="nothing was published"):
        scratch.publish("draft")


def test_every_kind_is_published_as_what_it_is(pair: Cluster):
    state = pair[0].client("ann")
    scratch = state.private(everywhere=True)
    scratch.add("tags", "a")
    scratch.incr("spent", 3)
    scratch.merge("owners", {"db": "bob"})
    scratch.text("notes").insert(0, "so far")
    state.incr("spent", 2)
    elsewhere = pair[1].client("ann")
    wait_until(lambda: scratch.space in [space.name for space in elsewhere.spaces() if space.here])
    for key in ("tags", "spent", "owners", "notes"):
        scratch.publish(key)
    assert [state.get(key) for key in ("tags", "spent", "owners", "notes")] == [["a"], 5, {"db": "bob"}, "so far"]
    assert scratch.keys() == []


def test_what_no_batch_takes_is_published_in_several(daemon: Daemon):
    state = daemon.client("ann")
    scratch = state.private()
    for start in range(0, 1_200, 400):
        with scratch.batch() as batch:
            for number in range(start, start + 400):
                batch.append("steps", number, meta={"n": number}, ttl=3600)
    for start in range(0, 1_200, 400):
        scratch.merge("owners", {f"f{number}": number for number in range(start, start + 400)})
    scratch.publish("steps")
    scratch.publish("owners")
    items = state.log_items("steps")
    assert [(item.value, item.meta) for item in items] == [(number, {"n": number}) for number in range(1_200)]
    assert all(item.ttl is not None and 3000 < item.ttl <= 3600 for item in items)
    assert state.get("owners") == {f"f{number}": number for number in range(1_200)}
    assert scratch.keys() == []


def test_other_agents_may_not_look(daemon: Daemon, tmp_path: Path):
    owner = daemon.client()
    files = [tmp_path / name for name in ("ann", "bob")]
    for file in files:
        file.write_text(owner.agent_create(file.name)["key"])
        owner.access_grant(f"agent:{file.name}", "admin")
    with Client(daemon.socket, agent_key=files[0]) as ann, Client(daemon.socket, agent_key=files[1]) as bob:
        scratch = ann.private()
        scratch.set("draft", SECRET)
        with pytest.raises(UnknownSpace):
            bob.session(space=scratch.space).get("draft")
        assert bob.private().get("draft") is None
        ann.session(space=scratch.space).access_grant("agent:bob", "read")
        with pytest.raises(InvalidRequest, match="agent:bob may"):
            ann.private()
