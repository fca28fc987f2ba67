"""Who may do what: rules, agents with keys; and nothing of what may not be read gets out by another way."""

from __future__ import annotations

import pytest

from crdtsync.client.operations.agent_keys import new_agent, new_agent_key
from crdtsync.core.access.agent import User
from crdtsync.core.access.requirements import NEEDED, Right
from crdtsync.core.alarm_catalogue import EDIT_SKIPPED
from crdtsync.core.replica.write_operations import WRITES
from crdtsync.errors import NoSpace
from crdtsync.wire.agent_keys import decode_agent_key, encode_agent_key
from crdtsync.wire.codec import pack
from crdtsync.wire.requests import REQUESTS
from tests.fleet.agent import Refusal
from tests.fleet.editor import Editor
from tests.fleet.rights import (
    STRANGER,
    begin,
    grant,
    keyed,
    long,
    machine,
    pair,
    refused,
    revoke,
    root,
)

__all__ = ["machine", "pair", "root"]  # the fixtures


# -- the table -------------------------------------------------------------------------------------------------------


def test_every_write_needs_the_right_to_write():
    assert all(NEEDED[name].right >= Right.WRITE for name in WRITES)


@pytest.mark.parametrize("change", ["one is missing", "one is unknown", "a read is called a write"])
def test_a_node_does_not_start_with_requests_that_are_not_those_of_the_table(machine, monkeypatch, change):
    match change:
        case "one is missing":
            monkeypatch.delitem(REQUESTS, "cluster_members")
        case "one is unknown":
            monkeypatch.setitem(REQUESTS, "cluster_members_2", REQUESTS["cluster_members"])
        case "a read is called a write":
            monkeypatch.setitem(REQUESTS, "get", REQUESTS["set"])
    with pytest.raises(AssertionError, match="get" if "read" in change else "cluster_members"):
        machine.restart()


def test_a_request_that_nobody_thought_of_is_for_the_host_alone(machine, root, monkeypatch):
    agent = machine.agent("somebody")
    monkeypatch.delitem(NEEDED, "get")
    assert "root and the user" in refused(agent.ask, "get", key="k")["message"]
    monkeypatch.delitem(NEEDED, "incr")
    monkeypatch.setattr(agent.machine.node.dispatcher.agents[agent.conn], "everywhere", Right.NONE)
    assert "root and the user" in refused(agent.do, "batch", ops=[["incr", {"key": "k"}]])["message"]
    assert root.ask("get", key="k") is None


# -- what holds by itself ----------------------------------------------------------------------------------------------


def test_the_sockets_owner_and_group_may_do_all_in_every_space_and_nobody_else_anything(machine):
    local, stranger = machine.agent("local"), machine.agent("stranger", user=STRANGER)
    local.ask("space_create", name="team")
    local.set("k", 1, space="team")
    fields = refused(stranger.get, "k")
    assert (fields["who"], fields["right"], fields["space"]) == ("uid:2000", "read", "default")
    assert "no rule gives it any right there" in fields["message"]
    assert local.get("k", space="team") == 1
    assert stranger.ask("space_list")["spaces"] == []
    refused(stranger.ask, "space_create", name="mine")


def test_who_runs_the_node_cannot_be_locked_out(machine, root):
    root.ask("space_create", name="team")
    for space in ("default", "team"):
        revoke(root, "socket", space=space)
    root.set("k", 1, space="team")
    refused(machine.agent("local").get, "k")
    assert root.get("k", space="team") == 1
    grant(root, "socket", "read")
    assert machine.agent("local").get("k") is None


def test_taking_away_the_last_rule_of_a_space_does_not_open_it(machine, root):
    revoke(root, "socket")
    grant(root, "uid:1000", "read")
    revoke(root, "uid:1000")
    refused(machine.agent("local").get, "k")


@pytest.mark.parametrize("name", sorted(name for name, needed in NEEDED.items() if needed.right is Right.HOST))
def test_what_concerns_the_host_is_for_root_and_the_daemons_user_alone(machine, name):
    args = {"level": "debug"} if name == "log_level" else {}
    assert "root and the user" in refused(machine.agent("local").ask, name, **args)["message"]


