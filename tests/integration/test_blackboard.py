"""The team of the how-to page, on three hosts of which one dies, and with members that die."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness import Cluster, Daemon, wait_until
from tests.harness.shell import Running, Shell
from tests.integration.test_examples import fenced

pytestmark = [pytest.mark.integration, pytest.mark.slow]

REPORT = "Report: " + "; ".join(f"what a model found about {topic}" for topic in ("cost", "risk", "time"))


def test_the_team_makes_its_report_whoever_dies(cluster: Cluster, tmp_path: Path):
    [program] = [code for where, code in fenced("python") if where.startswith("docs/how-to/blackboard.md")]
    (tmp_path / "team.py").write_text(program)
    with ExitStack() as stack:

        def member(role: str, host: Daemon) -> Running:
            environment = os.environ | {"CRDTSYNC_SOCKET": str(host.socket)}
            return stack.enter_context(Running([sys.executable, "team.py", role], environment, tmp_path))

        first, second, third = cluster
        assert member("planner", first).process.wait(60) == 0
        looker = second.client("looker")
        wait_until(lambda: len(looker.tasks("team/")) == 5)
        dying = first.client("researcher").claim("team/research/cost", ttl=5).acquire()
        wait_until(lambda: [claim.key for claim in looker.claims("team/")] == [dying.key])
        member("researcher", second)
        wait_until(lambda: sum(task.state == "done" for task in looker.tasks("team/research/")) == 2)
        first.kill()  # while one of it is at work
        analyst = member("analyst", third)
        writer = member("writer", third)
        wait_until(lambda: {one.role for one in looker.who()} >= {"researcher", "analyst", "writer"})
        wait_until(lambda: [question.context for question in looker.asks()] == [REPORT])
        for one in (analyst, writer):
            one.process.kill()
        assert looker.get("report") is None
        Shell(second.socket, tmp_path).ok("answer", "publish", "yes")
        member("writer", second)
        wait_until(lambda: all(task.state == "done" for task in looker.tasks("team/")))
        first.start()
        back = first.client("looker")
        wait_until(lambda: back.get("report") == REPORT)
        assert [task.crossed for task in back.tasks("team/")] == [()] * 5
