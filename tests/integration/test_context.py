"""The agent layer's views and shared context, over real daemons."""

from __future__ import annotations

import json
from asyncio import gather
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from crdtsync import AsyncClient, Client
from crdtsync.context import AsyncSearch, AsyncSharedContext, AsyncViews, Search, SharedContext, Views, count
from crdtsync.context.search.passages import Mark, Said
from crdtsync.context.view.blocking import whole
from crdtsync.errors import InvalidRequest, InvalidValue, NotAllowed, UnknownSpace
from crdtsync.sessions import Sessions, searching
from tests.harness.cluster import Cluster, let_a_millisecond_pass
from tests.harness.daemon import Daemon
from tests.harness.shell import Shell

pytestmark = pytest.mark.integration

ANSWER = json.dumps([{"id": i, "state": "ok", "path": f"/srv/app/{i}.py"} for i in range(300)])


def eventually(holds: Callable[[], bool], within_s: float = 20.0) -> None:
    """Wait until ``holds``; the test ends if it never does."""
    end = monotonic() + within_s
    while not holds():
        assert monotonic() < end, "it did not come to hold"
        sleep(0.02)


def test_what_one_agent_puts_another_reads_compactly_on_another_host(pair: Cluster):
    ann, bob = (SharedContext(daemon.client(name)) for daemon, name in zip(pair, ("ann", "bob"), strict=True))
    put = ann.put("survey", ANSWER)
    eventually(lambda: bob.get("survey") is not None)
    entry = bob.get_entry("survey")
    assert entry is not None
    assert entry.original == bob.get("survey", full=True) == ANSWER
    assert entry.compressed == bob.get("survey") == put.compressed
    assert (entry.agent, entry.original_tokens) == ("ann", count(ANSWER))
    assert entry.savings_percent > 64
    assert bob.keys() == ["survey"]
    assert bob.stats().total_tokens_saved == entry.original_tokens - entry.compressed_tokens
    assert bob.clear() == 1
    eventually(lambda: ann.keys() == [] and ann.get("survey", full=True) is None)


def test_contents_of_any_size_come_back_byte_for_byte_on_another_host(pair: Cluster):
    ann, bob = (SharedContext(daemon.client(name)) for daemon, name in zip(pair, ("ann", "bob"), strict=True))
    line = "2026-11-22T10:00:00Z INFO took task {} in 20 ms\n"
    contents = [
        "".join(line.format(number) for number in range(5000)), b"\xff\x00\n" * 400_000, "世界" * 200_000,
        {"rows": [{"id": number, "state": "ok"} for number in range(5000)]}, "small", "",
    ]  # fmt: skip
    for content in contents:
        put = ann.put("run", content)
        bob_client = pair[1].client("bob")
        bob_client.wait(pair[0].client("ann").now())
        assert bob.get("run", full=True) == content
        entry = bob.get_entry("run")
        assert entry is not None
        assert entry.compressed == put.compressed == bob.get("run")
        assert entry.compressed_tokens <= max(50_000, entry.original_tokens)
    with pytest.raises(InvalidValue, match="surrogate"):
        ann.put("run", "\ud800" * 300_000)
    assert ann.clear() == 1
    assert pair[0].client("ann").keys("context") == []


def test_a_new_key_at_capacity_takes_the_oldest_and_an_update_takes_none(daemon: Daemon):
    context = SharedContext(daemon.client("ann"), max_entries=3)
    for key in "abc":
        context.put(key, f"about {key}")
        let_a_millisecond_pass()
    context.put("a", "about a, again")
    assert context.keys() == ["a", "b", "c"]
    context.put("d", "about d")
    assert context.keys() == ["a", "c", "d"]
    assert context.get("b", full=True) is None
    assert context.get("a") == "about a, again"


def test_what_is_put_ends_with_its_time(daemon: Daemon):
    with SharedContext(daemon.socket, ttl=0.3) as context:
        context.put("a", {"n": [1, 2]})
        assert context.get("a", full=True) == {"n": [1, 2]}
        eventually(lambda: context.keys() == [] and context.get("a", full=True) is None)


