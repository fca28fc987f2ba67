"""The table of the documentation and the exceptions of the library are the same, both ways."""

from __future__ import annotations

import re
from pathlib import Path

from crdtsyncd.cli import errors

from crdtsync.errors import ERRORS_BY_CODE

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "errors.md"
ROW = re.compile(r"\| `(?P<name>\w+)` \| `(?P<code>\w+)` \| (?P<status>\d+) \| (?P<advice>.+) \|")
OWN_ROW = re.compile(r"\| `(?P<code>\w+)` \| (?P<status>\d+|the command's own) \| (?P<advice>.+) \|")


def documented():
    return [match.groupdict() for match in map(ROW.fullmatch, PAGE.read_text().splitlines()) if match]


def test_every_exception_is_documented_as_it_is():
    page = {row["code"]: (row["name"], int(row["status"])) for row in documented()}
    library = {code: (error.__name__, error.exit_status) for code, error in ERRORS_BY_CODE.items()}
    assert page == library


def test_no_exception_is_documented_twice():
    codes = [row["code"] for row in documented()]
    assert sorted(codes) == sorted(set(codes))


def test_the_details_that_the_command_line_prints_are_documented():
    listed = re.search(r"prints such details beside code and message: (.+)\.", PAGE.read_text().replace("\n", " "))
    assert listed is not None
    assert set(re.findall(r"`(\w+)`", listed[1].partition(". ")[0])) == set(errors.DETAILS)


def test_the_statuses_of_the_command_line_are_documented():
    page = {row["code"]: row["status"] for row in map(OWN_ROW.fullmatch, PAGE.read_text().splitlines()) if row}
    assert page == {
        "absent": str(errors.ABSENT),
        "not_all_merged": str(errors.REFUSED),
        "usage": str(errors.USAGE),
        "invalid_value": str(errors.REFUSED),
        "command_failed": "the command's own",
        "internal": str(errors.BUG),
        "file": str(errors.FILE),
    }
