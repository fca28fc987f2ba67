"""Rules that were written on several hosts at once come to the same everywhere."""

from __future__ import annotations

from itertools import product

import pytest

from crdtsync.core.access.records import ACCESS as RULES
from crdtsync.core.access.records import AGENTS, BUILT_IN, NO_RULE, AccessRecord, AgentRecord
from crdtsync.core.access.requirements import Right
from crdtsync.wire.patterns import check_pattern
from tests.fleet.rights import (
    ROOT,
    grant,
    machine,
    pair,
    revoke,
    root,
)

__all__ = ["machine", "pair", "root"]  # the fixtures


STEPS = [NO_RULE.with_right(right, 1, "x") for right in Right if right <= Right.ADMIN]


@pytest.mark.parametrize("one", [*STEPS, BUILT_IN, BUILT_IN.with_right(Right.NONE, 2, "y")])
@pytest.mark.parametrize("other", [*STEPS, BUILT_IN.with_right(Right.READ, 3, "z")])
def test_two_records_of_a_rule_come_to_the_same_either_way(one: AccessRecord, other: AccessRecord):
    merged = RULES.merge(one, other)
    assert merged == RULES.merge(other, one) or (one.time_ms, one.by) == (other.time_ms, other.by)
    assert merged.counts == RULES.merge(other, one).counts
    assert RULES.merge(merged, one).counts == merged.counts
    assert RULES.read(RULES.write(merged)) == merged


def test_taking_away_wins_over_what_left_it_as_it_was_and_two_grants_both_stand():
    held = NO_RULE.with_right(Right.WRITE, 1, "x")
    assert RULES.merge(held.with_right(Right.NONE, 2, "x"), held).right is Right.NONE
    assert RULES.merge(held.with_right(Right.NONE, 2, "x"), held.with_right(Right.ADMIN, 3, "y")).right is Right.NONE
    assert (
        RULES.merge(held.with_right(Right.ADMIN, 2, "x"), NO_RULE.with_right(Right.READ, 2, "y")).right is Right.ADMIN
    )


def test_of_an_agent_made_twice_at_once_both_keys_hold_and_revoking_wins():
    one, other = AgentRecord(1, (b"a" * 32,)), AgentRecord(1, (b"b" * 32,))
    both = AGENTS.merge(one, other)
    assert both == AGENTS.merge(other, one)
    assert both.hashes == (b"a" * 32, b"b" * 32)
    assert not AGENTS.merge(both, AgentRecord(2, ())).exists


def test_of_an_agent_that_was_revoked_and_made_anew_no_key_of_before_comes_back():
    """Whichever record was written last by the clock, and whichever is taken first."""
    for time_ms in (1, 5):
        before, anew = AgentRecord(1, (b"a" * 32,), time_ms), AgentRecord(3, (b"c" * 32,), 3)
        assert AGENTS.merge(before, anew) == AGENTS.merge(anew, before) == anew


def test_a_partition_over_rules_heals_to_the_same_everywhere(pair, machine, root):
    there = pair["b"].agent("root", user=ROOT)
    grant(root, "uid:3000", "write", "a/**")
    pair.sync()
    revoke(root, "uid:3000", "a/**")
    grant(there, "uid:3000", "admin", "a/**")
    grant(there, "uid:3000", "read", "b")
    pair.sync()
    rules = [session.ask("access_list")["rules"] for session in (root, there)]
    assert rules[0] == rules[1]
    assert [(rule["who"], rule["pattern"]) for rule in rules[0]] == [("socket", "**"), ("uid:3000", "b")]


@pytest.mark.parametrize(
    "pattern, other, is_covered",
    [
        ("**", "a/*", True), ("a/**", "a/*", True), ("a/**", "a/**", True), ("a/*", "a/**", False),
        ("a/*", "a/*", True),
        ("a/*", "a/b", True), ("a/b", "a/*", False), ("**/x", "a/**/x", True), ("a/*/c", "a/b/c", True),
        ("*", "**", False),
        ("*/*/a/**", "**/a/a/a", False), ("**/*", "*/**", True),
        ("a/**", "**", False), ("**/*", "**", False), ("*/**", "a/**", True), ("a/**/*", "a/**", False),
    ],
)  # fmt: skip
def test_which_patterns_are_within_others(pattern, other, is_covered):
    assert check_pattern(pattern).covers(check_pattern(other)) is is_covered


def test_no_pattern_is_within_another_that_does_not_match_all_of_its_keys():
    """By rules whose pattern holds another, rights are granted: all pairs of short patterns, against all short keys."""
    patterns = [check_pattern("/".join(p)) for n in range(1, 5) for p in product(("a", "*", "**"), repeat=n)]
    keys = ["/".join(key) for n in range(1, 7) for key in product("ab", repeat=n)]
    matched = {pattern: {key for key in keys if pattern.matches(key)} for pattern in patterns}
    pairs = [(one, other) for one in patterns for other in patterns if one.covers(other)]
    assert [(one.text, other.text) for one, other in pairs if not matched[other] <= matched[one]] == []
    assert len(pairs) > 3000