def test_hosts_that_were_cut_off_keep_what_each_has_just_put(parted: Cluster):
    contexts = [SharedContext(daemon.client(f"agent-{i}"), max_entries=2) for i, daemon in enumerate(parted)]
    for i, context in enumerate(contexts):
        for n in range(2):
            context.put(f"from-{i}-{n}", f"words {i} {n}")
    parted.heal()
    eventually(lambda: all(len(context.keys()) == 4 for context in contexts))
    contexts[0].put("last", "words")
    eventually(lambda: all(len(keys := context.keys()) == 2 and "last" in keys for context in contexts))


def test_what_two_hosts_put_at_once_is_shown_with_its_authors_until_it_is_put_again(parted: Cluster, tmp_path: Path):
    clients = [daemon.client(name) for daemon, name in zip(parted, ("ann", "bob"), strict=True)]
    large = "".join(f"2026-11-22T10:00:00Z INFO took task {number} in 20 ms\n" for number in range(30_000))
    SharedContext(clients[0]).put("survey", "the disk\nis slow")
    SharedContext(clients[1]).put("survey", {"disk": "fast"})
    SharedContext(clients[0]).put("run", large)
    SharedContext(clients[1]).put("run", "short")
    parted.heal()
    for client, other in (clients, clients[::-1]):
        client.wait(other.now())
        context = SharedContext(client)
        text = context.get("survey")
        assert "[ann] the disk\n    is slow" in text
        assert '[bob] {"disk": "fast"}' in text
        for key, put in (("survey", ["the disk\nis slow", {"disk": "fast"}]), ("run", [large, "short"])):
            entry = context.get_entry(key)
            assert entry is not None
            assert {one.agent: one.original for one in (entry, *entry.siblings)} == dict(
                zip(("ann", "bob"), put, strict=True)
            )
            assert context.get(key, full=True) == entry.original
        run = Shell(parted[0].socket, tmp_path)
        assert "[ann] the disk" in run("context", "get", "survey").out
        assert "put something else at the same time" in run("context", "get", "survey", "--full").err
        assert "[ann] the disk" in Views(client).view("context/").text
    SharedContext(clients[0]).put("survey", "the disk was replaced")
    assert SharedContext(clients[0]).get("survey") == "the disk was replaced"
    assert SharedContext(clients[0]).get("survey", full=True) == "the disk was replaced"


def test_a_view_of_real_state_keeps_its_budget_and_is_the_same_on_both_hosts(pair: Cluster):
    ann, bob = pair[0].client("ann"), pair[1].client("bob")
    ann.set("plan/goal", "ship version 2", meta={"pinned": True})
    for i in range(40):
        ann.append("findings/log", f"finding {i}: " + "the disk of host-b is slow " * 5)
        ann.set(f"tasks/{i}", {"title": f"task {i}", "state": "open"})
    ann.text("docs/design").set("# Design\n\n" + "Nothing is lost. " * 300)
    ann.incr("runs")
    first = Views(ann).view(budget_tokens=900, query="disk of host-b")
    assert first.tokens <= 900
    assert first.text.startswith("**plan/goal** (ann, ")
    assert "findings/log" in first.text
    second = Views(bob).view(budget_tokens=900, query="disk of host-b", after=ann.token)
    assert second.text == first.text


def test_views_that_are_kept_show_what_new_ones_show(daemon: Daemon):
    ann = daemon.client("ann")
    kept = Views(ann)
    show: dict[str, Any] = {"budget_tokens": 400, "query": "disk slow", "pinned": ["other/pinned"]}
    changes: list[Callable[[], object]] = [
        lambda: ann.set("plan/a", "the disk of host-b is slow"),
        lambda: ann.set("other/pinned", "ship it"),
        lambda: ann.append("plan/log", "host-b was rebooted"),
        lambda: ann.set("elsewhere", "nothing"),
        lambda: [ann.set(f"plan/many/{n}", f"entry {n}") for n in range(120)],
        lambda: ann.append("plan/log", "the disk is fine"),
        lambda: ann.delete("plan/a"),
        lambda: ann.delete("other/pinned"),
        lambda: ann.delete_prefix("plan/"),
        lambda: ann.set("plan/b", "again"),
    ]
    since = kept.view("plan/", **show).token
    for change in changes:
        change()
        bob = daemon.client("bob")
        news = Views(bob).view("plan/", since=since, **show)
        assert replace(kept.view("plan/", since=since, **show), token=news.token) == news
        shown, anew = kept.view("plan/", **show), Views(bob).view("plan/", **show)
        assert (shown.text, shown.shown, shown.left_out) == (anew.text, anew.shown, anew.left_out)
        assert kept.view("plan/", **show) == shown
        assert replace(kept.view("plan/", since=since, **show), token=news.token) == news
    ann.set("plan/short", "soon gone", ttl=0.3)
    assert "plan/short" in kept.view("plan/", **show).shown
    eventually(lambda: kept.view("plan/", **show).shown == ("plan/b",))


