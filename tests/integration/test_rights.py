"""Rights on real daemons: users of the machine × agent keys × spaces × requests, and nothing gets out another way."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from crdtsync import AsyncClient, Client, NotAllowed, QuotaExceeded
from crdtsync.client import Entry, Session
from crdtsync.core.access.requirements import NEEDED
from tests.harness import Daemon
from tests.harness.cluster import wait_until
from tests.harness.raw import RawAgent, RawError
from tests.harness.users import ForeignAgent, User, connect_as
from tests.requests import ADMIN, HOST, READ, WRITE, Probe, probes, probes_of_a_space

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can be other users"),
]

CANARY = "canary-7d1f"
"""Is in names and values of all that is secret."""
HIDDEN = "hidden-93aa"
"""The same, of what only one node may hold."""
UNSEEN = "unseen-51bc"
"""A space in which only the host has rights, and which nobody asks for."""
GROUP = 4100
SPACES = ("default", "closed", "nowhere")
PREFIXES = ("open/", "secret/")


class Person(NamedTuple):
    """One row of the matrix: who connects, with the key of which agent, and what the rules say, by space and prefix."""

    name: str
    user: User
    key: str | None
    rules: dict[str, dict[str, int]]

    def on(self, space: str, key: str) -> int:
        found = self.rules.get(space, {})
        return max((right for prefix, right in found.items() if key.startswith(prefix)), default=0)

    def whole(self, space: str) -> int:
        return self.rules.get(space, {}).get("", 0)

    def some(self, space: str) -> int:
        return max(self.rules.get(space, {}).values(), default=0)


ALL = {"default": {"": HOST}, "closed": {"": HOST}, "hidden": {"": HOST}}
PEOPLE = [
    Person("host", User(0, 0), None, ALL),
    Person("group", User(4001, 4001, (GROUP,)), None, {space: {"": ADMIN} for space in ("default", "hidden")}),
    Person("user", User(4002, 4002), None, {"default": {"open/": READ}}),
    Person("by-gid", User(4003, 4003), None, {"default": {"open/": WRITE}}),
    Person("stranger", User(4004, 4004), None, {}),
    Person("keyed", User(4001, 4001, (GROUP,)), "keyed", {"default": {"open/": WRITE}, "closed": {"open/": READ}}),
    Person("root-keyed", User(0, 0), "root-keyed", {"default": {"open/": ADMIN}}),
    Person("new", User(4004, 4004), "new", {}),
]


def is_allowed(person: Person, space: str, prefix: str, probe: Probe) -> bool:
    return {
        "key": person.on(space, f"{prefix}named") >= probe.right,
        "prefix": person.on(space, prefix) >= probe.right,
        "some": person.some(space) >= probe.right,
        "whole": person.whole(space) >= probe.right,
        "default": person.whole("default") >= probe.right,
        "everything": all(person.whole(name) >= probe.right for name in ("default", "closed", "hidden")),
        "host": person.name == "host",
        "own": True,
    }[probe.on]


@pytest.fixture
def place(make_daemon: Any) -> Daemon:
    """A daemon whose socket everybody may open, and that a group owns."""
    daemon: Daemon = make_daemon("host-a", socket_mode="0666", log_bytes_max=65536)
    for directory in (daemon.base, daemon.run):
        directory.chmod(0o755)
    os.chown(daemon.socket, -1, GROUP)
    return daemon


def entry(session: Session, key: str) -> Entry:
    found = session.entry(key)
    assert found is not None
    return found


def seed(daemon: Daemon) -> dict[str, str]:
    """Spaces, secrets, agents and rules; the agents' keys."""
    with daemon.client("host") as state, daemon.client("rival") as rival:
        state.create_space("closed")
        state.create_space("hidden", nodes=[daemon.name])
        for space in ("default", "closed", "hidden"):
            mark = HIDDEN if space == "hidden" else CANARY
            one, other = state.session(space=space), rival.session(space=space)
            for prefix, secret in (("open/", "plain"), ("secret/", mark)):
                one.set(f"{prefix}named", f"old-{secret}")
                one.set(f"{prefix}named", secret)
                one.set(f"{prefix}{secret}/conflict", "old")
                seen = entry(one, f"{prefix}{secret}/conflict").version
                one.set(f"{prefix}{secret}/conflict", secret)
                other.set(f"{prefix}{secret}/conflict", f"rival-{secret}", seen=seen)
                one.append(f"{prefix}{secret}/log", secret)
                one.add(f"{prefix}{secret}/set", secret)
                one.merge(f"{prefix}{secret}/map", {secret: secret})
                one.incr(f"{prefix}{secret}/counter")
                one.text(f"{prefix}{secret}/text").set(secret)
                one.set(f"{prefix}{secret}/gone", secret)
                one.delete(f"{prefix}{secret}/gone")
                one.schema_set(f"{prefix}{secret}/*", policy="all")
        state.set("secret/large", [CANARY] * 10_000)
        keys = {name: str(state.agent_create(name)["key"]) for name in ("keyed", "root-keyed", "new")}
        state.create_space(UNSEEN, private=True)
        closed = state.session(space="closed")
        closed.access_revoke("socket")
        closed.access_grant("agent:keyed", "read", "open/**")
        state.access_grant("uid:4002", "read", "open/**")
        state.access_grant("gid:4003", "write", "open/**")
        state.access_grant("agent:keyed", "write", "open/**")
        state.access_grant("agent:root-keyed", "admin", "open/**")
    return keys


