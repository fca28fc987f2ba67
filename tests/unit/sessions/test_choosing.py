"""Parts of a conversation: turns left out, a branch, and a session in short."""

from __future__ import annotations

import pytest

from crdtsync.context import tokenizer
from crdtsync.errors import InvalidRequest
from crdtsync.sessions.conversation import choose
from crdtsync.sessions.conversation.brief import brief
from crdtsync.sessions.conversation.record import (
    ASSISTANT,
    CONTEXT,
    USER,
    Call,
    Compaction,
    Conversation,
    Result,
    Text,
)
from crdtsync.sessions.conversation.show import shown

TALK = Conversation(
    [
        Text(CONTEXT, "rules"),
        Text(USER, "Store the queue somewhere durable."),
        Text(ASSISTANT, "We use Redis, because it is known. It is fast."),
        Call("a", "Read", {"file_path": "/srv/queue.py"}),
        Result("a", "import redis"),
        Text(USER, "Nobody wants to run a server."),
        Compaction("a queue was wanted"),
        Text(ASSISTANT, "Redis is dropped. We decided on SQLite instead of it."),
        Call("b", "exec_command", {"cmd": "sed -n 1,9p docs/queue.md"}),
        Result("b", "text"),
        Call("c", "apply_patch", {"input": "*** Begin Patch\n*** Update File: src/store.py\n+x\n"}),
        Result("c", "ok"),
        Text(USER, "And tests?"),
        Text(ASSISTANT, "The tests of the store are written.\n\nThe crash test is still missing."),
    ]
)


def test_turns_go_whole_and_come_by_their_numbers():
    assert [choose.named(turns) for turns in ([], [3], [3, 4, 6, 5, 9], [1, 3])] == ["", "3", "3-6, 9", "1, 3"]
    assert list(choose.numbers("3-5")) == [3, 4, 5]
    for wrong in ("x", "3-", "", "1-20000"):
        with pytest.raises(InvalidRequest):
            choose.numbers(wrong)


def test_an_excluded_turn_leaves_what_it_summed_up_and_a_branch_ends_where_it_says():
    left = choose.kept(TALK, [2])
    assert [item for item in left.items if not isinstance(item, Compaction)] == [*TALK.items[:5], *TALK.items[12:]]
    assert Compaction("a queue was wanted") in left.items
    assert left.lost["turn 2", "it is excluded"] == 1
    early = choose.kept(TALK, [], 1)
    assert early.items == TALK.items[:5]
    assert early.lost["turn after turn 1", "the branch begins before it"] == 2
    assert choose.kept(TALK, [], 3).items == TALK.items
    for at in (0, 4):
        with pytest.raises(InvalidRequest, match="there is no turn"):
            choose.kept(TALK, [], at)
    text = "\n".join(shown(TALK, None, [2]))
    assert "turn 2 (excluded)" in text
    assert "turn 3 (excluded)" not in text


def test_in_short_it_says_what_was_wanted_decided_given_up_and_left():
    text = brief(TALK, [], 2000, "claude", "show N")
    parts = dict(part.split("\n", 1) for part in text.split("## ")[1:])
    assert parts["Goal"].splitlines()[0] == "- turn 1: Store the queue somewhere durable."
    assert "turn 3: The crash test is still missing." in parts["Where it stands"]
    assert parts["Decisions"].splitlines()[:2] == [
        "- turn 2: We decided on SQLite instead of it.",
        "- turn 1: We use Redis, because it is known.",
    ]
    assert "- turn 2: Redis is dropped." in parts["Rejected"]
    assert "- turn 3: The crash test is still missing." in parts["Open ends"]
    assert parts["Files"].splitlines()[:3] == [
        "- src/store.py (changed, turn 2)",
        "- docs/queue.md (read, turn 2)",
        "- /srv/queue.py (read, turn 1)",
    ]
    assert "turn 2" not in brief(TALK, [2], 2000, "claude", "show N")
    counter = tokenizer("claude")
    for budget in (50, 60, 80, 120, 200):
        assert counter.count(brief(TALK, [], budget, "claude", "show N")) <= budget