def test_a_view_that_is_kept_shows_what_its_agent_may_still_read(daemon: Daemon, tmp_path: Path):
    owner = daemon.client("owner")
    owner.set("open/a", "a word")
    owner.set("secret/b", "a word")
    key_file = tmp_path / "key"
    key_file.write_text(owner.agent_create("guest")["key"])
    key_file.chmod(0o600)
    owner.access_grant("agent:guest", "read", "**")
    with Client(daemon.socket, agent="guest", agent_key=key_file) as guest:
        views = Views(guest)
        assert views.view().shown == ("open/a", "secret/b")
        since = views.view().token
        owner.set("secret/b", "another word")
        assert views.view(since=since).shown == ("secret/b",)
        owner.access_revoke("agent:guest", "**")
        owner.access_grant("agent:guest", "read", "open/**")
        assert views.view(since=since).shown == ()
        assert views.view().shown == ("open/a",)
        owner.access_grant("agent:guest", "read", "**")
        assert views.view().shown == ("open/a", "secret/b")


def test_a_view_that_one_defines_another_uses_by_its_name(pair: Cluster):
    ann, bob = Views(pair[0].client("ann"), model="gpt-5"), Views(pair[1].client("bob"))
    pair[0].client("ann").set("plan/goal", "ship")
    ann.define("planner", ["plan/"], budget_tokens=200)
    eventually(lambda: bob.names() == ["planner"])
    eventually(lambda: "plan/goal" in bob.named("planner").shown)
    assert bob.named("planner", budget_tokens=30).tokens <= 30
    assert bob.drop("planner")
    with pytest.raises(InvalidRequest, match="planner"):
        bob.named("planner")


def test_a_view_shows_the_compact_text_of_a_shared_context(daemon: Daemon):
    ann = daemon.client("ann")
    SharedContext(ann).put("survey", ANSWER)
    shown = Views(ann).view("context/", budget_tokens=3_000)
    assert "state=ok in all" in shown.text
    assert "original_tokens" not in shown.text


async def test_both_work_in_asyncio(daemon: Daemon):
    async with AsyncClient(daemon.socket, agent="ann") as client, AsyncSharedContext(daemon.socket) as context:
        await client.set("plan/goal", "ship")
        await context.put("survey", ANSWER)
        view = await AsyncViews(client).view("plan/")
        assert view.shown == ("plan/goal",)
        assert (await context.stats()).entries == 1