def attach(daemon: Daemon, person: Person, keys: dict[str, str]) -> tuple[ForeignAgent, ForeignAgent]:
    """Two connections: one to probe with, one to watch with."""
    hello = {} if person.key is None else {"key": keys[person.key]}
    one, two = connect_as(person.user, daemon.socket, 2)
    return ForeignAgent(one, f"{person.name}-p", **hello), ForeignAgent(two, f"{person.name}-w", **hello)


def code_of(agent: RawAgent, operation: str, args: dict[str, Any]) -> str:
    try:
        agent.call(operation, **args)
    except RawError as error:
        return str(error.code)
    return ""


def watch_everything(agent: ForeignAgent, person: Person) -> int:
    """Watches of all forms, where they are allowed. How many stand."""
    codes = [
        code_of(agent, "watch", {"space": space, "prefix": prefix, "states": states})
        for space in SPACES[:2]
        for prefix in ("", *PREFIXES)
        for states in (False, True)
    ]
    assert set(codes) <= {"", "not_allowed", "unknown_space"}
    assert codes.count("") == 2 * sum(
        person.some(space) >= READ if not prefix else person.on(space, prefix) >= READ
        for space in SPACES[:2]
        for prefix in ("", *PREFIXES)
    )
    return codes.count("")


def stir(daemon: Daemon) -> None:
    """Change what is secret in every way, under the eyes of the watchers; then something that all may see."""
    with daemon.client("host") as state:
        for space in SPACES[:2]:
            one = state.session(space=space)
            one.set(f"secret/{CANARY}/new", CANARY, ttl=0.05)
            with one.batch() as batch:
                batch.set(f"secret/{CANARY}/batched", CANARY)
                batch.set("open/batched", 1)
            one.text(f"secret/{CANARY}/text").insert(0, CANARY)
            one.delete(f"secret/{CANARY}/conflict")
            one.schema_set(f"secret/{CANARY}/*", policy="max")
            one.set("open/last", "the-last-one")


def test_the_matrix_of_users_keys_spaces_and_requests_leaks_nothing(place: Daemon, make_daemon: Any):
    keys = seed(place)
    with place.raw("host") as raw:
        tokens = {space: raw.call("scan", space=space)["token"] for space in SPACES[:2]}
    assert {probe.operation for probe in (*probes("", ""), *probes_of_a_space(""))} == set(NEEDED)
    with ExitStack() as stack:
        agents = [attach(place, person, keys) for person in PEOPLE]
        for pair in agents:
            for one in pair:
                stack.enter_context(one)
        wrong = [fault for person, pair in zip(PEOPLE, agents, strict=True) for fault in walk(person, *pair, tokens)]
        assert wrong == []
        stir(place)
        for person, pair in zip(PEOPLE, agents, strict=True):
            check_heard(person, *pair)
        check_text_of_another_key(agents[5][0], place)
        check_other_node(place, make_daemon)


def walk(person: Person, agent: ForeignAgent, watcher: ForeignAgent, tokens: dict[str, str]) -> Iterator[str]:
    """Ask for everything everywhere. What was answered otherwise than the rules say."""
    watch_everything(watcher, person)
    for space in SPACES:
        asked = [
            (probe, is_allowed(person, space, prefix, probe))
            for prefix in PREFIXES
            for probe in probes(prefix, tokens.get(space, tokens["default"]))
            if not is_spared(person, space, prefix, probe)
        ]
        asked += [
            (probe, allowed)
            for probe in probes_of_a_space(space)
            if not (allowed := is_allowed(person, space, "", probe))
            or (probe.on != "host" and probe.operation != "space_drop")
        ]
        for probe, allowed in asked:
            code = code_of(agent, probe.operation, {"space": space, **probe.args})
            if refusal_of(person, space, probe, allowed, code) != code:
                yield f"{person.name} {space} {probe.operation} {probe.args}: {code or 'done'}"


def refusal_of(person: Person, space: str, probe: Probe, allowed: bool, code: str) -> str:
    """What should be answered. A space in which one may do nothing is, to them, one that there is not."""
    if allowed and space != "nowhere":
        return code if code not in ("not_allowed", "unknown_space") else ""
    is_of_space = probe.on in ("key", "prefix", "some", "whole") or probe.operation == "access_list"
    if space != "default" and not person.some(space) and is_of_space and not probe.args.get("all"):
        return code if person.name == "host" and probe.operation == "explain" else "unknown_space"
    return code if allowed else "not_allowed"


