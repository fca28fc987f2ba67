"""Words of the command line are what they must be, or the message shows the form."""

from __future__ import annotations

import click
import pytest
from crdtsyncd.cli.params import (
    AT,
    CONFIDENCE,
    DURATION,
    HISTORY_CAP,
    KEY,
    NAME,
    NAMED_AT,
    TAKEOVER,
    TTL,
    WRITE_CONCERN,
)


@pytest.mark.parametrize(
    "word, seconds", [("500ms", 0.5), ("30s", 30), ("10m", 600), ("2h", 7200), ("7d", 604800), ("1.5s", 1.5)]
)
def test_durations(word, seconds):
    assert DURATION.convert(word, None, None) == pytest.approx(seconds)


@pytest.mark.parametrize("word", ["", "30", "s", "-5s", "5 s", "5S", "1h30m", "٣s", "1e3s", "infs", "5sec"])
def test_what_is_no_duration(word):
    with pytest.raises(click.BadParameter, match="500ms, 30s, 10m"):
        DURATION.convert(word, None, None)


@pytest.mark.parametrize("word", ["0s", "0.0ms", "0d", 0, -1])
def test_no_time_at_all_is_refused(word):
    with pytest.raises(click.BadParameter, match="more than 0"):
        DURATION.convert(word, None, None)


@pytest.mark.parametrize("word", ["0s", "0d", "before-the-change"])
def test_what_is_no_point_of_the_past_may_be_the_name_of_a_checkpoint(word):
    assert NAMED_AT.convert(word, None, None) == word
    with pytest.raises(click.BadParameter):
        AT.convert(word, None, None)


@pytest.mark.parametrize("kind", [AT, HISTORY_CAP])
def test_a_time_beyond_all_years_is_refused(kind):
    with pytest.raises(click.BadParameter, match="too long: at most"):
        kind.convert("99999999999d", None, None)


def test_the_longest_ttl_is_that_of_the_daemon():
    assert TTL.convert("281474976710656ms", None, None) == pytest.approx((1 << 48) / 1000)
    with pytest.raises(click.BadParameter, match="at most 281474976710656ms"):
        TTL.convert("281474976710657ms", None, None)


@pytest.mark.parametrize("word", ["a", "0", "researcher-1", "a.b_c-d", "x" * 128])
def test_names(word):
    assert NAME.convert(word, None, None) == word


@pytest.mark.parametrize("word", ["", "-a", ".a", "A", "a b", "ä", "a/b", "x" * 129, "a\n"])
def test_what_is_no_name(word):
    with pytest.raises(click.BadParameter, match="1 to 128 of a-z"):
        NAME.convert(word, None, None)


@pytest.mark.parametrize("word, concern", [("1", 1), ("3", 3), ("majority", "majority"), ("all", "all")])
def test_write_concerns(word, concern):
    assert WRITE_CONCERN.convert(word, None, None) == concern


@pytest.mark.parametrize("word", ["0", "-1", "most", "", "1.5", "²"])
def test_what_is_no_write_concern(word):
    with pytest.raises(click.BadParameter, match="majority"):
        WRITE_CONCERN.convert(word, None, None)


def test_bytes_that_are_not_utf8_are_no_key():
    with pytest.raises(click.BadParameter, match="UTF-8"):
        KEY.convert(b"\xff".decode(errors="surrogateescape"), None, None)


@pytest.mark.parametrize("word", ["0", "1", "0.5", "1e-3"])
def test_confidences(word):
    assert CONFIDENCE.convert(word, None, None) == float(word)


@pytest.mark.parametrize("word", ["nan", "-0.1", "1.1", "inf", "high", ""])
def test_what_is_no_confidence(word):
    with pytest.raises(click.BadParameter, match="a number from 0 to 1"):
        CONFIDENCE.convert(word, None, None)


def test_the_longest_takeover_is_that_of_the_daemon():
    assert TAKEOVER.convert("60m", None, None) == 3600
    with pytest.raises(click.BadParameter, match="at most 1h"):
        TAKEOVER.convert("2h", None, None)
