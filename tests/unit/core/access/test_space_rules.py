"""Rules are of one making of a space: nobody has a right in it from before, and an archive keeps what it had."""

from __future__ import annotations

from typing import Any

import pytest

from crdtsync.core.access.records import ACCESS, BUILT_IN, NO_RULE, AccessRecord, rule_name
from crdtsync.core.access.requirements import Right
from tests.fleet.agent import Agent, Refusal
from tests.fleet.host import Host
from tests.fleet.rights import ROOT, STRANGER, begin, ended, grant, keyed, machine, pair, refused, revoke, root

__all__ = ["machine", "pair", "root"]  # the fixtures

OTHER = "uid:3000"


def unknown(call: Any, *args: Any, **named: Any) -> dict[str, Any]:
    with pytest.raises(Refusal, match="unknown_space") as caught:
        call(*args, **named)
    return caught.value.fields


def rules_of(session: Agent, space: str) -> list[tuple[str, str, str]]:
    listed = session.ask("access_list", space=space)["rules"]
    return [(rule["who"], rule["pattern"], rule["right"]) for rule in listed]


def cut(machine: Host) -> None:
    for wire in list(machine.wires.values()):
        wire.close()


def put(machine: Host, space: str, who: str, record: AccessRecord) -> None:
    """Write a rule as another node may have written it."""
    machine.node.cluster.put(ACCESS, rule_name(space, who, "**"), record)
    machine.turn()


# -- before there is a space ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["access_grant", "access_revoke"])
def test_nobody_makes_rules_for_a_space_that_there_is_not(machine, root, name):
    for session in (machine.agent("local"), root):
        unknown(session.ask, name, space="payroll", who="uid:1000", right="admin")
    root.ask("space_create", name="payroll")
    assert rules_of(root, "payroll") == [("socket", "**", "admin")]


def test_a_rule_that_arrives_before_its_space_counts_for_nothing(pair, machine, root):
    local = machine.agent("local")
    put(machine, "payroll", "uid:2000", NO_RULE.with_right(Right.ADMIN, 1, "x"))
    put(machine, "payroll", "socket", BUILT_IN.with_right(Right.NONE, 1, "x"))
    stranger = machine.agent("stranger", user=STRANGER)
    unknown(stranger.get, "k", space="payroll")
    root.ask("space_create", name="payroll")
    pair.sync()
    for one in pair.machines.values():
        asking = one.agent("stranger", user=STRANGER)
        unknown(asking.get, "k", space="payroll")
        assert one.agent("local").get("k", space="payroll") is None
        assert rules_of(one.agent("root", user=ROOT), "payroll") == [("socket", "**", "admin")]
    local.set("k", 1, space="payroll")
    unknown(stranger.get, "k", space="payroll")


def test_a_space_that_is_made_anew_begins_with_no_rule_of_the_earlier_one(pair, machine, root):
    local, agent = machine.agent("local"), keyed(root)
    local.ask("space_create", name="team")
    grant(local, "agent:critic", "admin", space="team")
    revoke(local, "socket", space="team")
    assert agent.get("k", space="team") is None
    root.ask("space_drop", name="team")
    root.ask("space_create", name="team")
    unknown(agent.get, "k", space="team")
    local.set("k", 1, space="team")
    pair.sync()
    there = pair["b"].agent("root", user=ROOT)
    assert rules_of(there, "team") == rules_of(root, "team") == [("socket", "**", "admin")]
    grant(there, "agent:critic", "read", space="team")
    pair.sync()
    assert agent.get("k", space="team") == 1


def test_a_rule_for_the_earlier_space_that_comes_late_is_not_for_the_new_one(pair, machine, root):
    root.ask("space_create", name="team")
    pair.sync()
    cut(machine)
    grant(pair["b"].agent("local"), "uid:2000", "admin", space="team")
    root.ask("space_drop", name="team")
    root.ask("space_create", name="team")
    pair.link("a", "b")
    pair.sync()
    for one in pair.machines.values():
        unknown(one.agent("stranger", user=STRANGER).get, "k", space="team")


def test_rules_of_default_stay_when_it_is_dropped(machine, root):
    revoke(root, "socket")
    agent = keyed(root, read="open/**")
    root.ask("space_drop", name="default")
    refused(machine.agent("local").get, "k")
    assert agent.get("open/1") is None


