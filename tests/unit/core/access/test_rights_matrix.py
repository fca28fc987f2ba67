"""No operation tells whether there is a space in which one may do nothing: asked of one that is hidden, or of one that
there is not, everything is answered word for word alike.

What is added to the daemon without a row in :mod:`tests.requests` fails the first test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from crdtsync.causality import Writer
from crdtsync.core.access.agent import User
from crdtsync.core.access.requirements import NEEDED
from crdtsync.wire.codec import pack
from crdtsync.wire.tokens import encode_token
from tests.fleet.agent import SOMEBODY, Agent, Refusal
from tests.fleet.fleet import Fleet
from tests.fleet.host import Host
from tests.fleet.rights import STRANGER, grant, machine, pair, revoke, root
from tests.requests import probes, probes_of_a_space

__all__ = ["machine", "pair", "root"]  # the fixtures

Arguments = dict[str, Any]


class Row(NamedTuple):
    """How an operation is asked for a space. ``tells``: whether who may make spaces learns that the name is taken."""

    forms: Callable[[str], list[Arguments]]
    tells: bool = False


def in_space(*forms: Arguments) -> Row:
    return Row(lambda space: [{"space": space, **form} for form in forms])


def token(space: str, epoch: int) -> str:
    return encode_token([(space, epoch, {Writer(7): 1})])


def as_probed(operation: str) -> Row:
    """As :mod:`tests.requests` asks for it, and the same with what is no key, prefix, pattern or name."""
    forms = [probe.args for probe in ALL_PROBES if probe.operation == operation]
    wrong = [
        {**form, name: 7} for form in forms for name in ("key", "keys", "prefix", "pattern", "name") if name in form
    ]
    wrong += [{**form, "pattern": "*x"} for form in forms if "pattern" in form]
    return in_space(*forms, *wrong)


ALL_PROBES = (*probes("", token("default", 0)), *probes_of_a_space("default"))
TABLE: Mapping[str, Row] = {
    **{probe.operation: as_probed(probe.operation) for probe in ALL_PROBES},
    "batch": in_space({"ops": [["set", {"key": "k", "value": pack(1)}]], "n": 1}, {"ops": [], "n": 1}, {"ops": 7}),
    "restore": Row(lambda space: [{"space": space, "at": at, "n": 1} for at in (token(space, 0), "c", 5, None)]),
    "watch": in_space({}, {"states": True}, {"prefix": "_"}, {"after": token("default", 0)}),
    "wait": Row(lambda space: [{"token": token(space, epoch)} for epoch in (0, 1, 9)]),
    "space_create": Row(lambda space: [{"name": space}, {"name": space, "nodes": ["a"]}], tells=True),
    "space_drop": Row(lambda space: [{"name": space}, {"name": space, "space": space}]),
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


def asked_of(session: Agent, operation: str, space: str) -> list[str]:
    """What each form of it answers, whatever the space is called; nothing if it counts."""
    answers = [answered(session, operation, args) for args in TABLE[operation].forms(space)]
    return [] if operation in COUNTING else [answer.replace(space.partition("@")[0], "S") for answer in answers]


COUNTING = ("status", "metrics")
"""These show figures that every request changes; that they name nothing is looked at apart."""


@pytest.mark.parametrize("is_default_closed", [False, True], ids=["default open", "default closed"])
def test_of_a_hidden_space_all_is_answered_as_of_one_that_there_is_not(machine, hidden, is_default_closed):
    if is_default_closed:
        revoke(hidden, "socket")
    makers = {"master"} if is_default_closed else {"group", "local", "master"}  # they learn that a name is taken
    wrong: list[str] = []
    for session in people(machine, hidden):
        operations = [name for name in sorted(TABLE) if not (TABLE[name].tells and session.name in makers)]
        absent = {name: {each: asked_of(session, each, name) for each in operations} for name in ("nope", "nope@1")}
        for name in (*HIDDEN, "hid-here@1", "hid-gone@1", "hid-anew@1"):
            for operation in operations:
                of_hidden = asked_of(session, operation, name)
                of_absent = absent["nope@1" if "@" in name else "nope"][operation]
                if of_hidden != of_absent:
                    wrong.append(f"{session.name} {operation} {name}: {of_hidden} but {of_absent}")
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
