"""Many agents, some of whom never read; ``./dev load`` does it with 1,000."""

from __future__ import annotations

import pytest

from tests.load.run import Scale, run

pytestmark = pytest.mark.integration


def test_others_are_served_and_memory_stays_within_its_bound() -> None:
    report = run(Scale(agents=200, silent=40, peers=1, spaces=30, large=6, samples=25))
    assert not report.found, "\n".join([*report.lines, *report.found])
    assert len(report.lines) == 6, report.lines
