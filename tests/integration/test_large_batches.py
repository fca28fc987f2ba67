"""A batch that is done is answered, whatever it replaced."""

import pytest

pytestmark = pytest.mark.integration


def test_a_batch_that_replaces_more_than_a_reply_holds_is_still_answered(daemon):
    large = "x" * 1_000_000
    with daemon.client(agent="first") as first, daemon.client(agent="second") as second:
        for n in range(10):
            first.set(f"k/{n}", large)
        with second.batch() as batch:
            for n in range(10):
                batch.set(f"k/{n}", n)
        assert [value for _, value in second.items("k/")] == list(range(10))
