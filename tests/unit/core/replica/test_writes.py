"""What a write supersedes: exactly what its author had seen. Each scenario reads as what happens."""

from __future__ import annotations

import pytest

from crdtsync.wire import limits
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.limits import CHANGE_OPS_MAX, KEY_SIBLINGS_MAX, NAMED_DOTS_MAX, VALUE_BYTES_MAX
from tests.fleet.agent import Refusal
from tests.fleet.transcript import play

SCENARIOS = {
    "a blind write replaces the winner, as a plain SET would, and says what it was": """
        ann@a set k 1
        bob@a set k 2              -> replaced 1
        bob@a get k                -> 2
        """,
    "a session that never reads never makes siblings": """
        ann@a set k 1
        ann@a set k 2              -> replaced 1
        bob@a set k 3              -> replaced 2
        ann@a set k 4              -> replaced 3
        ann@a peek k               -> 4
        """,
    "after a read, a write supersedes what was read": """
        ann@a set k 1
        bob@a get k                -> 1
        bob@a set k 2              -> ok
        ann@a peek k               -> 2
        """,
    "no lost update between two agents of one host": """
        ann@a set k 0
        ann@a get k                -> 0
        bob@a get k                -> 0
        ann@a set k 1              -> ok
        bob@a set k 2              -> siblings 1      # bob had not seen 1
        cat@a peek k               -> 1 2
        cat@a get k                -> 2 +1
        """,
    "one's own write takes the place of what was read": """
        ann@a get k                -> absent
        ann@a set k 1              -> ok
        ann@a set k 2              -> ok
        ann@a set k 3              -> ok
        ann@a peek k               -> 3
        """,
    "whoever read absence supersedes nothing": """
        ann@a get k                -> absent
        bob@a set k 1              -> ok
        ann@a set k 2              -> siblings 1
        """,
    "read long ago: supersedes nothing, so it may make a sibling": """
        ann@a set k 1
        ann@a set k 2 "?"          -> siblings 1
        ann@a peek k               -> 1 2
        """,
    "a get covers the winner alone: the other siblings stay": """
        ann@a set k 1
        bob@a set k 2 "?"
        cat@a get k                -> 2 +1
        cat@a set k 3              -> siblings 1
        cat@a peek k               -> 1 3
        """,
    "an entry covers all siblings: that is how a conflict is resolved": """
        ann@a set k 1
        bob@a set k 2 "?"
        cat@a all k                -> 1 2
        cat@a set k 3              -> ok
        cat@a peek k               -> 3
        """,
    "a blind write replaces the winner and leaves the siblings": """
        ann@a set k 1
        bob@a set k 2 "?"
        cat@a set k 3              -> replaced 2, siblings 1
        cat@a peek k               -> 1 3
        """,
    "two hosts write at once: both values survive": """
        ann@a set k 1
        a <-> b
        a | b
        ann@a get k
        bob@b get k
        ann@a set k 2
        bob@b set k 3
        a <-> b
        ann@a peek k               -> 2 3
        bob@b peek k               -> 2 3
        """,
    "a concurrent write survives a delete": """
        ann@a set k 1
        a <-> b
        a | b
        ann@a delete k             -> existed
        bob@b get k                -> 1
        bob@b set k 2              -> ok
        a <-> b
        ann@a peek k               -> 2
        """,
    "a delete covers all siblings that were alive at the read, also those that get did not hand over": """
        ann@a set k 1
        bob@a set k 2 "?"
        cat@a get k                -> 2 +1
        dan@a set k 3 "?"
        cat@a delete k             -> existed
        cat@a peek k               -> 3
        """,
    "a delete by one who never read covers all that is alive": """
        ann@a set k 1
        bob@a set k 2 "?"
        cat@a delete k             -> existed
        cat@a peek k               -> absent
        """,
    "after a set, a delete still covers the siblings that were read before": """
        ann@a set k 1
        bob@a set k 2 "?"
        cat@a get k                -> 2 +1
        cat@a set k 3              -> siblings 1
        cat@a delete k             -> existed
        cat@a peek k               -> absent
        """,
    "a delete of nothing": """
        ann@a delete k             -> nothing there
        """,
    "a session moves to a host that does not have yet what it read": """
        ann@a set k 1
        ann@a get k                -> 1
        ann@b set k 2              -> behind
        bob@b peek k               -> 2
        a <-> b                                       # what was cut off comes back as a sibling
        bob@b peek k               -> 1 2
        """,
    "strict: rather wait than be behind": """
        ann@a set k 1
        ann@a get k                -> 1
        ann@b set k 2 strict       -> waits
        bob@b peek k               -> absent
        a <-> b
        ann@b outcome              -> done
        bob@b peek k               -> 2
        """,
    "strict: when time runs out there is no effect": """
        ann@a set k 1
        ann@a get k                -> 1
        ann@b set k 2 strict       -> waits
        +6s
        ann@b outcome              -> timeout
        a <-> b
        bob@b peek k               -> 1
        """,
    "a condition on a version holds": """
        ann@a set k 1
        ann@a get k
        ann@a set k 2 if_version   -> ok
        ann@a peek k               -> 2
        """,
    "a condition on a version does not hold": """
        ann@a set k 1
        ann@a get k
        bob@a set k 2
        ann@a set k 3 if_version   -> version_mismatch
        ann@a peek k               -> 2
        """,
    "a condition on a version that is not here yet waits": """
        ann@a set k 1
        ann@a get k
        ann@b set k 2 if_version   -> waits
        a <-> b
        ann@b outcome              -> done
        bob@b peek k               -> 2
        """,
    "a condition on absence": """
        ann@a set k 1 if_absent    -> ok
        ann@a set k 2 if_absent    -> version_mismatch
        ann@a delete k
        ann@a set k 3 if_absent    -> ok
        ann@a peek k               -> 3
        """,
    "a key has the kind that it was first written with": """
        ann@a append l 1
        ann@a set l 2              -> kind_mismatch
        ann@a set k 1
        ann@a append k 2           -> kind_mismatch
        ann@a trim k 0             -> kind_mismatch
        ann@a delete k
        ann@a append k 2           -> length 1
        """,
    "first writes of two kinds at once are a conflict like any other": """
        ann@a append k 1
        bob@b set k 2
        a <-> b
        ann@a peek k               -> 2 [1]
        bob@b peek k               -> 2 [1]
        """,
    "appends all stay, in order": """
        ann@a append l 1           -> length 1
        bob@a append l 2           -> length 2
        ann@a append l 3           -> length 3
        ann@a get l                -> [1 2 3]
        """,
    "appends of two hosts all stay, causally ordered": """
        ann@a append l 1
        a <-> b
        bob@b append l 2
        a <-> b
        ann@a append l 3
        a <-> b
        ann@a get l                -> [1 2 3]
        bob@b get l                -> [1 2 3]
        """,
    "a trim keeps the newest": """
        ann@a append l 1
        ann@a append l 2
        ann@a append l 3
        ann@a trim l 1             -> removed 2, length 1
        ann@a get l                -> [3]
        ann@a trim l 0             -> removed 1, length 0
        ann@a get l                -> absent
        """,
    "a trim does not touch what it did not see": """
        ann@a append l 1
        a <-> b
        a | b
        bob@b append l 2
        ann@a append l 3
        ann@a trim l 0             -> removed 2, length 0
        a <-> b
        ann@a get l                -> [2]
        """,
    "a trim leaves a sibling of another kind alone": """
        bob@b set k 2
        ann@a append k 1
        +1s
        ann@a append k 3
        a <-> b
        ann@a peek k               -> 2 [1 3]
        ann@a trim k 0             -> removed 2, length 0
        a <-> b
        ann@a peek k               -> 2
        bob@b peek k               -> 2
        """,
    "an expired value is hidden, and the next write clears it away": """
        ann@a set k 1 ttl=1000
        ann@a get k                -> 1
        +2s
        ann@a get k                -> absent
        bob@a set k 2 if_absent    -> ok
        bob@a peek k               -> 2
        """,
    "an expired sibling does not count": """
        ann@a set k 1 ttl=1000
        bob@a set k 2 "?"          -> siblings 1
        +2s
        cat@a get k                -> 2
        cat@a set k 3              -> ok
        """,
    "a batch is one change: its writes see each other": """
        ann@a batch set k 1, set k 2, append l 1, append l 2 -> ok, replaced 1, length 1, length 2
        ann@a peek k               -> 2
        ann@a get l                -> [1 2]
        """,
    "a trim in a batch takes what the batch appended": """
        ann@a batch append l 1, append l 2, append l 3, trim l 1 -> length 1, length 2, length 3, removed 2, length 1
        ann@a get l                -> [3]
        ann@a batch append l 4, trim l 0 -> length 2, removed 2, length 0
        ann@a get l                -> absent
        """,
    "in a batch, who says to have seen nothing supersedes nothing, not even the batch's own": """
        ann@a batch set k 1, set k 2 "?" -> ok, siblings 1
        ann@a peek k               -> 1 2
        """,
    "a batch with one false condition does nothing": """
        ann@a set k 1
        ann@a batch set j 5, set k 2 if_absent -> version_mismatch
        ann@a peek j               -> absent
        """,
    "a batch deletes and writes again": """
        ann@a set k 1
        ann@a batch delete k, set k 2 if_absent -> existed, ok
        ann@a peek k               -> 2
        """,
}