def test_a_checkpoint_goes_by_the_hand_of_who_made_it_or_may_write_all(machine, root):
    root.do("checkpoint_set", name="roots")
    machine.agent("critic").do("checkpoint_set", name="namesake")  # before anybody has a key of that name
    critic = keyed(root, write="reviews/*")
    other = keyed(root, "other", write="reviews/*")
    master = keyed(root, "master", write="**")
    critic.do("checkpoint_set", name="own")
    critic.do("checkpoint_set", name="unproven", agent="planner")
    assert (
        "all keys, as is needed to delete the checkpoint roots of another"
        in refused(critic.do, "checkpoint_set", name="roots", remove=True)["message"]
    )
    refused(critic.do, "checkpoint_set", name="unproven", remove=True)
    refused(other.do, "checkpoint_set", name="own", remove=True)
    refused(other.do, "batch", ops=[["checkpoint_set", {"name": "own", "remove": True}]])
    assert not critic.do("checkpoint_set", name="absent", remove=True)["existed"]
    assert critic.do("checkpoint_set", name="own", remove=True)["existed"]
    for name in ("roots", "unproven", "namesake"):
        assert master.do("checkpoint_set", name=name, remove=True)["existed"]


def test_an_agent_without_a_key_may_delete_no_checkpoint_unless_it_may_write_all(machine, root):
    grant(root, "uid:2000", "write", "reviews/*")
    stranger = machine.agent("stranger", user=STRANGER)
    stranger.do("checkpoint_set", name="c")  # under a name that every other one may use, too
    refused(stranger.do, "checkpoint_set", name="c", remove=True)
    assert machine.agent("local").do("checkpoint_set", name="c", remove=True)["existed"]


def test_policies_of_checkpoints_are_for_those_who_may_write_all(machine, root):
    critic, master = keyed(root, write="reviews/*"), keyed(root, "master", write="**")
    policy = {"name": "often", "every": 1000, "keep": 3, "prefixes": ["reviews/"]}
    refused(critic.do, "checkpoint_policy", **policy)
    refused(critic.do, "batch", ops=[["checkpoint_policy", policy]])
    master.do("checkpoint_policy", **policy)
    refused(critic.do, "checkpoint_policy", name="often", remove=True)
    assert root.do("checkpoint_policy", name="often", remove=True)["existed"]


# -- rules -------------------------------------------------------------------------------------------------------------


def test_a_right_includes_those_below_it_and_goes_with_the_pattern(machine, root):
    agent = keyed(root, read="plan/**", write="plan/*/notes", admin="own/**")
    root.set("plan/a", 1)
    assert agent.get("plan/a") == 1
    agent.set("plan/a/notes", 2)
    assert agent.get("plan/a/notes") == 2
    refused(agent.set, "plan/a", 3)
    refused(agent.get, "other")
    agent.do("schema_set", pattern="own/*", policy="max")
    refused(agent.do, "schema_set", pattern="plan/**", policy="max")
    refused(agent.do, "schema_set", pattern="**", policy="max")
    grant(agent, "uid:7", "write", "own/x/*")
    refused(grant, agent, "uid:7", "read", "plan/**")
    fields = refused(agent.delete, "plan/a")
    assert "the rules for it there say: admin own/**, read plan/**, write plan/*/notes" in fields["message"]
    assert "crdtsync access grant agent:critic write 'plan/a' --space default" in fields["message"]


def test_a_refusal_names_the_narrowest_rule_that_would_help(root):
    agent = keyed(root)
    declared = refused(agent.do, "schema_set", pattern="x/*", policy="max")["message"]
    assert "grant agent:critic admin 'x/*' --space default" in declared
    card = refused(agent.ask, "show", key="presence/7f3a", value=pack(1))["message"]  # the next one has another key
    assert "grant agent:critic write 'presence/**' --space default" in card


def test_a_refusal_of_a_batch_names_the_rule_for_all_such_keys_too(root):
    """A batch writes many keys, and what its author needs is seldom this one alone."""
    agent = keyed(root)
    told = refused(agent.do, "batch", ops=[["set", {"key": "graphs/a/1", "value": pack(1)}]])["message"]
    assert "write 'graphs/a/1' --space default (or 'graphs/**', for all keys that begin like this one)" in told
    for key in ("k", "_schema/x"):
        assert "(or " not in refused(agent.do, "batch", ops=[["set", {"key": key, "value": pack(1)}]])["message"]


