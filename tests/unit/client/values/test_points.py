"""Points of the past as arguments of requests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from crdtsync.client.values.points import point_argument
from crdtsync.errors import InvalidRequest


def test_a_time_is_never_rounded_up_to_one_that_has_not_come():
    at = datetime(2026, 5, 1, 12, 0, 0, 1999, UTC)
    assert point_argument(at) == point_argument(at.replace(microsecond=1000)) == 1_777_636_800_001
    assert point_argument(at.astimezone(timezone(timedelta(hours=2)))) == 1_777_636_800_001


def test_so_long_ago_is_a_time():
    found, then = (int(point_argument(each)) for each in (timedelta(hours=1), datetime.now(UTC) - timedelta(hours=1)))
    assert abs(found - then) < 60_000  # a clock may be put back at any time


def test_tokens_and_checkpoints_go_as_they_are():
    assert [point_argument(word) for word in ("c1.xyz", "checkpoint:x")] == ["c1.xyz", "checkpoint:x"]


@pytest.mark.parametrize("wrong", ["1h", "2026-05-01T12:00", 17, None])
def test_what_is_none_is_refused_with_what_is_taken(wrong):
    taken = "is no point of the past: give a token, checkpoint:NAME, a datetime with its time zone, or a timedelta"
    with pytest.raises(InvalidRequest, match=f"{wrong!r} {taken}"):
        point_argument(wrong)


def test_a_time_without_its_zone_is_refused():
    with pytest.raises(InvalidRequest, match="no time zone"):
        point_argument(datetime(2026, 5, 1))  # noqa: DTZ001  # that is what is wrong with it
