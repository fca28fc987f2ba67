"""The log: one line an event, whatever is in it."""

from __future__ import annotations

import io
import json
import sys

import pytest
from crdtsyncd import telemetry


@pytest.fixture(autouse=True)
def _as_before():
    yield
    telemetry.configure("info", "auto")


def test_programs_get_json(capsys):
    telemetry.configure("info", "auto")
    telemetry.log("ready", node="a", listen=["x"], odd=object)
    event = json.loads(capsys.readouterr().err)
    assert (event["event"], event["level"], event["node"], event["listen"]) == ("ready", "info", "a", ["x"])
    assert event["timestamp"].endswith("Z")


def test_people_get_a_line_that_nobody_can_forge(capsys):
    telemetry.configure("info", "console")
    telemetry.log("peer_refused", level="warning", reason="one\ntwo\x1b[31m", plain="yes")
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert "\x1b" not in printed
    assert "plain='yes'" in printed


def test_what_is_below_the_level_is_left_out(capsys):
    telemetry.configure("warning", "json")
    telemetry.log("quiet")
    assert telemetry.set_level("debug") == "warning"
    telemetry.log("loud", level="debug")
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["loud"]


def test_a_stream_that_is_gone_stops_nobody(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    stream.close()
    telemetry.log("ready")
