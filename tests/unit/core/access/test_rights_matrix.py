"""No operation tells whether there is a space in which one may do nothing: asked of one that is hidden, or of one that
there is not, everything is answered word for word alike.

One table: what is added to the daemon without a row here fails the first test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from crdtsync.causality import Writer
from crdtsync.core.access.requirements import NEEDED
from crdtsync.core.agents.connection import User
from crdtsync.wire.codec import pack
from crdtsync.wire.tokens import encode_token, version_text
from tests.fleet.agent import SOMEBODY, Agent, Refusal
from tests.fleet.fleet import Fleet
from tests.fleet.host import Host
from tests.fleet.rights import STRANGER, grant, machine, pair, revoke, root

__all__ = ["machine", "pair", "root"]  # the fixtures

Arguments = dict[str, Any]


class Row(NamedTuple):
    """How an operation is asked for a space. ``tells``: whether who may make spaces learns that the name is taken."""

    forms: Callable[[str], list[Arguments]]
    tells: bool = False


def on_key(**args: Any) -> Row:
    return Row(lambda space: [{"space": space, "key": "k", **args}, {"space": space, "key": 7, **args}])


def in_space(*forms: Arguments) -> Row:
    return Row(lambda space: [{"space": space, **form} for form in forms or ({},)])


def own(**args: Any) -> Row:
    return in_space(args)


def token(space: str, epoch: int) -> str:
    return encode_token([(space, epoch, {Writer(7): 1})])


READ = on_key()
WRITE = on_key(value=pack(1), n=1)
RULE = in_space({"who": "uid:1", "right": "read"}, {"who": "uid:1", "right": "read", "pattern": "k"}, {"pattern": "*x"})

TABLE: Mapping[str, Row] = {
    **dict.fromkeys(("get", "entry", "log", "members", "fields", "text_read", "text_updates", "explain"), READ),
    **dict.fromkeys(("set", "delete", "append", "incr", "reset", "add", "discard", "resolve", "text_compact"), WRITE),
    "trim": on_key(keep=0, n=1),
    "touch": on_key(ttl=1000, n=1),
    "blob_read": on_key(upload="0" * 24, part=0),
    "blob_parts": on_key(sha256="0" * 64),
    "blob_write": on_key(upload="0" * 24, part=0, value=b"x", n=1),
    "blob_set": on_key(upload="0" * 24, size=0, sha256="0" * 64, n=1),
    "show": on_key(value=pack(1)),
    "shown": in_space({}, {"prefix": "k"}, {"prefix": "_"}, {"prefix": 7}),
    "vote": on_key(owner="o", ttl=1000),
    "bind": on_key(version=version_text(1 << 16, 7, 1)),
    "remove": on_key(dot="7.1.0", n=1),
    "get_many": in_space({"keys": ["k"]}, {"keys": ["k", 7]}, {"keys": []}, {"keys": 7}),
    "merge": on_key(fields={"f": pack(1)}, n=1),
    "drop": on_key(field="f", n=1),
    "text_apply": on_key(update=b"\x00\x00", n=1),
    "scan": in_space({}, {"prefix": "k"}, {"prefix": "_"}, {"prefix": 7}, {"conflicts": True, "entries": True}),
    "history": in_space({"key": "k"}, {"prefix": ""}, {"prefix": "", "lost": True}),
    "schemas": in_space({}, {"key": "k"}),
    "purges": in_space({}, {"pattern": "k"}),
    "batch": in_space({"ops": [["set", {"key": "k", "value": pack(1)}]], "n": 1}, {"ops": [], "n": 1}, {"ops": 7}),
    "schema_set": in_space({"pattern": "k", "policy": "max", "n": 1}, {"pattern": "*x", "n": 1}),
    "purge": in_space({"pattern": "k", "n": 1}, {"pattern": "*x", "n": 1}),
    "checkpoints": in_space({}, {"name": "c"}, {"name": 7}),
    "checkpoint_policy": in_space(
        {"name": "c", "every": 1000, "keep": 3, "n": 1}, {"name": "c", "remove": True, "n": 1}, {"name": 7, "n": 1}
    ),
    "checkpoint_set": in_space({"name": "c", "n": 1}, {"name": "c", "remove": True, "n": 1}, {"name": 7, "n": 1}),
    "restore": Row(lambda space: [{"space": space, "at": at, "n": 1} for at in (token(space, 0), "c", 5, None)]),
    "watch": in_space({}, {"states": True}, {"prefix": "_"}, {"after": token("default", 0)}),
    "wait": Row(lambda space: [{"token": token(space, epoch)} for epoch in (0, 1, 9)]),
    "resolver": in_space({"pattern": "**"}, {"pattern": 7}),
    "space_create": Row(lambda space: [{"name": space}, {"name": space, "nodes": ["a"]}], tells=True),
    "space_drop": Row(lambda space: [{"name": space}, {"name": space, "space": space}]),
    "access_grant": RULE,
    "access_revoke": RULE,
    "access_list": in_space({}, {"all": True}),
    **dict.fromkeys(("unwatch", "confirm", "resolver_done"), own(watch=999, resolver=999, seq=1)),
    **dict.fromkeys(("space_list", "agent_list", "cluster_members", "log_level", "metrics"), own()),
    "status": own(reserved=True),
    **dict.fromkeys(("agent_create", "agent_revoke", "access_quota"), own(name="x", who="uid:1")),
    **dict.fromkeys(("cluster_init", "cluster_invite", "cluster_join", "cluster_remove"), own()),
    **dict.fromkeys(("cluster_rotate_key", "backup", "forget_peer", "bring_back"), own()),
}

GROUP_MEMBER = User(1001, (1001,))
HIDDEN = ("hid-here", "hid-there", "hid-gone", "hid-anew")
"""Spaces in which those who ask may do nothing: here; on another node alone; dropped; dropped and made anew."""


def test_every_operation_has_its_row():
    assert set(TABLE) == set(NEEDED)


@pytest.fixture
def hidden(pair: Fleet, machine: Host, root: Agent) -> Agent:
    """The spaces, with something in them. Returns the host's session."""
    pair["b"].agent("there").set("warm", 1)
    pair.sync()
    for name in HIDDEN:
        root.ask("space_create", name=name, private=True, nodes=["b"] if name == "hid-there" else None)
        if name != "hid-there":
            root.set("k", 1, space=name)
    for name in ("hid-gone", "hid-anew"):
        root.ask("space_drop", name=name)
    root.ask("space_create", name="hid-anew", private=True)
    return root


