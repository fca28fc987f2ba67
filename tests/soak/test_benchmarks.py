"""300,000 overwrites of 1,000 keys leave nothing behind, a new node has 100,000 keys within ten seconds, and an idle
daemon takes little, as do the MCP servers of 50 coding agents.
"""

from __future__ import annotations

import pytest

from benchmarks import idle, mcp_sessions, new_node, overwrites

pytestmark = [pytest.mark.soak, pytest.mark.timeout(5400)]


async def test_overwrites():
    result = await overwrites.run(overwrites.Options())
    overwrites.show(result)
    assert not result.faults


async def test_a_new_node():
    result = await new_node.run(new_node.Options())
    new_node.show(result)
    assert not result.faults


async def test_an_idle_daemon():
    found = await idle.measure(peers=5, agents=20, seconds=60.0)
    assert found.rss_bytes <= idle.RSS_MB_MAX * 1e6
    assert found.cpu_percent <= idle.CPU_PERCENT_MAX


async def test_fifty_mcp_sessions():
    found = await mcp_sessions.measure(sessions=50, seconds=3600.0, pace_s=mcp_sessions.PACE_S)
    assert found.is_good
