"""A writer whose next numbers may have been used elsewhere is never used again."""

# mypy: disable-error-code="arg-type,dict-item,operator,var-annotated"

from __future__ import annotations

import pytest

from tests.fleet.stranger import Stranger
from tests.unit.core.sync.test_sync import change_of


@pytest.mark.parametrize("writes", [False, True])
def test_a_writer_that_was_not_resumed_once_never_is(node, writes):
    """The disk went back: that this start has left a mark again says nothing about what the old writer had done."""
    node.agent().set("k", 1)
    first = node.replica.writer
    node.store.close()
    for mark in (node.directory / "run").iterdir():
        mark.unlink()
    for _ in range(2):
        node.sessions.clear()
        node.open()
        assert node.replica.writer != first
        if writes:
            node.agent().set("k", 2)
        node.store.close()
    node.open()
    assert node.replica.writer != first
    assert (node.replica.writer is None) is not writes


def test_a_writer_of_which_others_know_more_is_never_used_again(node):
    """It went on somewhere else: what comes next under its name may be taken."""
    ann = node.agent()
    ann.set("k", 1)
    replica = node.replica
    first = replica.writer
    Stranger(node).send(change_of(first, 2, prev_hash=replica.hashes[first]))
    assert replica.vector[first] == 2
    ann.set("k", 2)
    assert replica.writer != first
    assert replica.vector[first] == 2
    node.restart()
    node.agent().set("k", 3)
    assert node.replica.vector[first] == 2
    assert len(node.replica.vector) == 2
