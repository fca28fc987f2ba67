"""300,000 overwrites of 1,000 keys leave nothing behind, and a new node has 100,000 keys within ten seconds."""

from __future__ import annotations

import pytest

from benchmarks import new_node, overwrites

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


async def test_overwrites():
    result = await overwrites.run(overwrites.Options())
    overwrites.show(result)
    assert not result.faults


async def test_a_new_node():
    result = await new_node.run(new_node.Options())
    new_node.show(result)
    assert not result.faults
