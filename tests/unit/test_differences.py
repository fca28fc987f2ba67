"""The edits between two texts: always right, small where that is cheap, and bounded in time."""

import random
import time

from hypothesis import given
from hypothesis import strategies as st

from crdtsync.differences import edits
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