def test_the_command_line_puts_shows_and_counts(daemon: Daemon, tmp_path: Path):
    answer = tmp_path / "answer.json"
    answer.write_text(ANSWER)
    run = Shell(daemon.socket, tmp_path)
    assert "tokens" in run("context", "put", "survey", str(answer)).out
    assert "state=ok in all" in run("context", "get", "survey").out
    assert run("context", "get", "survey", "--full").out == ANSWER
    assert run("context", "ls").out == "survey\n"
    assert json.loads(run("context", "stats", "--json").out)["entries"] == 1
    SharedContext(daemon.client("bob")).put("told", {"state": None})
    assert run("context", "get", "told", "--full").out == '{"state": null}'
    assert run("context", "clear").out == "2 removed\n"
    assert run("context", "get", "survey").status == 1
    for listing in (("context", "ls"), ("view", "list"), ("search", "unheard"), ("memory", "list"), ("session", "ls")):
        none = run(*listing)
        assert (none.status, none.out, none.err.count("\n")) == (0, "", 1), listing
        assert run(*listing, "--json").out == ""

    run("set", "plan/goal", '"ship it"')
    shown = run("view", "plan/", "--budget", "100").out
    assert shown.startswith("**plan/goal** (")
    assert run("view", "--budget", "100").out == run("view", "show", "--budget", "100").out == shown
    assert run("view", "ls").status == 2
    assert ((small := run("view", "plan/", "--budget", "1")).out, small.status) == ("", 0)
    assert "give a larger --budget" in small.err
    assert "no key begins so" in run("view", "nothing/").err
    token = json.loads(run("view", "plan/", "--json").out)["token"]
    assert "nothing new" in run("view", "plan/", "--since", token).err
    run("view", "define", "planner", "--prefix", "plan/", "--budget", "100")
    assert run("view", "list").out == "planner\n"
    assert run("view", "use", "planner").out == shown
    assert run("view", "drop", "planner").status == 0
    assert run("view", "use", "planner").status == 4

    counted = json.loads(run("tokens", str(answer), "--model", "gpt-5", "--json").out)
    assert (counted["tokens"], counted["exact"]) == (count(ANSWER, "gpt-5"), True)
    assert "state=ok in all" in run("compress", str(answer)).out
    short = json.loads(run("compress", str(answer), "--budget", "60", "--model", "gpt-5", "--json").out)
    assert count(short["text"], "gpt-5") == short["compressed_tokens"] <= 60
    assert "rows" in " ".join(short["left_out"])


def test_what_others_put_under_its_keys_harms_no_reader(daemon: Daemon):
    mallory = daemon.client("mallory")
    mallory.set("context/evil", {"text": "x", "left_out": []})
    mallory.set("views/evil", {"prefixes": 3})
    with SharedContext(daemon.socket) as context:
        context.put("good", "words")
        assert context.get("evil") is None
        assert context.get_entry("evil") is None
        assert context.stats().entries == 1
    with pytest.raises(InvalidValue, match="views/evil"):
        Views(daemon.client("ann")).named("evil")


def test_a_search_finds_what_any_host_wrote_and_nothing_that_is_gone(pair: Cluster, tmp_path: Path):
    ann, bob = pair[0].client("ann"), pair[1].client("bob")
    ann.set("findings/disk", "the disk of host-b is full")
    ann.append("log/events", "a payment timed out")
    ann.text("docs/design").set("# Design\n\nThe journal comes first.")
    search = Search(bob, folder=tmp_path / "b")
    eventually(lambda: [found.key for found in search.search("journal payments disk")] != [])
    eventually(lambda: len(search.search("journal payments disk")) == 3)
    ann.delete("findings/disk")
    ann.text("docs/design").insert(0, "Quokkas. ")
    eventually(lambda: search.search("disk") == [])
    eventually(lambda: [found.key for found in search.search("quokka")] == ["docs/design"])
    assert bob.entry("log/events") is not None  # what the search has read, the session has not
    (file,) = (tmp_path / "b").glob("*.db")
    file.write_bytes(b"damaged" * 1000)
    assert [found.key for found in search.search("payment")] == ["log/events"]


def test_a_search_shows_an_agent_what_it_may_read(daemon: Daemon, tmp_path: Path):
    owner = daemon.client("owner")
    owner.set("open/a", "a word")
    owner.set("secret/b", "a word")
    guest = daemon.client("guest", agent_key=owner.agent_create("guest")["key"])
    owner.access_grant("agent:guest", "read", "open/**")
    search = Search(guest, folder=tmp_path)
    assert len(Search(owner, folder=tmp_path).search("word")) == 2
    assert [found.key for found in search.search("word")] == ["open/a"]
    with pytest.raises(NotAllowed, match="secret/"):
        search.search("word", prefix="secret/")
    owner.access_grant("agent:guest", "read", "secret/**")
    assert len(search.search("word")) == 2
    owner.access_revoke("agent:guest", "secret/**")
    assert [found.key for found in search.search("word")] == ["open/a"]


