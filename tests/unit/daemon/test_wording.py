"""Figures as people read them."""

from __future__ import annotations

import pytest
from crdtsyncd.wording import clock_skew


@pytest.mark.parametrize(
    "skew_ms,shown",
    [(None, ""), (0, "+0 ms"), (-999, "-999 ms"), (1500, "+1.5 s"), (-90_000, "-1m 30s"), (259_200_000, "+3d")],
)
def test_a_clock_that_was_never_compared_shows_nothing(skew_ms: float | None, shown: str):
    assert clock_skew(skew_ms) == shown
