"""What ``schema migrate`` passes over."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from crdtsyncd.cli.commands.conflicts.schema_migration import DeclaredSchemas

from crdtsync.client import Entry, Schema


@pytest.mark.parametrize(
    "since, follows",
    [
        ([2, 4_000], True),
        ([2, 6_000], False),
        ([1, 4_000], False),
        *(([2, since], False) for since in (2**62, 2**63 - 1, -(2**62), True, "x", None)),
    ],
)
def test_a_time_that_a_peer_made_up_is_none(since: object, follows: bool) -> None:
    """Then the time of the last declaration counts."""
    fields = {"policy": "lww", "version": 2, "since": since}
    schema = Schema("k", "lww", False, fields, 0, "ann", "n", datetime.fromtimestamp(9, UTC), version=2)
    client: Any = SimpleNamespace(schemas=lambda: [schema])
    entry = Entry("k", "register", 1, None, None, [], "ann", "n", datetime.fromtimestamp(5, UTC), None, None, None)
    assert DeclaredSchemas(client).follows(entry) is follows
