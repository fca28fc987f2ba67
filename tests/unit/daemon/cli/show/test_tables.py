"""Figures and tables as people read them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.tables import Column, show_table
from crdtsyncd.wording import ago, byte_size, moment, rfc3339, span

ANSI = re.compile(r"\x1b\[[0-9;]*m")
COLUMNS = (
    Column("NAME", lambda row: row["name"]),
    Column("COUNT", lambda row: f"{row['count']:,}", is_number=True),
    Column("NOTE", lambda row: row.get("note", ""), folds=True),
)


@pytest.mark.parametrize(
    "count, shown",
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (12_345, "12.3 kB"),
        (999_960, "1.0 MB"),
        (5e12, "5.0 TB"),
        (9e15, "9000 TB"),
    ],
)
def test_byte_sizes(count, shown):
    assert byte_size(count) == shown


@pytest.mark.parametrize(
    "seconds, shown",
    [(0, "0s"), (0.9, "0s"), (59, "59s"), (60, "1m"), (61, "1m 1s"), (3600, "1h"), (90_061, "1d 1h"), (-5, "0s")],
)
def test_spans(seconds, shown):
    assert span(seconds) == shown


def test_times():
    noon = datetime(2026, 1, 31, 9, 30, 0, 125_900, UTC)
    assert rfc3339(noon) == "2026-01-31T09:30:00.125Z"
    assert rfc3339(noon.astimezone()) == "2026-01-31T09:30:00.125Z"
    assert moment(noon.timestamp() * 1000) == "2026-01-31T09:30:00.125Z"
    assert [moment(none) for none in (None, 0)] == [None, None]
    assert ago(None) == "never"
    assert ago(rfc3339(datetime.now(UTC) - timedelta(minutes=5, seconds=1))).startswith("5m ")


def test_a_table_without_a_terminal_is_aligned_and_leaves_empty_columns_out(capfd):
    show_table(COLUMNS, [{"name": "long name", "count": 5}, {"name": "b", "count": 12_345}])
    output.flush()
    assert capfd.readouterr().out == "NAME        COUNT\nlong name       5\nb          12,345\n"


def test_what_other_hosts_say_cannot_break_out_of_its_cell(capfd):
    show_table(COLUMNS, [{"name": "a\n\x1b[31mb", "count": 1, "note": "x\r\ty"}])
    output.flush()
    out = capfd.readouterr().out
    assert out.count("\n") == 2
    assert "\x1b" not in out


def test_a_terminal_too_narrow_for_the_table_gets_a_block_for_each_row(capfd, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "12")
    show_table(COLUMNS, [{"name": "alpha", "count": 1}, {"name": "b", "count": 2, "note": "sleeps"}])
    output.flush()
    assert capfd.readouterr().out == "NAME   alpha\nCOUNT  1\n\nNAME   b\nCOUNT  2\nNOTE   sleeps\n"


def test_a_terminal_folds_sentences_and_never_cuts_them(capfd, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    show_table(COLUMNS, [{"name": "alpha", "count": 1, "note": "a sentence that is [longer] than its cell"}])
    lines = [line.rstrip() for line in ANSI.sub("", capfd.readouterr().out).splitlines()]
    assert all(len(line) <= 40 for line in lines)
    assert " ".join(" ".join(line[14:] for line in lines[1:]).split()) == "a sentence that is [longer] than its cell"


def test_without_a_terminal_one_long_sentence_does_not_widen_all_rows(capfd):
    columns = (COLUMNS[2], COLUMNS[0])
    show_table(columns, [{"name": "a", "note": "x" * 500}, {"name": "b", "note": "y"}])
    output.flush()
    head, long, short = capfd.readouterr().out.splitlines()
    assert long == "x" * 500 + "  a", "nothing is cut"
    assert max(len(head), len(short)) < 80


@pytest.mark.parametrize("width, titles", [(60, ["NAME", "COUNT", "NOTE", "SEEN"]), (32, ["NAME", "COUNT", "NOTE"])])
def test_a_narrow_terminal_leaves_out_what_can_be_spared(monkeypatch, capfd, width, titles):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    columns = (*COLUMNS, Column("SEEN", lambda _: "5 minutes ago", spare=1))
    show_table(columns, [{"name": "alpha", "count": 1, "note": "a sentence that is long"}])
    head, *rows = ANSI.sub("", capfd.readouterr().out).splitlines()
    assert head.split() == titles
    assert all(len(row.rstrip()) <= width for row in rows)
