"""How fast something grows, from readings a minute apart."""

from __future__ import annotations

from crdtsyncd.telemetry.commit_histogram import BOUNDS_S, Durations
from crdtsyncd.telemetry.growth_rate import SAMPLE_INTERVAL_S, Growth


def test_growth_is_the_difference_over_the_last_hour():
    growth = Growth()
    growth.note(0.0, 1000)
    assert growth.bytes_per_hour() is None
    for minute in range(1, 121):
        growth.note(minute * SAMPLE_INTERVAL_S, 1000 + (0 if minute < 60 else (minute - 60) * 10))
    assert growth.bytes_per_hour() == 600


def test_readings_that_come_too_early_are_left_out():
    growth = Growth()
    growth.note(0.0, 0)
    growth.note(1.0, 10**9)
    assert growth.bytes_per_hour() is None


def test_nothing_is_said_before_two_minutes_have_passed():
    growth = Growth()
    growth.note(0.0, 0)
    growth.note(61.0, 0)
    assert growth.bytes_per_hour() is None
    growth.note(122.0, 61)
    assert growth.bytes_per_hour() == 1800


def test_a_commit_is_counted_in_the_first_bucket_that_holds_it():
    times = Durations()
    for duration_s in (BOUNDS_S[0], BOUNDS_S[0] * 1.01, BOUNDS_S[-1] * 2):
        times.note(duration_s)
    assert (times.counts[0], times.counts[1], times.counts[-1], sum(times.counts)) == (1, 1, 1, 3)


def test_what_was_filled_at_the_start_says_nothing_of_the_days_to_come():
    """A fresh daemon that is given a lot at once, and then stays as it is."""
    growth = Growth()
    for minute in range(61):
        growth.note(minute * SAMPLE_INTERVAL_S, min(minute, 5) * 10**9)
        if 2 <= minute < 30:
            assert (growth.bytes_per_hour() or 0) > 0
            assert growth.lasting_bytes_per_hour() is None
        if minute >= 30:
            assert growth.lasting_bytes_per_hour() == 0


def test_growth_that_goes_on_is_lasting():
    growth = Growth()
    for minute in range(31):
        growth.note(minute * SAMPLE_INTERVAL_S, minute * 10)
    assert growth.lasting_bytes_per_hour() == 600