@pytest.mark.parametrize("right, left", [("read", None), ("write", "read"), ("admin", "write")])
def test_taking_away_a_right_takes_those_above_it(root, right, left):
    grant(root, "uid:5", "admin", "p/*")
    assert revoke(root, "uid:5", "p/*", right=right)["right"] == left
    assert revoke(root, "uid:5", "p/*", right=right)["changed"] is False
    assert grant(root, "uid:5", "read", "p/*")["right"] == (left or "read")


def test_rules_for_a_user_a_group_and_anyone_add_up(machine, root):
    revoke(root, "socket")
    grant(root, "uid:2000", "read", "u")
    grant(root, "gid:20", "read", "g")
    grant(root, "anyone", "read", "a")
    agent = machine.agent("x", user=User(2000, (20,), is_local=False))
    assert [agent.get(key) for key in "uga"] == [None] * 3
    refused(agent.get, "k")
    by_key = keyed(root, read="k")  # a key stands in the place of the user
    assert [by_key.get(key) for key in "ka"] == [None] * 2
    refused(by_key.get, "u")


@pytest.mark.parametrize(
    "args",
    [
        {"who": "nobody"}, {"who": "agent:"}, {"who": "uid:-1"}, {"who": "uid:007"}, {"who": 7},
        {"who": "uid:" + "9" * 5000},
        {"right": "all"}, {"pattern": "_schema/x"}, {"pattern": "x" * 1020}, {"pattern": "a*"}, {"space": "_cluster"},
    ],
    ids=str,
)  # fmt: skip
def test_a_rule_that_makes_no_sense_is_refused(root, args):
    with pytest.raises(Refusal, match="invalid_request"):
        root.ask("access_grant", **{"who": "uid:1", "right": "read", "pattern": "k", **args})


def test_rules_are_listed_to_who_administers_the_space_and_their_own_to_others(machine, root):
    agent = keyed(root, write="a/**")
    grant(root, "uid:9", "read")
    found = [(rule["who"], rule["pattern"], rule["right"], rule["by"]) for rule in root.ask("access_list")["rules"]]
    assert found == [
        ("agent:critic", "a/**", "write", "root"), ("socket", "**", "admin", None), ("uid:9", "**", "read", "root"),
    ]  # fmt: skip
    assert [rule["who"] for rule in agent.ask("access_list", all=True)["rules"]] == ["agent:critic"]


def test_rules_hold_on_every_node_and_over_a_restart(pair, machine, root):
    key = root.ask("agent_create", name="critic")["key"]
    grant(root, "agent:critic", "read", "plan/**")
    revoke(root, "socket")
    pair.sync()
    pair["b"].restart()
    there = pair["b"].agent("critic", key=key)
    assert there.get("plan/goal") is None
    refused(there.get, "other")
    refused(pair["b"].agent("local").get, "plan/goal")


def test_a_rule_whose_commit_failed_never_was(machine, root):
    agent = machine.agent("local")
    root.send("access_revoke", who="socket")
    machine.refuse(NoSpace("full"))
    assert agent.get("k") is None


# -- agents with keys --------------------------------------------------------------------------------------------------


def test_a_key_is_proven_and_only_its_hash_is_kept(machine, root):
    key = root.ask("agent_create", name="critic")["key"]
    name, secret = decode_agent_key(key)
    assert (name, len(secret)) == ("critic", 32)
    entries = machine.node.cluster.replica.entries
    stored = b"".join(entry.value or b"" for name in entries.keys("agent/") for entry in entries.held(name))
    assert len(stored) > 32
    assert secret not in stored
    assert key.encode() not in stored
    for wrong in (encode_agent_key("critic", bytes(32)), encode_agent_key("other", secret)):
        refused(machine.agent, "critic", key=wrong)
    for broken in ("ak1.x", "ak1..critic", "ak1." + "=" * 43 + ".critic", 7, key + "\n"):
        with pytest.raises(Refusal, match=r"invalid_request|not_allowed") as caught:
            machine.agent("critic", key=broken)
        assert str(broken) not in str(caught.value) or broken == 7
    with pytest.raises(Refusal, match="there is an agent critic already"):
        root.ask("agent_create", name="critic")


def test_a_key_that_is_stored_first_may_be_registered_twice_and_is_nobody_elses(machine, root):
    key = new_agent_key("critic")
    for _ in range(2):  # the first reply may have been lost
        assert root.ask("agent_create", **new_agent("critic", key))["key"] is None
    machine.agent("critic", key=key)
    with pytest.raises(Refusal, match="there is an agent critic already"):
        root.ask("agent_create", **new_agent("critic", new_agent_key("critic")))
    for wrong in (b"short", "text", 7):
        with pytest.raises(Refusal, match="invalid_request"):
            root.ask("agent_create", name="other", hash=wrong)


