"""2,000 tasks, 20 workers on five hosts that are cut off, killed and given wrong clocks: none lost, none done twice
while the hosts of its workers saw each other, and each that crossed is told.

``./dev soak tests/soak/test_tasks.py`` prints seed, figures and what it leaves out; ``SOAK_SEED=5`` gives the same
faults again, and ``SOAK_TASKS`` another size.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.harness.lan import has_namespaces
from tests.nemesis.tasks import Plan, play

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not has_namespaces(), reason="needs root and ip netns"),
]


def test_tasks_are_done_once_under_faults(capsys: pytest.CaptureFixture[str]) -> None:
    seed = int(os.environ.get("SOAK_SEED") or random.SystemRandom().randrange(1_000_000))
    tasks = int(os.environ.get("SOAK_TASKS", "2000"))
    with capsys.disabled():  # also without -s, for what was left out
        print(f"\nseed {seed}")  # noqa: T201  # the seed and the figures
        record, wrong = play(Plan(seed, tasks, seconds=tasks * 0.12), print)
        print("\n".join(record.lines()))  # noqa: T201
    assert not wrong, "\n".join(wrong[:20])
    assert len(record.runs) >= tasks
