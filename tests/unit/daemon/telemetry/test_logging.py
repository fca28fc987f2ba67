"""The log: one line an event, whatever is in it."""

from __future__ import annotations

import io
import json
import sys

import pytest
from crdtsyncd.telemetry import event_log


@pytest.fixture(autouse=True)
def _as_before():
    yield
    event_log.configure("info", "auto")


def test_programs_get_json(capsys):
    event_log.configure("info", "auto")
    event_log.log("ready", node="a", listen=["x"], odd=object)
    event = json.loads(capsys.readouterr().err)
    assert (event["event"], event["level"], event["node"], event["listen"]) == ("ready", "info", "a", ["x"])
    assert event["timestamp"].endswith("Z")


def test_people_get_a_line_that_nobody_can_forge(capsys):
    event_log.configure("info", "console")
    event_log.log("peer_refused", level="warning", reason="one\ntwo\x1b[31m", plain="yes")
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert "\x1b" not in printed
    assert "plain='yes'" in printed


@pytest.mark.parametrize("value, coloured", [("", True), ("1", False)])
def test_a_terminal_gets_colours_unless_somebody_wants_none(capsys, monkeypatch, value, coloured):
    monkeypatch.setenv("NO_COLOR", value)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    event_log.configure("info", "auto")
    event_log.log("ready", node="a")
    assert ("\x1b[" in capsys.readouterr().err) == coloured


def test_what_is_below_the_level_is_left_out(capsys):
    event_log.configure("warning", "json")
    event_log.log("quiet")
    assert event_log.set_level("debug") == "warning"
    event_log.log("loud", level="debug")
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["loud"]


def test_a_stream_that_is_gone_stops_nobody(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    stream.close()
    event_log.log("ready")