@pytest.mark.parametrize("transcript", [pytest.param(text, id=what) for what, text in SCENARIOS.items()])
def test_scenario(transcript):
    play(transcript)


def test_the_transcripts_can_fail():
    with pytest.raises(AssertionError, match=r"line 2: .*\n  came out as: 1"):
        play("ann@a set k 1\n ann@a get k -> 2", "a")
    with pytest.raises(AssertionError, match="came out as: kind_mismatch"):
        play("ann@a append k 1\n ann@a set k 2", "a")


# -- bounds ------------------------------------------------------------------------------------------------------------


def test_merging_takes_no_sibling_along(apart):
    agents = {name: apart[name].agent() for name in "ab"}
    for agent in agents.values():
        for i in range(KEY_SIBLINGS_MAX):
            agent.set("k", f"{agent.machine.name}{i}", seen="?")
    apart.link("a", "b")
    apart.run(3)
    assert len(agents["a"].values("k")) == 2 * KEY_SIBLINGS_MAX
    entry = agents["a"].ask("entry", key="k")
    agents["a"].set("k", "resolved", seen=entry["version"])
    apart.run(3)
    assert agents["b"].values("k") == ["resolved"]


def test_a_version_of_very_many_siblings_covers_no_more_than_was_handed_over(apart, monkeypatch):
    """With more siblings than a version lists: a delete covers all of them, whoever was shown the winner alone."""
    monkeypatch.setattr(limits, "KEY_SIBLINGS_MAX", NAMED_DOTS_MAX)  # as versions before this one have it
    agents = {name: apart[name].agent() for name in "ab"}
    for agent in agents.values():
        for i in range(NAMED_DOTS_MAX):
            agent.set("k", f"{agent.machine.name}{i}", seen="?")
    apart.link("a", "b")
    apart.run(3)
    assert len(agents["a"].values("k")) == 2 * NAMED_DOTS_MAX
    assert agents["a"].delete("k", seen=agents["a"].version("k"))["existed"]
    assert agents["a"].values("k") == []


