"""Two programs that go on with one flow at once; run by tests/integration/test_crewai.py."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

from crewai.flow.async_feedback.types import PendingFeedbackContext

from crdtsync import Client
from crdtsync.adapters.crewai import CrdtFlowPersistence

SOCKET = os.environ["SOCKET"]


def test_what_another_has_stored_while_this_one_read_stays_beside_it() -> None:
    class Slow(Client):
        def entry(self, key: str, **more: Any) -> Any:
            found = super().entry(key, **more)
            quick.clear_pending_feedback("17")
            quick.save_state("17", "send", {"by": "quick"})
            return found

    with Client(SOCKET, agent="quick") as client, Slow(SOCKET, agent="slow") as another:
        quick, slow = CrdtFlowPersistence(client), CrdtFlowPersistence(another)
        context = PendingFeedbackContext(
            flow_id="17", flow_class="Report", method_name="review", method_output="x", message="?",
            requested_at=datetime(2026, 1, 1, tzinfo=UTC),
        )  # fmt: skip
        quick.save_pending_feedback("17", context, {"by": "both"})
        found = slow.load_pending_feedback("17")
        assert found is not None
        assert found[0] == {"by": "both"}
        slow.save_state("17", "send", {"by": "slow"})
        fates = {past.value["state"]["by"]: past.fate for past in client.history("crewai/flows/17")}
        assert fates == {"both": "replaced", "quick": "live", "slow": "live"}


def test_a_step_replaces_what_its_own_program_has_stored_and_nothing_else() -> None:
    with Client(SOCKET, agent="one") as client, Client(SOCKET, agent="other") as another:
        one, other = CrdtFlowPersistence(client), CrdtFlowPersistence(another)
        one.save_state("18", "step", {"by": "one", "step": 0})
        other.save_state("18", "step", {"by": "other", "step": 0})  # in place of what was there before its first step
        for step in (1, 2):
            for each, name in ((one, "one"), (other, "other")):
                each.save_state("18", "step", {"by": name, "step": step})
        states = [(past.value["state"]["by"], past.fate) for past in client.history("crewai/flows/18")]
        assert sorted(states[:2]) == [("one", "live"), ("other", "live")]
        assert {fate for _, fate in states[2:]} == {"replaced"}
        assert one.load_state("18") is not None
        one.save_state("18", "step", {"by": "one", "step": 3})  # it has loaded both
        assert [past.fate for past in client.history("crewai/flows/18")].count("live") == 1
