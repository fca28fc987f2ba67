"""Durations: seconds or timedelta in, milliseconds out."""

import datetime as dt
import math

import pytest

from crdtsync.client.values.durations import milliseconds, seconds
from crdtsync.errors import InvalidRequest


@pytest.mark.parametrize(
    "given,expected", [(2, 2.0), (0.5, 0.5), (dt.timedelta(minutes=1), 60.0), (0, 0.0), (math.inf, math.inf)]
)
def test_seconds(given, expected):
    assert seconds(given, "ttl") == expected


@pytest.mark.parametrize("given", [-1, math.nan, True, "10s", None, dt.timedelta(seconds=-1)])
def test_what_is_no_duration_is_refused(given):
    with pytest.raises(InvalidRequest, match="ttl"):
        seconds(given, "ttl")


@pytest.mark.parametrize("given,expected", [(0.0, 0), (0.0001, 1), (1.2344, 1234), (math.inf, 2**53)])
def test_milliseconds_are_whole_and_bounded(given, expected):
    assert milliseconds(given) == expected
