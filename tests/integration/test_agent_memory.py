"""What agents remember, over real daemons."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from crdtsync import AsyncClient, Client
from crdtsync.context import AsyncMemory, Memory
from crdtsync.context.memory.record import TEAM
from crdtsync.errors import InvalidRequest, TooOld
from tests.harness import wait_until
from tests.harness.cluster import Cluster
from tests.harness.daemon import Daemon
from tests.harness.shell import Shell

pytestmark = pytest.mark.integration


@pytest.fixture
def memory(daemon: Daemon, tmp_path: Path) -> Memory:
    return Memory(daemon.client("ann"), folder=tmp_path)


def said(found: dict[str, Any]) -> list[str]:
    return [one["memory"] for one in found["results"]]


def is_one(memory: Memory) -> bool:
    return len(memory.get_all(user_id="alice")["results"]) == 1


def test_it_does_what_such_a_memory_does(memory: Memory) -> None:
    (added,) = memory.add("prefers night trains", user_id="alice", metadata={"topic": "travel"})["results"]
    assert (added["memory"], added["event"]) == ("prefers night trains", "ADD")
    memory.add([{"role": "user", "content": "eats no fish"}], user_id="alice", agent_id="cook")
    memory.add("likes trains", user_id="bob")
    found = memory.search("trains", user_id="alice")
    assert said(found) == ["prefers night trains"]
    assert 0 < found["results"][0]["score"] <= 1
    assert found["results"][0]["metadata"] == {"topic": "travel"}
    assert said(memory.search("fish trains", user_id="alice", filters={"topic": "travel"})) == ["prefers night trains"]
    assert said(memory.search("fish", agent_id="cook")) == ["eats no fish"]
    assert said(memory.search("trains", user_id="alice", threshold=0.99)) == []
    assert set(said(memory.get_all(user_id="alice"))) == {"prefers night trains", "eats no fish"}

    assert memory.update(added["id"], "prefers day trains") == {"message": "Memory updated successfully!"}
    one = memory.get(added["id"])
    assert one is not None
    assert (one["memory"], one["user_id"], one["agent"]) == ("prefers day trains", "alice", "ann")
    memory.delete(added["id"])
    assert memory.get(added["id"]) is None
    told = [(line["event"], line["old_memory"], line["new_memory"]) for line in memory.history(added["id"])]
    assert told == [
        ("ADD", None, "prefers night trains"), ("UPDATE", "prefers night trains", "prefers day trains"),
        ("DELETE", "prefers day trains", None),
    ]  # fmt: skip
    memory.delete_all(user_id="alice")
    assert said(memory.get_all(user_id="alice")) == []
    assert said(memory.get_all(user_id="bob")) == ["likes trains"]
    memory.reset()
    assert said(memory.get_all(user_id="bob")) == []
    for refused in (lambda: memory.search("x"), lambda: memory.update("user/x/0", "y"), lambda: memory.add("x")):
        with pytest.raises(InvalidRequest):
            refused()


def test_what_is_said_twice_is_one_memory_on_all_hosts(parted: Cluster, tmp_path: Path) -> None:
    memories = [Memory(daemon.client("agent"), folder=tmp_path / str(n)) for n, daemon in enumerate(parted)]
    for memory in memories:
        memory.add("Likes tea", user_id="alice")
        assert memory.add("likes  TEA", user_id="alice")["results"][0]["event"] == "NONE"
        memory.add("likes tea", user_id="bob")
    parted.heal()
    for memory in memories:
        wait_until(partial(is_one, memory))
        assert len(memory.get_all(user_id="bob")["results"]) == 1


def test_a_fact_is_superseded_and_what_held_before_can_be_asked_for(memory: Memory) -> None:
    last_week = datetime.now(UTC) - timedelta(days=7)
    (old,) = memory.add("lives in Rome", user_id="alice", about="home", valid_from=last_week)["results"]
    (new,) = memory.supersede(old["id"], "lives in Oslo", source="log/chat")["results"]
    assert said(memory.get_all(user_id="alice")) == said(memory.search("lives", user_id="alice")) == ["lives in Oslo"]
    assert said(memory.get_all(user_id="alice", as_of=last_week + timedelta(days=1))) == ["lives in Rome"]
    assert said(memory.get_all(user_id="alice", as_of=last_week - timedelta(days=1))) == []
    shown = memory.get(new["id"])
    assert shown is not None
    assert (shown["supersedes"], shown["source"], shown["about"]) == (old["id"], "log/chat", "home")
    with pytest.raises(InvalidRequest, match="before that"):
        memory.supersede(new["id"], "lives in Bonn", at=last_week)
    assert memory.contradictions(user_id="alice") == []
    memory.add("lives in Bern", user_id="alice", about="home", confidence=0.4)
    ((one, other),) = memory.contradictions(user_id="alice")
    assert {one["memory"], other["memory"]} == {"lives in Oslo", "lives in Bern"}


def test_what_was_changed_on_two_hosts_at_once_is_shown(parted: Cluster, tmp_path: Path) -> None:
    first, second = (Memory(daemon.client("agent"), folder=tmp_path / str(n)) for n, daemon in enumerate(parted))
    (one,) = first.add("likes tea", user_id="alice")["results"]
    second.add("likes tea", user_id="alice")
    first.update(one["id"], "likes coffee")
    second.update(one["id"], "likes milk")
    parted.heal()
    wait_until(lambda: len(first.contradictions(user_id="alice")) == 1)
    ((shown,),) = first.contradictions(user_id="alice")
    assert {shown["memory"], *shown["at_odds"]} == {"likes coffee", "likes milk"}
    told = first.history(one["id"])
    updates = {
        line["new_memory"]: (line["old_memory"], line.get("at_odds")) for line in told if line["event"] == "UPDATE"
    }
    assert updates == {"likes coffee": ("likes tea", ["likes milk"]), "likes milk": ("likes tea", ["likes coffee"])}
    assert "(at odds with: likes milk)" in Shell(parted[0].socket, tmp_path)("memory", "history", one["id"]).out
    first.update(one["id"], "likes water")
    told = first.history(one["id"])
    assert (told[-1]["old_memory"] in updates, told[-1]["new_memory"]) == (True, "likes water")
    assert not [line for line in told if "at_odds" in line]


def test_what_two_hosts_said_alike_is_no_contradiction(parted: Cluster, tmp_path: Path) -> None:
    memories = [Memory(daemon.client("agent"), folder=tmp_path / str(n)) for n, daemon in enumerate(parted)]
    for memory in memories:
        (one,) = memory.add("likes tea", user_id="alice")["results"]
    parted.heal()
    wait_until(lambda: all((memory.get(one["id"]) or {}).get("at_odds") for memory in memories))
    assert [memory.contradictions(user_id="alice") for memory in memories] == [[], []]


def test_a_model_decides_where_there_is_one(daemon: Daemon, tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def extract(messages: object) -> list[str]:
        return [f"fact: {messages}"]

    def merge(fact: str, similar: list[dict[str, Any]]) -> dict[str, Any]:
        seen.append([one["memory"] for one in similar])
        if "nothing" in fact:
            return {"event": "NONE"}
        return {"event": "UPDATE", "id": similar[0]["id"], "memory": f"{fact}!"} if similar else {"event": "ADD"}

    memory = Memory(daemon.client("ann"), extract=extract, merge=merge, folder=tmp_path)
    memory.add("tea", user_id="alice")
    (changed,) = memory.add("tea again", user_id="alice")["results"]
    assert (changed["event"], changed["previous_memory"]) == ("UPDATE", "fact: tea")
    assert memory.add("nothing", user_id="alice")["results"][0]["event"] == "NONE"
    assert said(memory.get_all(user_id="alice")) == ["fact: tea again!"]
    assert seen[1] == ["fact: tea"]
    memory.add("raw", user_id="alice", infer=False)
    assert "raw" in said(memory.get_all(user_id="alice"))
    silent: Any = lambda *_: None  # noqa: E731
    for broken in (Memory(daemon.client("ann"), extract=silent), Memory(daemon.client("ann"), merge=silent)):
        with pytest.raises(InvalidRequest, match="returned NoneType"):
            broken.add("tea", user_id="alice")


async def test_it_works_in_asyncio_and_passes_over_what_others_put_there(daemon: Daemon, tmp_path: Path) -> None:
    async with AsyncClient(daemon.socket, agent="ann") as client:
        memory = AsyncMemory(client, folder=tmp_path)
        await memory.add("likes tea", user_id="alice")
        for n, junk in enumerate((5, "tea", {"memory": 3}, {"memory": "tea", "created_at": 5})):
            await client.set(f"memory/user/alice/junk{n}", junk)
        assert said(await memory.search("tea", user_id="alice")) == ["likes tea"]
        assert said(await memory.get_all(user_id="alice")) == ["likes tea"]
        assert await memory.get("user/alice/junk1") is None
        odd = {"memory": "odd", "created_at": "garbage", "user_id": "alice", "about": ["x"], "metadata": 5}
        await client.set("memory/user/alice/odd", odd)
        assert said(await memory.get_all(user_id="alice")) == ["odd", "likes tea"]
        assert await memory.contradictions(user_id="alice") == []
        with pytest.raises(InvalidRequest):
            await memory.update("user/alice/odd", None)  # type: ignore[arg-type]
        assert (await memory.get("user/alice/odd") or {})["memory"] == "odd"


def test_near_duplicates_are_joined_after_a_look_and_stale_ones_are_listed(memory: Memory) -> None:
    last_year = timedelta(days=400)
    kept = memory.add("Prefers the night train to Berlin", user_id="alice")["results"][0]["id"]
    for text in (
        "prefers a night train to Berlin.", "Prefers the night train to Vienna", "Prefers no night train to Berlin",
        "Prefers the night train to Berlin at 22:10", "eats no fish",
    ):  # fmt: skip
        memory.add(text, user_id="alice", confidence=0.9)
    memory.add("prefers the night train to Berlin", user_id="bob")
    found = memory.curate(user_id="alice", stale_after=-last_year)
    (group,) = found["duplicates"]
    assert [one["memory"] for one in group] == ["Prefers the night train to Berlin", "prefers a night train to Berlin."]
    assert len(found["stale"]) == 6
    assert len(memory.get_all(user_id="alice")["results"]) == 6
    assert memory.curate(user_id="alice", dry_run=False)["stale"] == []
    left = said(memory.get_all(user_id="alice"))
    assert len(left) == 5
    assert "prefers a night train to Berlin." not in left
    assert memory.get(kept) is not None
    assert memory.curate(user_id="alice")["duplicates"] == []
    joined = memory.curate(
        user_id="alice", same=lambda one, other: {"Vienna", "22:10"} <= {*one.split(), *other.split()}
    )
    assert len(joined["duplicates"]) == 1


def test_what_is_forgotten_is_gone_from_history_and_checkpoints_on_all_hosts(pair: Cluster, tmp_path: Path) -> None:
    clients = [daemon.client("ann") for daemon in pair]
    memories = [Memory(client, folder=tmp_path / str(n)) for n, client in enumerate(clients)]
    memories[0].add("lost a glove", user_id="alice")
    card = "has the card " + " ".join(f"sesame{n}" for n in range(400))
    (one,) = memories[0].add(card, user_id="alice")["results"]
    assert said(memories[0].search("card", user_id="alice")) == [card]
    memories[0].update(one["id"], card + "!")
    clients[0].checkpoint("before")
    clients[1].wait(clients[0].now())
    assert said(memories[1].search("card", user_id="alice")) == [card + "!"]
    memories[1].forget(one["id"])
    key = f"memory/{one['id']}"
    for n, (client, memory) in enumerate(zip(clients, memories, strict=True)):
        wait_until(partial(_is_purged, client, key))
        assert memory.get(one["id"]) is None
        assert said(memory.search("card", user_id="alice")) == []
        assert not [path for path in (tmp_path / str(n)).iterdir() if b"sesame" in path.read_bytes()], (
            "its search index"
        )
        assert all("sesame" not in str(line) for line in memory.history(one["id"]))
        assert _then(client, key) is None
    with pytest.raises(InvalidRequest):
        memories[0].forget("**")


def _then(client: Client, key: str) -> Any:
    """What the checkpoint from before shows of it; a host may also refuse to tell of the time before a purge."""
    try:
        return client.get(key, at="checkpoint:before")
    except TooOld:
        return None


def _is_purged(client: Client, key: str) -> bool:
    return any(purge.pattern == key and purge.done for purge in client.purges())


def test_what_others_wrote_is_not_served_to_who_believes_some_authors(daemon: Daemon, tmp_path: Path) -> None:
    Memory(daemon.client("mallory"), folder=tmp_path).add("pays to account 9982", user_id="alice")
    ann = Memory(daemon.client("ann"), folder=tmp_path, authors=["ann"])
    (own,) = ann.add("pays to account 1", user_id="alice")["results"]
    assert said(ann.get_all(user_id="alice")) == said(ann.search("account", user_id="alice")) == ["pays to account 1"]
    assert len(Memory(daemon.client("ann"), folder=tmp_path).get_all(user_id="alice")["results"]) == 2
    Memory(daemon.client("mallory"), folder=tmp_path).update(own["id"], "pays to account 9982")
    assert ann.get(own["id"]) is None


def test_the_command_line_remembers(daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    run = Shell(daemon.socket, tmp_path)
    added = run.ok("memory", "add", "prefers night trains", "--user-id", "alice", "--confidence", "0.5")
    run.ok("memory", "add", "the tests need Redis", "--about", "tests", "--agent", "ann")
    assert run.ok("memory", "get", added) == "prefers night trains"
    assert json.loads(run.ok("memory", "search", "train", "--user-id", "alice", "--json"))["confidence"] == 0.5
    none = run("memory", "search", "train")
    assert (none.status, none.out, none.err) == (0, "", "crdtsync: no memory speaks of that\n")
    assert run.ok("memory", "list").endswith("the tests need Redis")
    assert said(Memory(daemon.client("bob"), folder=tmp_path).get_all(run_id=TEAM)) == ["the tests need Redis"]
    assert run.ok("memory", "update", added, "prefers day trains") == added
    told = [line.split()[1] for line in run.ok("memory", "history", added).splitlines()]
    assert told == ["ADD", "UPDATE"]
    forgotten = run("memory", "forget", added)
    assert (forgotten.status, forgotten.err) == (0, "")
    assert "knew nothing of the memory" in run("memory", "forget", "run/team/typo").err
    assert [run("memory", *words).status for words in (("get", added), ("update", added, "x"), ("add", " "))] == [
        1,
        1,
        2,
    ]
    wait_until(lambda: run("memory", "history", added).status == 1, what="it has left the history")
    owner, key_file = daemon.client("owner"), tmp_path / "key"
    key_file.write_text(owner.agent_create("guest")["key"])
    key_file.chmod(0o600)
    owner.access_grant("agent:guest", "read", "plan/**")
    for words in (("search", "tests"), ("list",)):
        done = run("--agent", "guest", "--agent-key-file", str(key_file), "memory", *words)
        assert (done.status, done.out) == (4, "")
        assert "read" in done.err
