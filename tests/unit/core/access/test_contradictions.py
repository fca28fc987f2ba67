"""Rights go by all that a request says: by what its parts name, too, and where its arguments contradict each other."""

from __future__ import annotations

from typing import Any

import pytest

from crdtsync.causality import Writer
from crdtsync.core.access.agent import User
from crdtsync.wire.codec import pack
from crdtsync.wire.tokens import encode_token
from tests.fleet.agent import Agent, Refusal
from tests.fleet.rights import ROOT, begin, grant, keyed, machine, pair, refused, root

__all__ = ["machine", "pair", "root"]  # the fixtures


def a_part(**more: Any) -> list[Any]:
    return ["set", {"key": "k", "value": pack(1), **more}]


@pytest.fixture
def reader(root: Agent) -> Agent:
    """Who may read all of ``default`` and write all of ``mine``."""
    root.ask("space_create", name="mine")
    agent = keyed(root, read="**")
    grant(root, "agent:critic", "write", space="mine")
    return agent


# -- parts of a batch -------------------------------------------------------------------------------------------------


def test_a_part_of_a_batch_cannot_name_another_space_to_write_where_one_may_only_read(machine, root, reader):
    refused(reader.do, "batch", ops=[a_part(space="mine")])
    refused(reader.do, "batch", ops=[a_part(space="mine")], space="default")
    assert root.get("k") is None
    assert root.get("k", space="mine") is None


def test_a_part_of_a_batch_that_names_another_space_or_author_is_refused_and_not_done_elsewhere(root, reader):
    """Its author meant that space, so a write into the batch's own would be one that nobody asked for."""
    for contradiction in ({"space": "default"}, {"space": 7}, {"agent": "somebody"}):
        with pytest.raises(
            Refusal, match=f"invalid_request: operation 1 .*names a {next(iter(contradiction))} of its own"
        ):
            reader.do("batch", ops=[a_part(), a_part(**contradiction)], space="mine")
    assert root.get("k", space="mine") is None
    reader.do("batch", ops=[a_part(space="mine", agent="one")], space="mine", agent="one")
    assert root.get("k", space="mine") == 1


def test_a_part_of_a_batch_cannot_be_a_batch_or_what_is_no_write(root, reader):
    inner = ["batch", {"ops": [a_part()]}]
    for name, part in (("batch", inner), ("get", ["get", {"key": "k"}]), ("nothing", ["nothing", {}])):
        with pytest.raises(Refusal) as caught:
            reader.do("batch", ops=[a_part(), part], space="mine")
        assert caught.value.code in ("invalid_request", "not_allowed"), name
        assert root.get("k", space="mine") is None


@pytest.mark.parametrize(
    "part", [[], ["set"], ["set", []], "set", ["set", {"key": 7}], [7, {}], ["set", {}, 1]], ids=str
)
def test_a_part_of_a_batch_that_is_malformed_writes_nothing(root, reader, part):
    with pytest.raises(Refusal, match=r"invalid_request|not_allowed"):
        reader.do("batch", ops=[a_part(), part], space="mine")
    assert root.get("k", space="mine") is None


def test_every_kind_of_write_is_held_to_the_rights_on_its_own_key_inside_a_batch(machine, root):
    """Not on that of the part before it, nor on that of the batch."""
    agent = keyed(root, write="open/**", admin="own/**")
    forms: dict[str, dict[str, Any]] = {
        "set": {"value": pack(1)}, "delete": {}, "append": {"value": pack(1)}, "trim": {"keep": 1}, "incr": {},
        "reset": {}, "add": {"value": pack(1)}, "discard": {"value": pack(1)}, "merge": {"fields": {"f": pack(1)}},
        "drop": {"field": "f"}, "resolve": {"value": pack(1)}, "text_apply": {"update": b"\x00\x00"},
        "text_compact": {}, "schema_set": {"policy": "max"},
    }  # fmt: skip
    for name, args in forms.items():
        named = {"pattern": "open/**"} if name == "schema_set" else {"key": "secret"}
        part = [name, {**args, **named}]
        fields = refused(agent.do, "batch", ops=[["set", {"key": "open/1", "value": pack(1)}], part], key="open/1")
        assert (fields["index"], fields["op"]) == (1, name)
    assert agent.get("open/1") is None


# -- one request that says two things ---------------------------------------------------------------------------------


def test_the_history_of_a_key_and_of_a_prefix_at_once_is_refused(root):
    agent = keyed(root, read="open/**")
    root.set("secret/1", "hidden")
    with pytest.raises(Refusal, match="invalid_request"):
        agent.ask("history", key="open/1", prefix="secret/")


@pytest.mark.parametrize("more", [{"key": "mine"}, {"pattern": "a/*"}, {"prefix": "a/"}], ids=str)
def test_rights_on_a_key_are_not_helped_by_naming_another_as_something_else(machine, root, more):
    agent = keyed(root, admin="mine", write="a/*")
    root.set("k", 1)
    for operation, args in (("scan", {"prefix": "b"}), ("watch", {"prefix": "b"}), ("resolver", {"pattern": "b"})):
        if not args.keys() & more.keys():
            refused(agent.ask, operation, **args, **more)
    for operation in ("get", "entry", "set", "delete"):
        if "key" not in more:
            refused(agent.do, operation, key="k", value=pack(2), **more)
    assert root.get("k") == 1


# -- granting ---------------------------------------------------------------------------------------------------------