@pytest.mark.parametrize("states", [False, True], ids=["watch", "mirror"])
def test_a_watch_of_the_earlier_space_does_not_go_on_in_one_that_is_made_anew(pair, machine, root, states):
    agent = keyed(root)
    root.ask("space_create", name="team")
    grant(root, "agent:critic", "read", space="team")
    pair.sync()
    watch = begin(agent, "watch", space="team", states=states)
    there = pair["b"].agent("root", user=ROOT)
    cut(machine)
    there.ask("space_drop", name="team")
    there.ask("space_create", name="team")
    there.set("k", "secret", space="team")
    pair.link("a", "b")
    pair.sync()
    assert ended(agent, watch)["code"] in ("not_allowed", "unknown_space")
    assert "secret" not in str(agent.told())


# -- private spaces ---------------------------------------------------------------------------------------------------


def test_a_private_space_is_its_makers_alone_and_never_open_anywhere(pair, machine, root):
    maker = keyed(root)
    grant(root, "agent:critic", "admin")
    seen: list[bool] = []
    there = pair["b"].agent("local")
    pair["b"].node.cluster.on_change(ACCESS, lambda _names: seen.append("payroll" in pair["b"].node.replicas))
    made = maker.ask("space_create", name="payroll", private=True)
    assert made["created"]
    pair.sync()
    assert seen[:1] == [False], "the rules came before the space"
    assert rules_of(maker, "payroll") == [("agent:critic", "**", "admin")]
    maker.set("wage", 7, space="payroll")
    unknown(there.get, "wage", space="payroll")
    unknown(machine.agent("local").get, "wage", space="payroll")
    assert root.get("wage", space="payroll") == 7
    grant(maker, "uid:2000", "read", space="payroll")
    assert machine.agent("stranger", user=STRANGER).get("wage", space="payroll") == 7


def test_what_is_there_already_does_not_become_private(machine, root):
    root.ask("space_create", name="team")
    with pytest.raises(Refusal, match="invalid_request: the space team is there already, with the rules it has"):
        root.ask("space_create", name="team", private=True)
    with pytest.raises(Refusal, match="private must be true or false"):
        root.ask("space_create", name="other", private=1)


def test_who_makes_spaces_learns_of_a_hidden_one_that_its_name_is_taken_and_nothing_else(machine, root):
    root.ask("space_create", name="payroll", private=True, nodes=["a"])
    local = machine.agent("local")
    texts = {refused(local.ask, "space_create", name="payroll", **args)["message"] for args in (
        {}, {"private": True}, {"nodes": ["a"]}, {"nodes": ["b"]},
    )}  # fmt: skip
    assert texts == {"uid:1000 cannot make a space payroll: the name is taken, choose another one"}


# -- archives ---------------------------------------------------------------------------------------------------------


def test_an_archive_is_not_opened_by_making_the_space_anew(machine, root):
    agent, local = keyed(root), machine.agent("local")
    root.ask("space_create", name="payroll", private=True)
    grant(root, "agent:critic", "read", space="payroll")
    root.set("wage", 7, space="payroll")
    root.ask("space_drop", name="payroll")
    assert agent.get("wage", space="payroll@1") == 7
    unknown(local.get, "wage", space="payroll@1")
    root.ask("space_create", name="payroll")
    assert local.get("wage", space="payroll") is None
    unknown(local.get, "wage", space="payroll@1")
    assert agent.get("wage", space="payroll@1") == 7  # the rule of then
    grant(root, "socket", "read", "x", space="payroll")
    revoke(root, "socket", space="payroll")
    grant(root, "socket", "admin", space="payroll")
    unknown(local.get, "wage", space="payroll@1")
    grant(root, "agent:critic", "read", space="payroll")  # from now on, what it was allowed then is not known
    unknown(agent.get, "wage", space="payroll@1")
    assert root.get("wage", space="payroll@1") == 7


def test_what_was_open_to_all_stays_so_in_the_archive(machine, root):
    local = machine.agent("local")
    local.ask("space_create", name="team")
    local.set("k", 1, space="team")
    local.ask("space_drop", name="team")
    local.ask("space_create", name="team")
    assert local.get("k", space="team@1") == 1
    assert [archive["name"] for archive in local.ask("space_list")["archives"]] == ["team@1"]


# -- merging ----------------------------------------------------------------------------------------------------------


def test_of_rules_of_two_makings_that_of_the_later_stands_whatever_it_says():
    old = NO_RULE.with_right(Right.ADMIN, 9, "x")
    new = AccessRecord((0, 0, 0), epoch=3).with_right(Right.READ, 1, "y")
    assert ACCESS.merge(old, new) == ACCESS.merge(new, old) == new
    assert ACCESS.read(ACCESS.write(new)) == new
