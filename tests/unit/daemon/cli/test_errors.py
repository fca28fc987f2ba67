"""However a command fails, it says one sentence and ends with the status that is documented."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest
from crdtsyncd.cli import errors
from crdtsyncd.cli.commands.keys import get

from crdtsync.errors import (
    ERRORS_BY_CODE,
    ClaimHeld,
    DaemonUnavailable,
    NotAllowed,
    QuotaExceeded,
    Refused,
    SchemaMismatch,
    Timeout,
    Unresolved,
)


def ending(error):
    return errors.ending_of(error)


@pytest.mark.parametrize("code", ERRORS_BY_CODE)
def test_every_error_of_the_library_ends_with_its_own_status(code):
    error = ERRORS_BY_CODE[code]("what and why")
    assert ending(error) == errors.Ending(error.exit_status, code, "what and why")


@pytest.mark.parametrize(
    "error, status",
    [
        (DaemonUnavailable("x"), 3),
        (Refused("x", "of_a_newer_daemon"), 4),
        (Timeout("x"), 5),
        (Unresolved("x"), 6),
        (errors.absent("x"), 1),
        (errors.refused_value("x"), 4),
        (click.UsageError("x"), 2),
        (click.FileError("x", "y"), 2),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
        (BrokenPipeError(), 141),
        (OSError(28, "No space left on device"), 74),
        (ZeroDivisionError("x"), 70),
        (RecursionError(), 70),
    ],
)
def test_statuses(error, status):
    assert ending(error).status == status


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort(), BrokenPipeError()])
def test_who_went_away_is_told_nothing(error, capfd):
    errors.report(error, as_json=True)
    assert capfd.readouterr() == ("", "")


def test_programs_are_told_which_right_is_missing_and_when_there_is_room_again():
    late = QuotaExceeded("slower", quota="requests_per_s", limit=5, who="uid:7", retry_ms=120)
    assert ending(late).details == {"quota": "requests_per_s", "limit": 5, "who": "uid:7", "retry_ms": 120}
    assert (late.retry_ms, late.quota, late.limit) == (120, "requests_per_s", 5)
    assert QuotaExceeded("too many spaces").retry_ms is None
    refused = NotAllowed("no", who="uid:7", right="read", space="team")
    assert ending(refused).details == {"who": "uid:7", "right": "read", "space": "team"}
    assert (refused.who, refused.right, refused.space) == ("uid:7", "read", "team")


def test_programs_are_told_which_rule_of_which_schema_and_who_holds_a_claim():
    misfit = SchemaMismatch("no", rule="type", pattern="plan/*", path="$.title")
    assert ending(misfit).details == {"rule": "type", "pattern": "plan/*", "path": "$.title"}
    held = ClaimHeld("no", key="deploy", agent="ann", node="host-a", fence=7)
    assert ending(held).details == {"key": "deploy", "agent": "ann", "node": "host-a", "fence": 7}
    promised = ClaimHeld("no", key="deploy", agent="ann", left_ms=900)
    assert ending(promised).details == {"key": "deploy", "agent": "ann", "left_ms": 900}


def test_a_write_that_was_done_before_the_timeout_is_named():
    message = ending(Timeout("1 of 3 nodes hold it", token="c1.abc", held_by=["host-a"])).message
    assert message == "1 of 3 nodes hold it; the write itself is done, its token is c1.abc"


def test_a_message_is_one_line_on_stderr(capfd):
    errors.report(Refused("first\n  second."), as_json=False)
    assert capfd.readouterr() == ("", "crdtsync: first second\n")


def test_json_errors(capfd):
    errors.report(Refused('say "ä"', "odd"), as_json=True)
    assert capfd.readouterr() == ("", '{"error": {"code": "odd", "message": "say \\"ä\\""}}\n')


def test_a_bug_is_admitted_without_a_traceback(crdtsync, monkeypatch):
    monkeypatch.setattr(get, "connect", lambda _: 1 // 0)
    result = crdtsync("get", "key")
    assert result.status == 70
    assert result.err.count("\n") == 1
    assert "This is a bug in crdtsync (ZeroDivisionError: integer division or modulo by zero)" in result.err


def test_a_bug_shows_its_traceback_on_demand(crdtsync, monkeypatch):
    monkeypatch.setattr(get, "connect", lambda _: 1 // 0)
    monkeypatch.setenv("CRDTSYNC_DEBUG", "1")
    assert "Traceback" in crdtsync("get", "key").err


def test_no_daemon(crdtsync):
    result = crdtsync("get", "key")
    assert (result.status, result.out) == (3, "")
    assert "no daemon answers on" in result.err


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["get"], "Missing argument 'KEY'; see crdtsync get --help"),
        (["xyzzy"], "there is no command 'xyzzy'; see crdtsync --help"),
        (["stats"], "did you mean status"),
        (["put", "key", "1"], "there is no command 'put' (that is crdtsync set)"),
        (["keys"], "there is no command 'keys' (that is crdtsync ls)"),
        (["rm", "key"], "there is no command 'rm' (that is crdtsync del)"),
        (["help"], "that is crdtsync --help, crdtsync COMMAND --help"),
        (["version"], "that is crdtsync --version"),
        (["schema", "ls"], "there is no command 'ls' (that is crdtsync schema show)"),
        (["service", "logs"], "that is journalctl --unit crdtsyncd"),
        (["space", "ls"], "did you mean list?"),
        (["cluster", "member"], "did you mean members?"),
        (["cluster", "rename"], "there is no command 'rename'; see crdtsync cluster --help"),
        (["discart"], "there is no command 'discart'; see crdtsync --help"),
        (["--space"], "requires an argument"),
        (["ls", "--timeout", "5"], "'5' is not a duration"),
        (
            ["set", "key", "hello"],
            "'hello' is not JSON (expecting value at line 1, column 1): quote it, or use --string",
        ),
        (["set", "key", "1", "--if-absent", "--seen", "v1.x"], "--if-absent and --seen exclude each other"),
        (["set", "key", "1", "--confidence", "2"], "--confidence"),
        (["get", "key", "--raw", "--json"], "--raw prints one value as it is"),
        (["text", "key", "--insert", "0", "x", "--delete", "0", "1"], "one edit at a time"),
        (["update", "key"], "Missing argument"),
        (["import", "file", "--on-conflict", "guess"], "skip"),
        (["ls", "--timeout", "0s"], "'0s' is no time at all: it must be more than 0"),
        (
            ["set", "key", "1", "--ttl", "3257813d"],
            "'3257813d' is too long: at most 281474976710656ms, some 8,926 years",
        ),
        (["cluster", "invite", "--ttl", "9999999d"], "'9999999d' is too long: at most 30d"),
    ],
)
def test_a_wrong_command_line_is_usage(crdtsync, arguments, said):
    result = crdtsync(*arguments)
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert said in result.err
    as_json = crdtsync(*arguments, "--json") if arguments != ["--space"] else crdtsync("--json", *arguments)
    assert json.loads(as_json.err)["error"]["code"] == "usage"


@pytest.mark.parametrize(
    "arguments", [["batch", "/nonesuch"], ["import", "/nonesuch"], ["text", "key", "--set", "/nonesuch"]]
)
def test_a_file_that_cannot_be_opened_is_no_usage(crdtsync, arguments):
    assert crdtsync(*arguments) == (74, "", "crdtsync: /nonesuch: No such file or directory\n")


@pytest.mark.parametrize(
    "value, said", [("NaN", "NaN is not JSON"), ("99999999999999999999", "64 bits"), ('{"a": 1, "a": 2}', "twice")]
)
def test_json_that_no_value_can_hold_is_refused(crdtsync, value, said):
    result = crdtsync("set", "key", value)
    assert result.status == 4
    assert said in result.err


def test_without_a_command_the_help_is_shown(crdtsync):
    result = crdtsync()
    assert (result.status, result.out) == (2, "")
    assert "Usage: crdtsync" in result.err


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_stream_is_no_bug(closed, tmp_path):
    program = [sys.executable, "-m", "crdtsyncd.cli", "--socket", str(tmp_path / "none"), "get", "key"]
    shell = ["sh", "-c", f'exec "$@" {closed}>&-', "sh", *program]
    done = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr


def test_output_to_a_closed_stream_is_an_error():
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "crdtsyncd.cli", "--version"]
    done = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (74, "crdtsync: Bad file descriptor\n")
