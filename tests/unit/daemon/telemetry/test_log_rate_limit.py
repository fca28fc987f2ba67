"""Strangers who knock do not fill the log, nor hide what else is in it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from crdtsyncd.telemetry import log_rate_limit
from crdtsyncd.telemetry.log_rate_limit import (
    REFUSALS_ALIKE_PER_MINUTE_MAX,
    REFUSALS_PER_MINUTE_MAX,
    LineBounds,
    stranger_refused,
)

Refuse = Callable[..., list[dict[str, object]]]


@pytest.fixture
def now_s() -> list[float]:
    return [1000.0]


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch, now_s: list[float]) -> Refuse:
    """Refuse so many, and get what is logged of it."""
    monkeypatch.setattr(log_rate_limit, "_bounds", LineBounds(REFUSALS_ALIKE_PER_MINUTE_MAX, REFUSALS_PER_MINUTE_MAX))
    monkeypatch.setattr("crdtsyncd.telemetry.log_rate_limit.time", SimpleNamespace(monotonic=lambda: now_s[0]))

    def refused(times: int, host: str = "192.0.2.1", reason: str = "no handshake") -> list[dict[str, object]]:
        logged: list[dict[str, object]] = []
        for port in range(times):
            stranger_refused(lambda event, level="info", **fields: logged.append(fields), f"{host}:{port}", reason)
        return logged

    return refused


def test_of_one_host_and_reason_there_are_a_few_lines_a_minute(refuse: Refuse, now_s: list[float]):
    assert len(refuse(1000)) == REFUSALS_ALIKE_PER_MINUTE_MAX
    (other,) = refuse(1, "192.0.2.2")
    assert other["left_out"] == 1000 - REFUSALS_ALIKE_PER_MINUTE_MAX, "and another one is not lost among them"
    (removed,) = refuse(1, reason="it was removed")
    assert "left_out" not in removed
    now_s[0] += 60.0
    assert len(refuse(1)) == 1


def test_of_many_hosts_there_are_only_so_many(refuse: Refuse, now_s: list[float]):
    lines = [line for number in range(2 * REFUSALS_PER_MINUTE_MAX) for line in refuse(1, f"192.0.2.{number}")]
    assert len(lines) == REFUSALS_PER_MINUTE_MAX
    now_s[0] += 60.0
    (again,) = refuse(1)
    assert again["left_out"] == REFUSALS_PER_MINUTE_MAX