def people(machine: Host, root: Agent) -> Iterator[Agent]:
    """Everybody who may do nothing in these spaces: by the socket's group, by rules, by a key, with nothing at all."""
    grant(root, "uid:2001", "read", "open/**")
    yield machine.agent("group", user=GROUP_MEMBER)
    yield machine.agent("local", user=SOMEBODY)
    yield machine.agent("stranger", user=STRANGER)
    yield machine.agent("reader", user=User(2001, (2001,), is_local=False))
    for name, right in (("keyed", "write"), ("master", "admin"), ("new", "")):
        key = root.ask("agent_create", name=name)["key"]
        if right:
            grant(root, f"agent:{name}", right)
        yield machine.agent(name, key=key)


def answered(session: Agent, operation: str, args: Arguments) -> str:
    """All that an operation answers, with what it takes of time and numbers left out."""
    try:
        return str(session.ask(operation, **args))
    except Refusal as refusal:
        return str(sorted(refusal.fields.items()))


def asked_alike(session: Agent, operation: str, hidden: str, absent: str) -> Iterator[str]:
    """The answers that differ."""
    row = TABLE[operation]
    for one, other in zip(row.forms(hidden), row.forms(absent), strict=True):
        of_hidden = answered(session, operation, one).replace(hidden.partition("@")[0], absent.partition("@")[0])
        of_absent = answered(session, operation, other)
        if of_hidden != of_absent and operation not in COUNTING:
            yield f"{session.name} {operation} {one}: {of_hidden} but {of_absent}"


COUNTING = ("status", "metrics")
"""These show figures that every request changes; that they name nothing is looked at apart."""


@pytest.mark.parametrize("is_default_closed", [False, True], ids=["default open", "default closed"])
def test_of_a_hidden_space_all_is_answered_as_of_one_that_there_is_not(machine, hidden, is_default_closed):
    if is_default_closed:
        revoke(hidden, "socket")
    makers = {"master"} if is_default_closed else {"group", "local", "master"}  # they learn that a name is taken
    wrong: list[str] = []
    for session in people(machine, hidden):
        for name in (*HIDDEN, "hid-here@1", "hid-gone@1", "hid-anew@1"):
            absent = "nope" + name[name.index("@") :] if "@" in name else "nope"
            for operation in sorted(TABLE):
                if TABLE[operation].tells and session.name in makers:
                    continue
                wrong += asked_alike(session, operation, name, absent)
        for operation in ("status", "space_list", "access_list", "agent_list", "cluster_members"):
            told = answered(session, operation, {"all": True, "reserved": True})
            wrong += [f"{session.name} {operation} names {name}" for name in HIDDEN if f"'{name}" in told]
        assert session.events == []
    assert wrong == []


def test_what_there_is_not_is_answered_alike_whether_or_not_something_is_hidden(machine, root):
    def answers(space: str) -> list[str]:
        session = machine.agent("group", user=GROUP_MEMBER)
        rows = ((name, row.forms(space)) for name, row in sorted(TABLE.items()) if name not in (*COUNTING, *MAKING))
        return [answered(session, name, args).replace(space, "S") for name, forms in rows for args in forms]

    before = answers("hid-here")  # there is none, and the socket's group may do all everywhere
    root.ask("space_create", name="hid-here", private=True)
    after = answers("hid-here")
    assert [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]] == []


MAKING = ("space_create",)


@pytest.mark.parametrize("name", [*HIDDEN, "nope", "hid-gone@1", "nope@1"])
def test_attaching_tells_nothing_either(machine, hidden, name):
    key = hidden.ask("agent_create", name="new")["key"]
    sessions = [machine.agent("x", user=user, space=name) for user in (GROUP_MEMBER, STRANGER)]
    sessions.append(machine.agent("new", key=key, space=name))
    texts = set()
    for session in sessions:
        with pytest.raises(Refusal, match="unknown_space") as caught:
            session.get("k")
        texts.add(str(caught.value).replace(name.partition("@")[0], "S").replace(name, "N"))
    assert len(texts) == len(sessions)  # they differ by whom they are for alone
