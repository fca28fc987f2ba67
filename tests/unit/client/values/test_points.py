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


@pytest.mark.parametrize("wrong", [datetime(2026, 5, 1), 17, None])  # noqa: DTZ001  # that is what is wrong with it
def test_what_is_none_is_refused(wrong):
    with pytest.raises(InvalidRequest):
        point_argument(wrong)