def test_a_log_of_many_elements_is_deleted_in_few_bytes(pair):
    ann, bob = pair["a"].agent(), pair["b"].agent()
    for i in range(200):
        ann.append("log", i)
    pair.run(2)
    late = bob.append("other", 1)
    request = ann.write("delete", key="log")
    rows = pair["a"].turn().persist.changes
    assert ann.result(request)["existed"]
    assert [len(row.body) < 200 for row in rows] == [True]
    pair.run(2)
    assert bob.get("log") is None
    assert late["token"]


@pytest.mark.parametrize(
    "operation, args, code",
    [
        ("set", {"key": "k"}, "invalid_request"),
        ("set", {"key": "", "value": pack(1)}, "invalid_request"),
        ("set", {"key": "_secret", "value": pack(1)}, "invalid_request"),
        ("set", {"key": "a\nb", "value": pack(1)}, "invalid_request"),
        ("set", {"key": 5, "value": pack(1)}, "invalid_request"),
        ("set", {"key": "k", "value": b"\xc1"}, "invalid_value"),
        ("set", {"key": "k", "value": pack(1) + b"\0"}, "invalid_value"),
        ("set", {"key": "k", "value": pack(float("nan"))}, "invalid_value"),
        ("set", {"key": "k", "value": pack({1: 2})}, "invalid_value"),
        ("set", {"key": "k", "value": pack(bytes(VALUE_BYTES_MAX))}, "too_large"),
        ("set", {"key": "k", "value": pack(1), "ttl": 0}, "invalid_request"),
        ("set", {"key": "k", "value": pack(1), "ttl": 1.5}, "invalid_request"),
        ("set", {"key": "k", "value": pack(1), "ttl": True}, "invalid_request"),
        ("set", {"key": "k", "value": pack(1), "confidence": 1.5}, "invalid_request"),
        ("set", {"key": "k", "value": pack(1), "confidence": "high"}, "invalid_request"),
        ("set", {"key": "k", "value": pack(1), "seen": "v1.garbage"}, "invalid_request"),
        ("set", {"key": "k", "value": pack(1), "seen": 7}, "invalid_request"),
        ("set", {"key": "k", "value": pack(1), "if_version": "?"}, "invalid_request"),
        ("append", {"key": "k"}, "invalid_request"),
        ("trim", {"key": "k"}, "invalid_request"),
        ("trim", {"key": "k", "keep": -1}, "invalid_request"),
        ("trim", {"key": "k", "keep": 1.0}, "invalid_request"),
        ("text_apply", {"key": "k"}, "invalid_request"),
        ("text_apply", {"key": "k", "update": b"\xff"}, "invalid_value"),
        ("text_apply", {"key": "k", "update": b"\0\0", "document": "x"}, "invalid_request"),
        ("batch", {"ops": []}, "invalid_request"),
        ("batch", {"ops": [["batch", {"ops": []}]]}, "invalid_request"),
        ("batch", {"ops": [["get", {"key": "k"}]]}, "invalid_request"),
        ("batch", {"ops": [["set"]]}, "invalid_request"),
        ("batch", {"ops": "set"}, "invalid_request"),
        ("batch", {"ops": [["set", {"key": "k", "value": pack(1)}]] * (CHANGE_OPS_MAX + 1)}, "too_large"),
    ],
)
def test_what_is_refused_says_why_and_has_no_effect(node, operation, args, code):
    agent = node.agent()
    before = node.replica.vector.copy()
    with pytest.raises(Refusal) as refusal:
        agent.do(operation, **args)
    assert refusal.value.code == code
    assert node.replica.vector == before
    assert not node.store.log(1, 0, 10**6, 10)
    assert agent.set("k", "still works")["token"]


