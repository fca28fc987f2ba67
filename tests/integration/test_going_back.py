"""Checkpoints, restores and undo on real daemons, with hosts that are cut off and killed meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from crdtsync.client import AsyncClient
from crdtsync.errors import InvalidRequest
from tests.harness import Cluster, Daemon, wait_until, wait_until_equal

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


def test_a_restore_while_another_host_is_cut_off_and_writes(pair: Cluster) -> None:
    first, second = pair[0].client("planner"), pair[1].client("critic")
    plan: dict[str, Any] = {f"plan/{n:03}": {"step": n} for n in range(300)}
    for key, value in plan.items():
        first.set(key, value)
    first.append("findings", "x")
    first.set("large", "y" * 100_000)
    first.checkpoint("before", note="critic is let loose", w="all")
    for key in list(plan)[:200]:
        second.delete(key)
    second.set("large", "z")
    second.set("plan/new", 1)
    wait_until_equal(pair)
    pair[0].kill()
    pair[0].start()
    first = pair[0].client("planner")
    wait_until(lambda: first.get("plan/new") == 1, what="the host is back")
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    second.get("plan/new")
    second.set("plan/new", "meanwhile")
    done = first.restore("before")
    assert (len(done.restored), done.removed, done.left) == (201, ["plan/new"], {})
    pair.heal()
    wait_until_equal(pair)
    for state in (first, pair[1].client("reader")):
        assert state.get("plan/new") == "meanwhile"  # nobody who restored had seen it
        assert dict(state.items("plan/", limit=300)) == plan
        assert (state.log("findings"), state.get("large")) == (["x"], "y" * 100_000)
        assert [each.key for each in state.diff("before")] == ["plan/new"]
        assert state.get("plan/new", at="checkpoint:before") is None


async def test_both_clients_read_the_past_and_write_nothing_there(daemon: Daemon) -> None:
    async with AsyncClient(daemon.socket, agent="planner") as state:
        await state.set("k", 1)
        token = await state.now()
        await state.set("k", 2)
        past = state.session(at=token)
        assert (await state.get("k", at=token), await past.get("k")) == (1, 1)
        assert await past.items() == [("k", 1)]
        with pytest.raises(InvalidRequest, match="reads the past"):
            await past.set("k", 3)
        await state.set("k", 4)  # what was read of the past does not count as read
        assert (await state.entry("k")).siblings == []  # type: ignore[union-attr]
        done = await state.undo("planner", token)
        assert (done.restored, await state.get("k")) == (["k"], 1)
