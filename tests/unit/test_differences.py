"""The edits between two texts: always right, small where that is cheap, and bounded in time."""

import random
import time

from hypothesis import given
from hypothesis import strategies as st

from crdtsync import differences
from crdtsync.differences import STEPS_MAX, edits
from tests.examples import examples

texts = st.text(st.sampled_from("ab\né𝄞"), max_size=40) | st.text(max_size=30)


def applied(old, changes):
    for start, end, replacement in reversed(changes):
        old = old[:start] + replacement + old[end:]
    return old


@examples(100)
@given(texts, texts)
def test_the_edits_lead_from_one_to_the_other(old, new):
    changes = edits(old, new)
    assert applied(old, changes) == new
    ends = [position for start, end, _ in changes for position in (start, end)]
    assert ends == sorted(ends)


@examples(100)
@given(texts)
def test_what_is_equal_needs_no_edit(text):
    assert edits(text, text) == []


def test_small_changes_make_small_edits():
    lines = [f"line {number} of the plan\n" for number in range(100)]
    new = [*lines[:10], "one more\n", *lines[10:50], "line 50 of the PLAN\n", *lines[51:90]]
    changes = edits("".join(lines), "".join(new))
    assert applied("".join(lines), changes) == "".join(new)
    assert sum(end - start + len(replacement) for start, end, replacement in changes) < 300


def test_a_word_in_the_middle_is_replaced_alone():
    assert edits("the quick fox", "the slow fox") in ([(4, 9, "slow")], [(4, 7, "slow"), (7, 9, "")])
    assert edits("héllo wörld", "héllo big wörld") == [(6, 6, "big ")]


def test_large_texts_that_share_nothing_take_little_time():
    rng = random.Random(3)
    old = "".join(rng.choice("abcd \n") for _ in range(1_000_000))
    new = "".join(rng.choice("abcd \n") for _ in range(1_000_000))
    began = time.process_time()
    assert applied(old, edits(old, new)) == new
    assert time.process_time() - began < 5


def test_all_blocks_that_differ_share_one_bound(monkeypatch):
    """Each of them by itself may take 11,000 steps."""
    rng = random.Random(3)
    steps = 0
    step = differences._step

    def counted(*arguments):
        nonlocal steps
        steps += 1
        return step(*arguments)

    old = [[f"word {rng.randrange(1000)} " for _ in range(100)] for _ in range(100)]
    new = [[word if number % 4 else word.upper() for number, word in enumerate(line)] for line in old]
    one, other = ("".join("".join(line) + "\nthe same line\n" for line in lines) for lines in (old, new))
    monkeypatch.setattr(differences, "_step", counted)
    assert applied(one, edits(one, other)) == other
    assert STEPS_MAX // 2 < steps < 2 * STEPS_MAX