def test_a_batch_never_makes_a_change_that_others_refuse(node):
    """Trims in a batch may take two operations each; what is over the limit must be refused here, not there."""
    agent = node.agent()
    agent.append("l", 0)
    ops = [["append", {"key": "l", "value": pack(i)}] for i in range(600)]
    ops += [["trim", {"key": "l", "keep": 600 - i}] for i in range(400)]
    request = agent.write("batch", ops=ops)
    node.turn()
    status, content = agent.replies[request]
    assert status == 0 or content["code"] == "too_large"
    for row in node.store.log(1, 0, 10**9, 100):
        node.replica.codec.decode(row.body)


def test_the_largest_value_and_its_attributes(pair):
    ann, bob = pair["a"].agent(), pair["b"].agent()
    value = bytes(VALUE_BYTES_MAX - 5)
    ann.set("k", value, ttl=60_000, confidence=0.5, meta=pack({"source": "test"}))
    pair.run(2)
    entry = bob.ask("entry", key="k")
    assert unpack(entry["value"]) == value
    assert (entry["ttl"], entry["confidence"], unpack(entry["meta"])) == (60_000, 0.5, {"source": "test"})
    assert (entry["agent"], entry["node"]) == ("agent", "a")


def test_a_retry_is_not_a_second_write(node):
    agent = node.agent()
    first = agent.append("l", 1)
    again = agent.ask("append", key="l", value=pack(1), n=agent.number, again=True)
    assert again["token"] == first["token"]
    assert agent.get("l") == [1]


def test_a_retry_of_what_was_never_done_is_done(node):
    agent = node.agent()
    agent.ask("append", key="l", value=pack(1), n=77, again=True)
    assert agent.get("l") == [1]


def test_a_retry_after_a_restart_is_not_a_second_write(node):
    agent = node.agent()
    first = agent.append("l", 1)
    client = agent.client
    node.restart()
    from tests.fleet.agent import Agent

    later = Agent(node, "agent", client)
    again = later.ask("append", key="l", value=pack(1), n=1, again=True)
    assert again["token"] == first["token"]
    assert later.get("l") == [1]