def is_spared(person: Person, space: str, prefix: str, probe: Probe) -> bool:
    """What would be changed for those who come after, and a token of a space that there is not."""
    if probe.operation == "wait":
        return space == "nowhere"
    return probe.right >= WRITE and prefix == "secret/" and is_allowed(person, space, prefix, probe)


def check_heard(person: Person, agent: ForeignAgent, watcher: ForeignAgent) -> None:
    """In all that one was told, there is nothing that one may not read."""
    while person.some("default") and b"the-last-one" not in watcher.heard:
        watcher.receive()
    for one in (agent, watcher):
        one.call("status")  # and all that came before it
        may_know = any(person.whole(space) >= READ for space in SPACES[:2])
        assert (CANARY.encode() in one.heard) is may_know, f"{person.name} was told of what it may not read"
        assert (UNSEEN.encode() in one.heard) is (person.name == "host")
        if not person.whole("hidden"):
            assert b"hidden" not in one.heard


def check_text_of_another_key(agent: ForeignAgent, daemon: Daemon) -> None:
    """Naming a document does not bring it under another key."""
    with daemon.raw("host") as host:
        document = host.call("text_read", key=f"secret/{CANARY}/text")["document"]
    with pytest.raises(RawError, match="invalid_request"):
        agent.write("text_apply", key="open/mine", document=document, update=b"\x00\x00")
    assert agent.call("text_read", key="open/mine") is None


def check_other_node(daemon: Daemon, make_daemon: Any) -> None:
    """Another node gets the rules, so that they hold there too, and no byte of a space that it may not hold."""
    other: Daemon = make_daemon("host-b", peers=[daemon.url])
    wait_until(lambda: daemon.peer("host-b") is not None, what="the other node is known")
    with daemon.client("host") as state:
        assert state.wait(state.session(space="closed").set("more", CANARY), w=2) == 2
        state.session(space="hidden").set(f"more-{HIDDEN}", HIDDEN)
        assert state.wait(state.set("even-more", 1), w=2) == 2
    held = b"".join(path.read_bytes() for path in sorted(other.data.rglob("*")) if path.is_file())
    assert CANARY.encode() in held
    assert HIDDEN.encode() not in held
    with other.raw("host") as raw:
        told = repr([raw.call("status", reserved=True), raw.call("metrics"), raw.call("space_list")])
        assert HIDDEN not in told
        assert code_of(raw, "get", {"space": "hidden", "key": "secret/named"}) == "unknown_space"
    assert HIDDEN not in "".join(other.log_lines())


def test_what_is_taken_away_ends_at_once_for_clients_and_keys_are_revoked(place: Daemon, tmp_path: Path):
    with Client(place.socket, agent="host") as host:
        path = tmp_path / "critic.key"
        path.write_text(host.agent_create("critic")["key"] + "\n")
        host.access_grant("agent:critic", "write", "open/**")
        host.set("open/1", 1)
        with Client(place.socket, agent_key=path) as critic:
            assert entry(critic, "open/1").agent == "host"
            critic.set("open/2", 2)
            assert entry(critic, "open/2").agent == "critic"  # by its key
            watch = critic.watch("open/")
            mirror = critic.mirror("open/")
            assert [next(watch).key for _ in range(3)] == ["open/1", "open/2", None]
            assert mirror["open/2"] == 2
            host.access_revoke("agent:critic", "open/**")
            with pytest.raises(NotAllowed, match="may no longer read all"):
                next(watch)
            with pytest.raises(NotAllowed, match=r"may no longer read all|may not read"):
                wait_until(lambda: mirror["open/2"] is None, what="the mirror has ended")
            with pytest.raises(NotAllowed, match="crdtsync access grant agent:critic read 'open/1'"):
                critic.get("open/1")
            host.access_grant("agent:critic", "read")
            assert critic.get("open/1") == 1
            host.agent_revoke("critic")
            with pytest.raises(NotAllowed, match=r"no key of an agent critic|was revoked"):
                critic.get("open/1")


async def test_the_asyncio_client_does_the_same(place: Daemon):
    async with AsyncClient(place.socket, agent="host") as host:
        key = (await host.agent_create("critic"))["key"]
        assert (await host.access_grant("agent:critic", "read", "open/**"))["right"] == "read"
        assert await host.access_quota("agent:critic", requests_per_s=1, connections=3)
        async with AsyncClient(place.socket, agent_key=key) as critic:
            assert [one["name"] for one in await critic.agent_list()] == ["critic"]
            many = await asyncio.gather(*(critic.get("open/1") for _ in range(5)), return_exceptions=True)
            late = [one for one in many if isinstance(one, QuotaExceeded)]
            assert "quota of 1 requests a second" in str(late[0])
            await asyncio.sleep(max(one.retry_ms or 0 for one in late) / 1000)
            assert (await critic.access_list())["rules"][0]["pattern"] == "open/**"
        assert (await host.access_list(everywhere=True))["quotas"][0]["requests_per_s"] == 1
        assert (await host.access_revoke("agent:critic", "open/**"))["right"] is None
        assert (await host.agent_revoke("critic"))["name"] == "critic"