def test_who_administers_some_keys_grants_nothing_beyond_them(machine, root):
    agent = keyed(root, admin="a/*")
    grant(agent, "uid:7", "write", "a/b")
    grant(agent, "uid:7", "write", "a/*")
    for wider in ("a/**", "a", "a/b/c", "a/*/*", "*/b", "*", "**", "**/b", "b/*"):
        for right in ("read", "write", "admin"):
            refused(grant, agent, "agent:critic", right, wider)
        refused(agent.ask, "access_revoke", who="uid:7", pattern=wider)
        refused(agent.do, "schema_set", pattern=wider, policy="max")
    rules = [rule["pattern"] for rule in root.ask("access_list")["rules"] if rule["who"] == "agent:critic"]
    assert rules == ["a/*"]
    refused(agent.get, "a/b/c")


def test_who_administers_a_space_grants_nothing_in_another(machine, root, reader):
    grant(root, "agent:critic", "admin", space="mine")
    grant(reader, "uid:7", "read", space="mine")
    refused(grant, reader, "agent:critic", "write", space="default")
    refused(grant, reader, "agent:critic", "write")
    refused(reader.ask, "access_revoke", who="socket", space="default")
    refused(reader.ask, "space_drop", name="default", space="mine")
    refused(reader.ask, "space_create", name="other", space="mine")


# -- tokens of several spaces -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", ["aaa", "zzz"])
def test_a_token_of_several_spaces_needs_a_right_in_each_of_them(machine, root, hidden):
    """Also in the one that comes last: who waits for it learns when something is written there."""
    agent = keyed(root, read="**")
    root.ask("space_create", name=hidden, private=True)
    root.set("k", 1, space=hidden)
    epoch = machine.node.replicas[hidden].epoch
    of_default = ("default", machine.node.replicas["default"].epoch, {Writer(7): 0})
    for seq in (0, 1):
        of_hidden = (hidden, epoch, {Writer(7): seq})
        with pytest.raises(Refusal, match="unknown_space"):
            agent.ask("wait", token=encode_token([of_default, of_hidden]))
        assert root.send("wait", token=encode_token([of_default, of_hidden]))
    for argument in ("after", "need"):
        token = encode_token([of_default, (hidden, epoch, {Writer(7): 1})])
        assert agent.get("k", **{argument: token}) is None  # only what it says of the space that is read counts


# -- agents whose keys have changed -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_restarted", [False, True], ids=["attached", "and restarted"])
def test_a_key_ends_where_its_end_and_the_next_one_arrive_together(pair, machine, root, is_restarted):
    old = root.ask("agent_create", name="critic")["key"]
    grant(root, "agent:critic", "write")
    pair.sync()
    there = pair["b"].agent("critic", key=old)
    there.set("k", 1)
    pair.sync()
    for wire in list(machine.wires.values()):
        wire.close("a partition")
    root.ask("agent_revoke", name="critic")
    new = root.ask("agent_create", name="critic")["key"]
    pair.link("a", "b")
    pair.sync()
    if is_restarted:
        pair["b"].restart()
    else:
        assert there.closed
    refused(pair["b"].agent, "critic", key=old)
    assert pair["b"].agent("critic", key=new).get("k") == 1


def test_a_key_that_was_revoked_on_two_hosts_at_once_is_gone_whichever_came_back(pair, machine, root):
    old = root.ask("agent_create", name="critic")["key"]
    pair.sync()
    there = pair["b"].agent("root", user=ROOT)
    root.ask("agent_revoke", name="critic")
    there.ask("agent_revoke", name="critic")
    keys = [one.ask("agent_create", name="critic")["key"] for one in (root, there)]
    pair.sync()
    for host in ("a", "b"):
        refused(pair[host].agent, "critic", key=old)
        for key in keys:
            pair[host].agent("critic", key=key)


# -- names that have a key --------------------------------------------------------------------------------------------


def test_a_key_lets_nobody_write_under_the_name_of_another_key(machine, root):
    """Also not for who runs the node, once it has given a key; and nothing else that names an author takes it."""
    for name in ("critic", "planner"):
        root.ask("agent_create", name=name)
    key = root.ask("agent_create", name="mine")["key"]
    grant(root, "agent:mine", "admin")
    for user in (ROOT, User(1000)):
        refused(machine.agent, "critic", key=key, user=user)
        agent = machine.agent("mine", key=key, user=user)
        for name in ("critic", "planner"):
            refused(agent.set, "k", 1, agent=name)
            refused(agent.get, "k", agent=name)
            refused(agent.do, "batch", ops=[a_part()], agent=name)
            refused(agent.ask, "space_create", name="other", agent=name)
            with pytest.raises(Refusal):
                agent.do("batch", ops=[a_part(agent=name)])
        agent.set("k", 1, agent="a-name-of-nobody")
        agent.close()
    assert root.ask("entry", key="k")["agent"] == "a-name-of-nobody"


def test_a_write_that_waits_is_not_done_under_a_name_that_was_given_a_key_meanwhile(pair, machine, root):
    agent = keyed(root, write="**")
    token = pair["b"].agent("writer").set("k", 1)["token"]
    agent.number += 1
    waiting = agent.send("set", key="k", value=pack(2), n=agent.number, agent="critic-2", need=token)
    machine.turn()
    root.ask("agent_create", name="critic-2")
    pair.sync()
    with pytest.raises(Refusal, match="not_allowed"):
        agent.result(waiting)
    assert root.get("k") == 1


def test_a_resolver_under_another_name_is_refused_too(machine, root):
    root.ask("agent_create", name="planner")
    agent = keyed(root, write="**")
    begin(agent, "resolver", pattern="**")
    refused(agent.ask, "resolver", pattern="**", agent="planner")
