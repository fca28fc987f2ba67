"""Five agents on three hosts work within windows of 8,000 tokens; ``./dev bench context`` does 200 steps of it."""

from __future__ import annotations

import pytest

from benchmarks.context import flow
from benchmarks.context.corpora import Text, sources
from tests.harness import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_nobodys_prompt_passes_its_window_and_views_save_most_of_the_bill(cluster: Cluster) -> None:
    texts = list(sources())[:6]
    logs = [Text("a run", "\n".join(f"test_{number} ... {'FAIL' if number == 70 else 'ok'}" for number in range(400)))]
    bill = flow.run(cluster, 30, texts, logs)
    assert bill.exceeded == []
    assert 0 < bill.longest <= flow.WINDOW_TOKENS
    assert bill.with_everything > bill.with_full_windows > bill.with_views
    assert bill.saved_percent > 50, "most steps of so short a flow have little to leave out"
