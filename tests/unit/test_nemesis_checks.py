"""The judge of the nemesis: an honest record passes, and every lie that it could be told is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.nemesis.checks import CHECKS, violations
from tests.nemesis.history import Final, History, Op, Outcome


def op(name: str, key: str, value: Any = None, result: Any = None, **fields: Any) -> Op:
    outcome: Outcome = fields.pop("outcome", "done")
    made = Op("a0", 1, "a", name, key, value, result, (), outcome, 0.0, 1.0)
    return replace(made, **fields)


def honest() -> History:
    history = History()
    history.ops += [
        op("append", "log", "a0:1"),
        op("append", "log", "a0:2"),
        op("append", "log", "a0:3", outcome="unknown"),
        op("append", "log", "a0:4", outcome="refused"),
        op("add", "tags", "a0:5"),
        op("insert", "notes", "a0:6"),
        op("incr", "spent", 1),
        op("incr", "spent", 1, outcome="unknown"),
        op("set", "own/a0", 1),
        op("get own", "own/a0", None, 1),
        op("set", "own/a0", 2),
        op("get after", "own/a0", 2, 2, host="b"),
        op("merge", "a0", 3),
        op("replace", "shared/1", "a0:7"),
        op("replace", "shared/1", "a0:8", saw=("a0:7",)),
        op("read effect and cause", "answer/a0/b0", None, (1, 2)),
        op("read batch", "batch/b0/", None, [4, 4, 4]),
        op("event", "own/a0", None, 1, agent="watcher-b"),
        op("event", "own/a0", None, 2, agent="watcher-b"),
        op("hold", "deploy", None, 7, began_s=1.0, ended_s=2.0),
        op("hold", "deploy", None, 8, began_s=2.5, ended_s=3.0),
    ]
    return history


def final(host: str) -> Final:
    return Final(
        host=host, digest=("d",), log=["a0:1", "a0:2"], counter=1, members=["a0:5"], fields={"a0": 3}, text="a0:6 \n",
        own={"own/a0": 2}, siblings={"shared/1": ["a0:8"]}, alarms=[],
    )  # fmt: skip


def test_an_honest_record_passes() -> None:
    assert violations(honest(), [final("a"), final("b")]) == []


LIES: dict[str, tuple[list[Op], dict[str, Any]]] = {
    "two holders of a claim": ([op("hold", "deploy", None, 9, began_s=1.5, ended_s=1.6)], {}),
    "a fence that does not grow": ([op("hold", "deploy", None, 8, began_s=4.0, ended_s=5.0)], {}),
    "a lost append": ([], {"log": ["a0:2"]}),
    "an append twice": ([], {"log": ["a0:1", "a0:2", "a0:2"]}),
    "an append of unknown outcome twice": ([], {"log": ["a0:1", "a0:2", "a0:3", "a0:3"]}),
    "a refused append": ([], {"log": ["a0:1", "a0:2", "a0:4"]}),
    "an append of nobody": ([], {"log": ["a0:1", "a0:2", "x"]}),
    "appends in another order": ([], {"log": ["a0:2", "a0:1"]}),
    "a lost element": ([], {"members": []}),
    "a lost word": ([], {"text": "\n"}),
    "too little counted": ([], {"counter": 0}),
    "too much counted": ([], {"counter": 3}),
    "a lost set": ([], {"own": {"own/a0": 1}}),
    "a set of nobody": ([], {"own": {"own/a0": 5}}),
    "a lost field": ([], {"fields": {}}),
    "a value replaced unseen": ([op("replace", "shared/1", "a0:9")], {}),
    "a replaced value that lives": ([], {"siblings": {"shared/1": ["a0:7", "a0:8"]}}),
    "a refused value that lives": (
        [op("replace", "shared/1", "a0:9", outcome="refused")], {"siblings": {"shared/1": ["a0:8", "a0:9"]}},
    ),
    "an agent that does not read its write": ([op("get own", "own/a0", None, 1)], {}),
    "a token that is not kept": ([op("get after", "own/a0", 2, 1, host="b")], {}),
    "a read that goes back": ([op("get", "own/b0", None, 5), op("get", "own/b0", None, 4)], {}),
    "an effect before its cause": ([op("read effect and cause", "answer/a0/b0", None, (2, 1))], {}),
    "a part of a batch": ([op("read batch", "batch/b0/", None, [4, 4, 3])], {}),
    "a watcher that is not told": ([op("event", "own/a0", None, 1, agent="watcher-c")], {}),
    "an alarm of a bug": ([], {"alarms": ["divergence"]}),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_found(lie: str) -> None:
    more, fields = LIES[lie]
    history = honest()
    history.ops += more
    assert violations(history, [replace(final("a"), **fields), replace(final("b"), **fields)])


def test_hosts_that_differ_are_found() -> None:
    assert violations(honest(), [final("a"), replace(final("b"), digest=("e",))])


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_finds_something(check: Callable[..., Any]) -> None:
    found = []
    for more, fields in LIES.values():
        history = honest()
        history.ops += more
        found += list(check(history, [replace(final("a"), **fields), final("b")]))
    assert found
