"""Read policies on real daemons whose connections are really cut: one winner everywhere, nothing lost."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import permutations, product
from pathlib import Path
from typing import Any

import pytest

from crdtsync import AsyncClient, Client, RanksLower, SchemaMismatch, Unresolved, VersionMismatch
from tests.harness import Cluster, Daemon, wait_until, wait_until_equal
from tests.harness.cluster import let_a_millisecond_pass
from tests.harness.shell import Shell

pytestmark = pytest.mark.integration

PAIRS = ((0, 1), (0, 2), (1, 2))
CONFIDENCES = (0.9, 0.7, 0.8)
LOG_BYTES_MAX = 1024 * 1024


@pytest.fixture
def crdtsync(daemon: Daemon, tmp_path: Path) -> Shell:
    """The command line of one daemon."""
    return Shell(daemon.socket, tmp_path)


def part(cluster: Cluster) -> None:
    """Cut every connection, and wait until every daemon has noticed."""
    for pair in PAIRS:
        cluster.cut(*pair)
    for pair in PAIRS:
        cluster.wait_parted(*pair)


def values(client: Client, key: str) -> list[Any]:
    """All values of a key, the winner first."""
    entry = client.entry(key)
    return [] if entry is None else [entry.value, *(sibling.value for sibling in entry.siblings)]


def set_all(client: Client, key: str, *values: object) -> None:
    """One value after the other, in one batch."""
    with client.batch() as batch:
        for value in values:
            batch.set(key, value)


def test_the_most_confident_of_three_is_read_everywhere_in_whatever_order_they_arrive(cluster: Cluster) -> None:
    """All orders in which the three write, and all in which the connections come back: 36, a key for each."""
    cases = {
        f"answer/{''.join(map(str, writing))}-{n}": (writing, healing)
        for writing, (n, healing) in product(permutations(range(3)), enumerate(permutations(PAIRS)))
    }
    token = cluster[1].client().schema_set("answer/**", "confidence")
    wait_until_equal(cluster)
    clients = [daemon.client(daemon.name) for daemon in cluster]
    for healing in permutations(PAIRS):
        keys = [key for key, case in cases.items() if case[1] == healing]
        part(cluster)
        for key in keys:
            for host in cases[key][0]:
                clients[host].set(key, f"by {host}", confidence=CONFIDENCES[host])
        for host, client in enumerate(clients):
            assert [values(client, key) for key in keys] == [[f"by {host}"]] * len(keys)
        for pair in healing:  # what the first two have exchanged arrives at the third as one, or one by one
            cluster.heal(*pair)
            cluster.wait_connected(*pair)
        wait_until_equal(cluster)
        for client in clients:
            for key in keys:
                assert values(client, key) == ["by 0", "by 2", "by 1"]
                assert client.get(key, after=token) == "by 0"
                entry = client.entry(key)
                assert entry is not None
                assert [entry.confidence, *(one.confidence for one in entry.siblings)] == [0.9, 0.8, 0.7]
                assert [entry.node, *(one.node for one in entry.siblings)] == ["host-a", "host-c", "host-b"]
                assert entry.policy == "confidence"
    for client in clients:
        assert sorted(entry.key for entry in client.conflicts("answer/")) == sorted(cases)
        assert dict(client.items("answer/")) == dict.fromkeys(cases, "by 0")


def test_each_policy_after_a_partition(pair: Cluster) -> None:
    """Declared on one side of the partition, after the values, and by the other side read after it."""
    expected: dict[str, Any] = {"lww": 2, "max": 9, "min": 1, "first": 9, "all": [2, 1, 9], "manual": Unresolved}
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    here, there = (daemon.client() for daemon in pair)
    watches = {policy: there.watch(policy, timeout=60) for policy in expected}
    for policy, watched in watches.items():
        here.set(policy, 9)
        assert next(watched).event == "snapshot"
        let_a_millisecond_pass()
        there.set(policy, 1)
        assert next(watched).value == 1
        assert there.get(policy) == 1
        there.set(policy, 2, seen="?")
        assert next(watched).event == "conflict"
        here.schema_set(policy, policy)
    pair.heal()
    wait_until_equal(pair)
    for (policy, read), client in product(expected.items(), (here, there)):
        if read is Unresolved:
            with pytest.raises(Unresolved) as refusal:
                client.get(policy)
            assert [refusal.value.current.value, *(one.value for one in refusal.value.current.siblings)] == [2, 1, 9]
            assert client.keys(policy) == [policy]
            with pytest.raises(Unresolved):
                client.items(policy)
        else:
            assert client.get(policy) == read
    for policy, read in expected.items():
        told = [next(watches[policy])]
        while told[-1].policy != policy or len(told[-1].siblings) < 2:
            told.append(next(watches[policy]))
        assert told[-1].value == {"all": 2, "manual": 2}.get(policy, read)


def test_two_sides_declare_different_policies_at_once(pair: Cluster) -> None:
    """The newest applies on both, and a restart changes nothing."""
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    for daemon, policy, value in zip(pair, ("min", "max"), (1, 9), strict=True):
        let_a_millisecond_pass()
        daemon.client().set("k", value)
        daemon.client().schema_set("k", policy)
    pair.heal()
    wait_until_equal(pair)
    policies = []
    for daemon in pair:
        schema = daemon.client().schema("k")
        assert schema is not None
        assert schema.siblings == 1
        policies.append((schema.policy, values(daemon.client(), "k")))
    assert policies == [("max", [9, 1])] * 2
    pair[0].kill()
    pair[0].start()
    assert values(pair[0].client(), "k") == [9, 1]


def test_a_lower_write_is_refused_here_and_ranked_elsewhere(pair: Cluster) -> None:
    """The error hands over what is there."""
    pair[0].client().schema_set("bids/*", "max", refuse_lower=True)
    wait_until_equal(pair)
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    here, there = (daemon.client(daemon.name) for daemon in pair)
    here.set("bids/lamp", 20)
    there.set("bids/lamp", 10)
    pair.heal()
    wait_until_equal(pair)
    assert values(here, "bids/lamp") == values(there, "bids/lamp") == [20, 10]
    with pytest.raises(RanksLower, match=r"20 against 15") as refusal:
        there.set("bids/lamp", 15)
    assert refusal.value.current.value == 20
    assert refusal.value.current.siblings[0].value == 10
    there.set("bids/lamp", 30)
    assert values(there, "bids/lamp") == [30], "the refusal counts as a reading of all values"
    with pytest.raises(RanksLower):
        set_all(there, "bids/lamp", 40, 35)
    assert there.get("bids/lamp") == 30
    assert there.update("bids/lamp", lambda value: value + 1).value == 31
    with pytest.raises(RanksLower):
        there.update("bids/lamp", lambda value: value - 1)


def test_a_new_node_knows_the_schemas_from_a_snapshot(make_cluster: Callable[..., Cluster]) -> None:
    """It starts when the log of the others no longer reaches back."""
    cluster = make_cluster(2, start=False, log_bytes_max=LOG_BYTES_MAX)
    cluster.link(0, 1).cut(refuse=True)
    first, second = cluster
    first.start()
    client = first.client()
    for value in (5, 9, 7):
        client.set("k", value, seen="?")
    client.schema_set("k", "min")
    for start in range(0, 3000, 500):
        with client.batch() as batch:
            for n in range(start, start + 500):
                batch.set(f"filler/{n}", "x" * 1000)
    wait_until(lambda: first.space()["log_bytes"] <= LOG_BYTES_MAX, what="the log is trimmed")
    cluster.start()
    wait_until_equal(cluster)
    assert len(second.log_events("snapshot_taken")) == 1
    assert values(second.client(), "k") == [5, 7, 9]
    second.kill()
    second.start()
    assert values(second.client(), "k") == [5, 7, 9]


def test_update_follows_the_policy(daemon: Daemon) -> None:
    """``all`` hands the list over and replaces it, ``manual`` asks for a choice first."""
    client = daemon.client()
    for policy in ("all", "manual"):
        client.schema_set(f"{policy}/*", policy)
        for value in (1, 2):
            client.set(f"{policy}/k", value, seen="?")
    client.update("all/k", sum)
    assert client.get("all/k") == [3]
    client.update("all/k", lambda found: [*found, 4])
    assert client.get("all/k") == [[3, 4]]
    with pytest.raises(Unresolved):
        client.update("manual/k", lambda value: value + 1)
    client.update("manual/k", max, siblings=True)
    assert client.update("manual/k", lambda value: value + 1).value == 3
    with pytest.raises(VersionMismatch):
        client.set("manual/k", 0, if_absent=True)


async def test_the_asyncio_client_does_the_same(daemon: Daemon) -> None:
    """Its methods are the twins."""
    async with AsyncClient(socket=daemon.socket) as client:
        await client.schema_set("k", "manual")
        for value in (1, 2):
            await client.set("k", value, seen="?")
        with pytest.raises(Unresolved) as refusal:
            await client.get("k")
        await client.resolve("k", take=refusal.value.current.siblings[0].dot)
        assert await client.get("k") == 1
        assert [schema.policy for schema in await client.schemas()] == ["manual"]
        await client.schema_set("k", None)
        assert await client.schema("k") is None


def test_a_write_that_breaks_a_rule_is_refused_where_it_is_made(pair: Cluster) -> None:
    """On every host that knows the schema; what a host that does not know it takes in comes to the other one."""
    a, b = (daemon.client() for daemon in pair)
    pair.cut(0, 1)
    token = a.schema_set("bids/*", kind="register", json_schema={"properties": {"price": {"type": "integer"}}})
    with pytest.raises(SchemaMismatch) as refused:
        a.set("bids/1", {"price": "12"})
    assert (refused.value.rule, refused.value.path, refused.value.pattern) == ("type", "$.price", "bids/*")
    b.set("bids/2", {"price": "12"})
    pair.heal()
    assert a.get("bids/2", after=b.last_token) == {"price": "12"}
    b.wait(token)
    with pytest.raises(SchemaMismatch):
        b.set("bids/3", {"price": "12"})
    b.set("bids/3", {"price": 12})
    found = b.schema("bids/3")
    assert found is not None
    assert (found.kind, found.json_schema) == ("register", {"properties": {"price": {"type": "integer"}}})


def test_rules_by_commands(crdtsync: Shell, tmp_path: Path) -> None:
    """Status 1, and a line that says what does not fit."""
    run = crdtsync
    shape = '{"type": "string", "maxLength": 5}'
    run.ok(
        "schema",
        "set",
        "titles/*",
        "--json-schema",
        "-",
        "--writer",
        "ann",
        "--version",
        "2",
        "--ttl",
        "1h",
        "--sliding",
        stdin=shape,
    )
    (shown,) = run.json("schema", "show", "--json")
    assert shown["fields"]["json"] == shown["json_schema"] == json.loads(shape)
    assert (shown["writers"], shown["version"], shown["ttl"], shown["sliding"]) == (["ann"], 2, 3600, True)
    assert "sliding ttl 1h; by ann; version 2" in run.ok("schema", "show")
    long = run("set", "titles/1", "too long", "--string", "--agent", "ann")
    assert (long.status, "maxLength" in long.err, "longer than 5" in long.err) == (1, True, True)
    assert run("set", "titles/1", "x", "--string", "--agent", "bob").status == 1
    run.ok("set", "titles/1", "short", "--string", "--agent", "ann")
    assert run.json("get", "titles/1", "--json")[0]["ttl"] == 3600
    assert run("schema", "set", "titles/*", "--json-schema", "-", stdin='{"type": "strin"}').status == 4


def test_caps_and_older_versions_by_commands(crdtsync: Shell, daemon: Daemon) -> None:
    """The oldest goes; what an older program writes shows its version, and is migrated."""
    run = crdtsync
    run.ok("schema", "set", "cache/*", "--kind", "register", "--max-entries", "2", "--max-bytes", "1kB")
    for n in range(3):
        run.ok("set", f"cache/{n}", "1")
    assert run.ok("ls", "cache/").splitlines() == ["cache/1", "cache/2"]
    run.ok("schema", "set", "plan/*", "--version", "2", "--older", "mark")
    daemon.client().session(schema_version=1).set("plan/1", {"name": "n"})
    daemon.client().session(schema_version=2).set("plan/2", {"title": "t"})
    code = "import json, sys; print(json.dumps({'title': json.load(sys.stdin)['name']}))"
    migrated = run.ok("schema", "migrate", "plan/*", "--", sys.executable, "-c", code)
    assert migrated.startswith("1 migrated to version 2, 1 were there")
    exported = [json.loads(line) for line in run.ok("export").splitlines()]
    assert {row["key"]: row.get("schema_version") for row in exported} == {
        **dict.fromkeys(("cache/1", "cache/2")),
        **dict.fromkeys(("plan/1", "plan/2"), 2),
    }
    run.ok("del", "plan/1", "plan/2")
    run.ok("import", "-", stdin="".join(json.dumps(row) + "\n" for row in exported))
    assert run.ok("get", "plan/2") == '{"title": "t"}'
    run.ok("checkpoint", "create", "before")
    assert run.json("checkpoint", "show", "before", "--json")[0]["versions"] == {"plan/*": 2}
    told = run.ok("checkpoint", "show", "before")
    assert "versions: plan/* 2" in told
    assert "note" not in told, "what it does not say is left out"
    shown = run.json("schema", "show", "--json")
    assert [(row["older"], row["max_entries"], row["max_bytes"]) for row in shown] == [
        ("refuse", 2, 1000),
        ("mark", None, None),
    ]
    assert "2 entries; 1.0 kB" in run.ok("schema", "show")


def test_rules_that_go_with_a_new_declaration_are_named(crdtsync: Shell) -> None:
    crdtsync.ok("schema", "set", "w/*", "--writer", "ann", "--kind", "register")
    done = crdtsync("schema", "set", "w/*", "--ttl", "5m", "--kind", "register")
    assert done.status == 0
    assert done.err.startswith("crdtsync: this replaced all that was declared for 'w/*': without --writer,")
    crdtsync.ok("schema", "set", "w/*", "--ttl", "6m", "--kind", "register")


def test_what_was_there_before_is_found_and_migrated(crdtsync: Shell) -> None:
    """A migration that was cut off goes on behind what it has done; one that is done changes nothing."""
    run = crdtsync
    for n in range(4):
        run.ok("set", f"plan/{n}", f'{{"name": "n{n}"}}', "--confidence", "0.5")
    run.ok("set", "plan/0/draft", "1")
    run.ok("append", "plan/log", '"x"')
    shape = '{"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}'
    assert run("schema", "migrate", "plan/*", "--", "cat").status == 1
    run.ok("schema", "set", "plan/*", "--version", "2", "--json-schema", "-", stdin=shape)
    found = run("schema", "check", "plan/")
    assert (found.status, "5 values" in found.err) == (1, True)
    assert found.out.splitlines()[0].split("\t")[:3] == ["plan/0", "required", "$"]
    by_name = ("--", sys.executable, "-c")
    code = "import json, sys; v = json.load(sys.stdin); print(json.dumps({'title': v['name']}))"
    dry = run("schema", "migrate", "plan/*", "--dry-run", *by_name, code)
    assert (dry.status, "4 would be migrated to version 2" in dry.out) == (0, True)
    assert run.ok("get", "plan/0") == '{"name": "n0"}'
    stops = f"{code}; sys.exit(v['name'] == 'n2')"
    stopped = run("schema", "migrate", "plan/*", *by_name, stops)
    assert (stopped.status, stopped.err) == (
        1, f"crdtsync: plan/2: {sys.executable!r} failed with status 1; 2 were migrated before, and stay\n"
    )  # fmt: skip
    misfit = run("schema", "migrate", "plan/*", "--", "cat")
    assert (misfit.status, "plan/2: what 'cat' printed does not fit: $" in misfit.err) == (1, True)
    assert run.ok("schema", "migrate", "plan/*", *by_name, code).startswith("2 migrated to version 2, 2 were there")
    assert run.ok("schema", "migrate", "plan/*", "--", "false").startswith("0 migrated to version 2, 4 were there")
    (entry,) = run.json("get", "plan/3", "--json")
    assert (entry["value"], entry["meta"], entry["confidence"]) == ({"title": "n3"}, {"schema_version": 2}, 0.5)
    assert run("schema", "check", "plan/").out.splitlines() == ['plan/log\ttype\t$\tis not of type "object"']


def test_what_is_written_under_the_new_schema_is_not_migrated(crdtsync: Shell) -> None:
    """It is passed over though it names no version, as a plain set does; what does not fit, or is older, is not."""
    run = crdtsync
    for n in range(2):
        run.ok("set", f"plan/{n}", '{"name": "old"}')
    run.ok("schema", "set", "plan/*", "--version", "2", "--json-schema", "-", stdin='{"type": "object"}')
    run.ok("set", "plan/1", '{"title": "new"}')
    run.ok("set", "plan/2", '{"title": "new"}')
    run.ok("schema", "set", "plan/*", "--version", "2", "--json-schema", "-", "--ttl", "7d", stdin='{"type": "object"}')
    code = "import json, sys; print(json.dumps({'title': json.load(sys.stdin).get('name')}))"
    migrated = run.ok("schema", "migrate", "plan/*", "--", sys.executable, "-c", code)
    assert migrated.startswith("1 migrated to version 2, 2 were there")
    assert [run.ok("get", f"plan/{n}") for n in range(3)] == ['{"title": "old"}', *['{"title": "new"}'] * 2]


def test_the_command_line_follows_the_policy(crdtsync: Shell) -> None:
    """Exit statuses, lists, and what to do next."""
    run = crdtsync
    for key in ("vote", "decision", "score"):
        for value in ("1", "3", "2"):
            run.ok("set", key, value, "--seen", "?")
    run.ok("schema", "set", "vote", "--policy", "all")
    run.ok("schema", "set", "decision", "--policy", "manual")
    run.ok("schema", "set", "score", "--policy", "max", "--refuse-lower")
    assert run.ok("get", "vote") == "[2, 3, 1]"
    assert run.json("get", "vote", "--json")[0]["policy"] == "all"
    score = run("get", "score")
    assert (score.status, score.out) == (0, "3\n")
    assert "(read policy max)" in score.err
    unresolved = run("get", "decision")
    assert (unresolved.status, unresolved.out) == (6, "")
    assert "crdtsync get --siblings" in unresolved.err
    assert "resolve" in unresolved.err
    assert run("get", "decision", "--json").status == 6
    assert run.ok("get", "decision", "--siblings") == "2\n3\n1"
    entry = run.json("get", "decision", "--siblings", "--json")[0]
    assert run("update", "decision", "--", "cat").status == 6
    assert [line["policy"] for line in run.json("conflicts", "--json")] == ["manual", "max", "all"]
    assert "POLICY" in run.ok("conflicts")
    run.ok("resolve", "decision", "--take", entry["siblings"][1]["dot"])
    assert run.ok("get", "decision") == "1"
    lower = run("set", "score", "2")
    assert lower.status == 1
    assert "3 against 2" in lower.err
    assert run("schema", "set", "score", "--policy", "all", "--refuse-lower").status == 4
    assert run("schema", "set", "sc*", "--policy", "max").status == 4
    assert run("schema", "set", "score").status == 2
    assert run("schema", "show", "nothing").status == 1
    removed = run("schema", "set", "nothing", "--none", "--json")
    assert (removed.status, removed.out) == (1, "")
    assert json.loads(removed.err)["error"]["code"] == "absent"
    assert [row["pattern"] for row in run.json("schema", "show", "--json")] == ["decision", "score", "vote"]
    assert run.ok("ls").split() == ["decision", "score", "vote"]
    assert run.ok("ls", "_schema/").split() == ["_schema/decision", "_schema/score", "_schema/vote"]


def test_an_import_keeps_the_order_of_siblings(make_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    """Into a daemon with the same schemas: whatever the policy, the same value comes first."""
    policies = ("lww", "first", "max", "confidence")
    source, target = (make_daemon() for _ in range(2))
    client, there = source.client(), target.client()
    for policy in policies:
        client.schema_set(f"{policy}/**", policy)
        there.schema_set(f"{policy}/**", policy)
        for value, confidence in ((5, 0.9), (9, 0.7), (7, 0.8)):
            client.set(f"{policy}/k", value, seen="?", confidence=confidence)
            client.merge(f"{policy}/m", {"f": value, "g": 0}, seen="?")
    lines = Shell(source.socket, tmp_path).ok("export")
    assert "_schema" not in lines
    Shell(target.socket, tmp_path).ok("import", "-", stdin=lines)
    for policy in policies:
        for key in (f"{policy}/k", f"{policy}/m"):
            assert values(there, key)[0] == values(client, key)[0]
        assert sorted(values(there, f"{policy}/k")) == [5, 7, 9]


def test_a_mirror_reads_by_the_policy(daemon: Daemon) -> None:
    """As ``get`` does, also when a schema comes while it stands; what it hands over counts as read."""
    client = daemon.client()
    for value in (5, 9, 7):
        client.set("k", value, seen="?")
    client.set("alone", 1)
    client.merge("m", {"f": 1})
    with client.mirror() as mirror:
        assert (mirror["k"], mirror["alone"], mirror["m"]) == (7, 1, {"f": 1})
        client.schema_set("**", "max")
        wait_until(lambda: mirror["k"] == 9)
        client.schema_set("**", "all")
        wait_until(lambda: (mirror["k"], mirror["alone"], mirror["m"]) == ([7, 9, 5], [1], {"f": [1]}))
        client.set("k", 0)
        assert client.get("k") == [0]
        client.set("k", 1, seen="?")
        client.schema_set("**", "manual")

        def unresolved() -> bool:
            try:
                return bool(mirror["k"]) and False
            except Unresolved as refusal:
                return [refusal.current.value, refusal.current.siblings[0].value] == [1, 0]

        wait_until(unresolved)
        assert mirror["alone"] == 1
        assert "_schema/**" not in mirror