def test_a_name_with_a_key_is_its_own(machine, root):
    before = machine.agent("critic")
    agent = keyed(root, write="**")
    assert before.closed
    refused(machine.agent, "critic")
    local = machine.agent("local")
    refused(local.set, "k", 1, agent="critic")
    refused(local.ask, "space_create", name="x", agent="critic")
    agent.set("k", 1)
    agent.set("k", 2, agent="critic-2")  # a name that is nobody's
    assert agent.ask("entry", key="k")["agent"] == "critic-2"
    refused(local.set, "k", 3, agent="critic")
    refused(local.get, "k", agent="critic")
    assert root.set("k", 3, agent="critic")  # who runs the node could write anything


def test_a_revoked_key_ends_its_connections_at_once_and_a_new_one_is_another(pair, machine, root):
    agent = keyed(root, read="**")
    key = root.ask("agent_create", name="other")["key"]
    pair.sync()
    there = pair["b"].agent("other", key=key)
    root.ask("agent_revoke", name="other")
    assert not there.closed
    pair.sync()
    assert there.closed
    assert root.ask("agent_revoke", name="critic")["ended"] == 1
    assert agent.closed
    assert agent.replies[0][1]["code"] == "not_allowed"
    assert root.ask("agent_create", name="other")["key"] != key
    refused(machine.agent, "other", key=key)
    with pytest.raises(Refusal, match="no agent critic"):
        root.ask("agent_revoke", name="critic")


def test_agents_are_listed_to_the_host_and_themselves(machine, root):
    agent = keyed(root)
    keyed(root, "other")
    assert [(one["name"], one["attached"]) for one in root.ask("agent_list")["agents"]] == [("critic", 1), ("other", 1)]
    assert [one["name"] for one in agent.ask("agent_list")["agents"]] == ["critic"]


# -- nothing gets out another way --------------------------------------------------------------------------------------


def test_what_may_not_be_read_is_neither_listed_nor_counted(machine, root):
    agent = keyed(root, read="open/**")
    for key in ("open/1", "open/2", "secret/1"):
        root.set(key, key)
        machine.agent("rival").set(key, "rival", seen="?")
    root.do("schema_set", pattern="secret/*", policy="max")
    for args in ({}, {"values": True}, {"entries": True}, {"conflicts": True, "entries": True}):
        assert "secret" not in str(agent.ask("scan", **args))
        assert len(agent.ask("scan", **args)["items"]) == 2
    assert "secret" not in str(long(agent, "history", prefix="", limit=100))
    assert (
        len(long(root, "history", prefix="", limit=100)["items"])
        > len(long(agent, "history", prefix="", limit=100)["items"])
        > 0
    )
    assert agent.ask("schemas")["items"] == []
    assert agent.ask("schemas", key="secret/1")["items"] == []
    refused(agent.ask, "scan", prefix="secret/")
    refused(agent.ask, "scan", prefix="_")
    refused(agent.get, "_schema/secret/*")
    refused(agent.ask, "metrics")


def test_an_explanation_names_no_other_key(machine, root):
    agent = keyed(root, read="open/**")
    machine.node.alarms.raise_once(EDIT_SKIPPED, "default", "the text secret/1")
    assert "secret" in str(root.ask("explain", key="open/1"))
    assert "secret" not in str(agent.ask("explain", key="open/1"))
    assert "quarantine" in str(agent.ask("explain", key="open/1"))
    refused(agent.ask, "explain", key="secret/1")


def test_status_shows_no_figures_of_what_may_not_be_read(machine, root):
    agent = keyed(root, read="open/**")
    root.ask("space_create", name="team")
    grant(root, "agent:critic", "read", space="team")
    machine.node.alarms.raise_once(EDIT_SKIPPED, "", "secret/1")
    status = agent.ask("status")
    assert [space["name"] for space in status["spaces"]] == ["team"]
    assert [(one["name"], one["who"]) for one in status["agents"]] == [("critic", "agent:critic")]
    assert (status["alarms"], status["store"], status["counters"], status["limited"]) == ([], {}, {}, True)
    assert "default" not in str([peer["behind"] for peer in status["peers"]])
    assert len(machine.agent("local").ask("status")["spaces"]) == 2
    peer = next(iter(machine.node.sync.peers.values()))
    for wire in list(machine.wires.values()):
        wire.close("the key 'secret/1' cannot be")
    assert "secret" in peer.last_error
    assert "secret" in str(root.ask("status")["peers"])
    assert "secret" in str(root.ask("explain", key="open/1"))
    for operation in ("status", "explain"):
        assert "secret" not in str(agent.ask(operation, key="open/1"))