def test_what_no_reply_holds_as_a_whole_is_found_and_shown_in_part_and_hides_nothing_else(
    daemon: Daemon, tmp_path: Path
) -> None:
    ann = daemon.client("ann")
    ann.set("notes/pizza", "with anchovies")
    for word in ("oldest", "b", "c", "d", "newest"):
        ann.append("large/log", f"{word} " + "x" * 900_000)
        ann.merge("large/map", {word: "y" * 900_000})
        ann.add("large/set", f"{word} " + "z" * 900_000)
        ann.append("large/bytes", word.encode() + bytes(900_000))
    for number in range(100):
        ann.append("large/log", f"small {number}")
    search = Search(ann, folder=tmp_path)
    assert [found.key for found in search.search("anchovies")] == ["notes/pizza"]
    assert {found.key for found in search.search("newest")} == {"large/log", "large/map", "large/set"}
    assert [found.key for found in search.search("small 99", limit=1)] == ["large/log"]
    ann.append("large/log", "small 100")
    assert [found.key for found in search.search("small 100", limit=1)] == ["large/log"]
    parts = {entry.key: whole(ann, entry).value for entry in ann.entries("large/")}
    for key, letter in (("large/log", " x"), ("large/bytes", "\0")):
        heads = [one.decode() if isinstance(one, bytes) else one for one in parts[key]]
        assert [one.partition(letter)[0] for one in heads[:5]] == ["oldest", "b", "c", "d", "newest"]
        assert heads[5:] == [f"small {number}" for number in range(101 * (key == "large/log"))]
    assert [*parts["large/map"]] == ["b", "c", "d", "newest", "oldest"]
    assert len(parts["large/set"]) == 5
    view = Views(ann).view(budget_tokens=2_000)
    assert "anchovies" in view.text
    assert {*view.shown, *view.left_out} == {"notes/pizza", *parts}
    views = Views(ann)
    views.view("large/", budget_tokens=100, pinned=["large/log"])
    ann.append("large/log", "small 101")
    assert views.view("large/", budget_tokens=100, pinned=["large/log"]).tokens <= 100


def codex_line(text: str) -> str:
    payload = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    return json.dumps({"timestamp": "2026-11-20T10:00:00Z", "type": "response_item", "payload": payload}) + "\n"