def test_refusals_say_nothing_of_the_key(machine, root):
    agent = keyed(root, read="open/**")
    root.set("secret", "hidden")
    for operation, args in (
        ("set", {"value": pack(1), "if_absent": True}), ("delete", {}), ("append", {"value": pack(1)}), ("incr", {}),
        ("resolve", {"value": pack(1)}), ("text_compact", {}), ("discard", {"value": pack(1)}),
    ):  # fmt: skip
        there = refused(agent.do, operation, key="secret", **args)
        gone = refused(agent.do, operation, key="absent", **args)
        assert there["message"].replace("secret", "absent") == gone["message"]
        assert there.keys() == {"code", "message", "who", "right", "space"}
    fields = refused(agent.do, "batch", ops=[["set", {"key": "open/1", "value": pack(1)}], ["incr", {"key": "secret"}]])
    assert (fields["index"], fields["op"]) == (0, "set")
    grant(root, "agent:critic", "write", "open/**")
    fields = refused(agent.do, "batch", ops=[["set", {"key": "open/1", "value": pack(1)}], ["incr", {"key": "secret"}]])
    assert (fields["index"], fields["op"]) == (1, "incr")
    assert agent.get("open/1") is None


def test_an_archive_goes_by_the_rules_of_its_space(machine, root):
    agent = keyed(root, read="open/**")
    root.ask("space_create", name="team")
    root.set("k", 1, space="team")
    root.ask("space_drop", name="team")
    with pytest.raises(Refusal, match="unknown_space"):
        agent.get("k", space="team@1")
    assert agent.ask("space_list")["archives"] == []
    grant(root, "agent:critic", "read", "k", space="team")
    assert agent.get("k", space="team@1") == 1
    (archive,) = agent.ask("space_list")["archives"]  # it may export what it may read of it, so it must find it
    assert (archive["name"], archive["entries"], archive["bytes"], archive["unseen"]) == ("team@1", None, None, None)
    assert root.ask("space_list")["archives"][0]["entries"] == 1


def test_the_document_of_another_text_cannot_be_had_by_naming_it(machine, root):
    other = Editor(machine, "secret/text")
    document = other.edit(0, 0, "hidden")["document"]
    agent = keyed(root, write="open/**")
    mine = Editor(machine, "open/text")
    mine.session = agent
    mine.edit(0, 0, "mine")
    mine.append("!")
    with pytest.raises(Refusal, match="invalid_request"):
        agent.do("text_apply", key="open/text", document=document, update=b"\x00\x00")
    assert mine.read() == "mine!"
    mine.compact()
    assert mine.read() == "mine!"


@pytest.mark.parametrize("states", [False, True], ids=["watch", "mirror"])
def test_a_watch_tells_of_no_other_keys(machine, root, states):
    agent = keyed(root, read="open/**")
    whole = machine.agent("local")
    root.set("secret/0", 0)
    after = root.ask("scan")["token"]
    for session, args in ((agent, {}), (agent, {"after": after}), (whole, {})):
        begin(session, "watch", states=states, **args)
    machine.turn()
    root.do("batch", ops=[[op, {"key": key, "value": pack(1)}] for op, key in (("set", "secret/1"), ("set", "open/1"))])
    root.set("secret/2", 2, ttl=5)
    root.do("schema_set", pattern="secret/*", policy="max")
    machine.agent("rival").set("secret/1", 3, seen="?")
    machine.turn()
    assert "open/1" in str(agent.events)
    assert "secret" not in str(agent.events)
    assert "secret/2" in str(whole.events)


@pytest.mark.parametrize("name", ["critic", "Critic", "CRITIC", "\uff43ritic"])
def test_nobody_takes_a_name_that_reads_like_a_proven_one(machine, root, name):
    root.ask("agent_create", name="critic")
    assert "can be used with its key alone" in refused(machine.agent, name)["message"]
    ann = machine.agent("critical")
    assert "can be used with its key alone" in refused(ann.do, "set", key="k", value=pack(1), agent=name)["message"]