def test_a_search_finds_what_was_said_in_saved_sessions(pair: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home, name = tmp_path / "codex", "019a0000-0000-7000-8000-000000000001"
    (home / "sessions").mkdir(parents=True)
    file = home / "sessions" / f"rollout-2026-11-20T10-00-00-{name}.jsonl"
    file.write_text(codex_line("Why does the turbine stall?"))
    monkeypatch.setenv("CODEX_HOME", str(home))
    ann, bob = pair[0].client("ann"), pair[1].client("bob")
    Sessions(ann).save(agent="codex")
    key = f"sessions.lines/{name}/main"
    search = Search(bob, folder=tmp_path / "index")
    bob.wait(ann.now())
    (found,) = search.search("turbine stalls")
    assert (found.key, found.agent, found.snippet) == (key, "ann", "Why does the turbine stall?")
    assert found.time == datetime(2026, 11, 20, 10, tzinfo=UTC)

    calls: list[int] = []
    whole = searching.said

    def said(header: object, elements: list[Any], mark: Mark | None, large: Any) -> Said | None:
        calls.append(len(elements))
        return whole(header, elements, mark, large)

    monkeypatch.setattr(searching, "said", said)
    with file.open("a") as more:
        for number in range(40):
            more.write(codex_line(f"The governor hunts, as of note {number}: " + "words " * 200))
            more.flush()
            Sessions(ann).save(agent="codex")
    bob.wait(ann.now())
    assert [one.key for one in search.search("governor")] == [one.key for one in search.search("turbine")] == [key]
    assert calls == [41], "the element that was read last, and what came after it"
    Sessions(ann).save(agent="codex")
    with file.open("a") as more:
        more.write(codex_line("It was the valve."))
    Sessions(ann).save(agent="codex")
    bob.wait(ann.now())
    assert search.search("valve")[0].snippet == "It was the valve."
    assert calls == [41, 2]
    Sessions(ann).drop(name)
    bob.wait(ann.now())
    assert search.search("turbine valve") == []


def test_sub_agents_and_long_lines_are_found_too(daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    name = "0b1ff0c4-3a44-4cd5-9f5e-1b1f4a3a0000"
    main = tmp_path / "projects" / "-work" / f"{name}.jsonl"
    side = main.with_suffix("") / "subagents" / "agent-1.jsonl"
    side.parent.mkdir(parents=True)
    said = {"type": "user", "cwd": "/work", "timestamp": "2026-11-20T10:00:00Z", "sessionId": name}
    for file, text, more in ((main, "turbine " + "word " * 200_000, {}), (side, "governor", {"isSidechain": True})):
        message = {"role": "user", "content": text}
        file.write_text(json.dumps({**said, "uuid": text[:8], "message": message, **more}) + "\n")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    client = daemon.client("ann")
    Sessions(client).save(agent="claude-code")
    search = Search(client, folder=tmp_path / "index")
    lines = f"sessions.lines/{name}/"
    assert [one.key for one in search.search("turbine")] == [f"{lines}main"]
    assert [one.key for one in search.search("governor")] == [f"{lines}subagents/agent-1.jsonl"]


def test_saved_sessions_are_found_by_who_may_read_them(daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    name = "019a0000-0000-7000-8000-000000000001"
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / f"rollout-2026-11-20T10-00-00-{name}.jsonl").write_text(codex_line("turbine"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    owner = daemon.client("owner")
    owner.create_space("mine", private=True)
    private = owner.session(space="mine")
    guest = daemon.client("guest", agent_key=owner.agent_create("guest")["key"])
    owner.access_grant("agent:guest", "read", "sessions/**")
    Sessions(private).save(agent="codex")
    assert len(Search(private, folder=tmp_path).search("turbine")) == 1
    assert Search(owner, folder=tmp_path).search("turbine") == []
    with pytest.raises(UnknownSpace):
        Search(guest.session(space="mine"), folder=tmp_path).search("turbine")
    Sessions(private).share(name, "default")
    assert len(Search(owner, folder=tmp_path).search("turbine")) == 1
    assert Search(guest, folder=tmp_path).search("turbine") == []
    owner.access_grant("agent:guest", "read", "sessions.lines/**")
    assert len(Search(guest, folder=tmp_path).search("turbine")) == 1


async def test_several_search_at_once(daemon: Daemon, tmp_path: Path):
    async with AsyncClient(daemon.socket, agent="ann") as client:
        for n in range(30):
            await client.set(f"k/{n}", f"word {n}")
        found = await gather(*(AsyncSearch(client, folder=tmp_path).search("word", limit=50) for _ in range(5)))
        assert [len(one) for one in found] == [30] * 5


def test_the_command_line_searches(daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    run = Shell(daemon.socket, tmp_path)
    run("set", "findings/disk", '"the disk is full"')
    run("set", "plan/a", '"another thing"')
    assert run("search", "disks").out.endswith("the disk is full\n")
    (found,) = map(
        json.loads, run("search", "disk", "thing", "--prefix", "plan/", "--since", "1h", "--json").out.splitlines()
    )
    assert (found["key"], found["snippet"]) == ("plan/a", "another thing")
    assert run("search", "absent").out == ""
    done = run("search", "disk", XDG_CACHE_HOME="/proc/nope")
    assert done.status != 0
    assert "search index /proc/nope/crdtsync/search/" in done.err
    assert "XDG_CACHE_HOME" in done.err


def test_who_has_seen_a_view_is_told_only_what_is_new(pair: Cluster):
    ann, views = pair[0].client("ann"), Views(pair[0].client("bob"))
    for n in range(3):
        ann.set(f"plan/{n}", f"step {n}")
    ann.set("other/k", 1)
    first = views.view("plan/", budget_tokens=500)
    assert len(first.shown) == 3
    nothing = views.view("plan/", budget_tokens=500, since=first.token)
    assert (nothing.text, nothing.shown, nothing.gone) == ("", (), ())
    ann.set("plan/1", "step 1, changed")
    ann.set("other/k", 2)
    ann.delete("plan/2")
    news = views.view("plan/", budget_tokens=500, since=first.token, after=ann.token)
    assert (news.shown, news.gone) == (("plan/1",), ("plan/2",))
    assert "Gone: plan/2." in news.text
    assert "step 0" not in news.text
    with ann.batch() as batch:
        for n in range(150):
            batch.set(f"plan/many/{n}", n)
    many = views.view("plan/", budget_tokens=200, since=news.token, after=ann.token)
    assert len(many.shown) + len(many.left_out) == 150
    assert many.tokens <= 200
    elsewhere = Views(pair[1].client("eve")).view("plan/", budget_tokens=500, since=first.token, after=ann.token)
    assert (len(elsewhere.shown) + len(elsewhere.left_out), elsewhere.gone) == (151, ("plan/2",))


def test_a_view_that_its_sources_outgrow_raises_an_alarm_on_all_hosts(pair: Cluster, tmp_path: Path):
    ann, bob = Views(pair[0].client("ann")), Views(pair[1].client("bob"))
    pair[0].client("ann").set("plan/a", "word " * 30)
    ann.define("critic", "plan/", budget_tokens=1_000)
    assert 30 <= ann.named("critic").source_tokens < 70
    assert ann.alarms() == {}
    ann.named("critic", budget_tokens=60)
    assert ann.alarms()["critic"]["budget_tokens"] == 60
    ann.named("critic")
    eventually(lambda: bob.alarms() == ann.alarms() != {})
    run = Shell(pair[1].socket, tmp_path)
    assert "a window of 60 tokens" in run("doctor").out
    assert "outgrow" in run("view", "use", "critic").err
    pair[0].client("ann").set("plan/a", "word")
    ann.named("critic", budget_tokens=60)
    assert ann.alarms() == {}
    pair[0].client("ann").set("views.alarms/critic", "nonsense")
    ann.named("critic")
    assert ann.alarms() == {}


def test_a_view_shows_a_summary_of_what_is_old_until_that_changes(pair: Cluster):
    ann, bob = pair[0].client("ann"), pair[1].client("bob")
    for number in range(6):
        ann.set(f"findings/{number}", f"finding {number}: the disk of host-{number} is slow")
    Views(ann).define("planner", "findings/", summarize_after=2)
    assert "summary of" not in Views(ann).named("planner").text
    asked: list[str] = []

    def model(text: str) -> str:
        asked.append(text)
        return "Four disks are slow."

    for nothing in (None, " "):
        with pytest.raises(InvalidRequest, match="make must return a text"):
            Views(ann).summarize("planner", lambda _, it=nothing: it)  # type: ignore[misc]
    assert ann.get("views.summaries/planner") is None
    assert Views(ann).summarize("planner", model)
    assert "finding 3" in asked[0]
    assert "finding 4" not in asked[0]
    bob.wait(ann.now())
    assert not Views(bob).summarize("planner", model)
    shown = Views(bob).named("planner")
    assert "[summary of 4 entries]\nFour disks are slow." in shown.text
    assert "finding 3" not in shown.text
    assert "finding 5" in shown.text
    assert bob.get("findings/3") == "finding 3: the disk of host-3 is slow"

    bob.set("findings/1", "it was replaced")
    bob.delete("findings/2")
    shown = Views(bob).named("planner")
    assert "[summary of 2 entries; out of date: 2 of its 4 sources have changed or gone]" in shown.text
    assert "it was replaced" in shown.text
    assert Views(bob).summarize("planner")
    assert "out of date" not in Views(bob).named("planner").text
    Views(bob).define("few", "findings/", summarize_after=0, budget_tokens=120)
    assert Views(bob).summarize("few")
    assert bob.get("views.summaries/few")["text"].endswith("[shortened; in full: read the keys under findings/]")
    Views(bob).define("critic", "findings/")
    with pytest.raises(InvalidRequest, match="summarize_after"):
        Views(bob).summarize("critic")
    bob.set("views.summaries/planner", "nonsense")
    assert "finding 0" in Views(bob).named("planner").text
    Views(bob).drop("planner")
    assert bob.get("views.summaries/planner") is None
