"""The page of errors says what the command line prints and returns beside the exceptions of the library."""

from __future__ import annotations

import re
from pathlib import Path

from crdtsyncd.cli import errors

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "errors.md"
OWN_ROW = re.compile(r"\| `(?P<code>\w+)` \| (?P<status>\d+|the command's own) \| (?P<advice>.+) \|")


def test_the_details_that_the_command_line_prints_are_documented():
    listed = re.search(r"prints what else the error has: (.+)\.", PAGE.read_text().replace("\n", " "))
    assert listed is not None
    assert set(re.findall(r"`(\w+)`", listed[1].partition(". ")[0])) == set(errors.DETAILS)


def test_the_statuses_of_the_command_line_are_documented():
    page = {row["code"]: row["status"] for row in map(OWN_ROW.fullmatch, PAGE.read_text().splitlines()) if row}
    assert page == {
        "absent": str(errors.ABSENT),
        "failed": str(errors.ABSENT),
        "misfit": str(errors.ABSENT),
        "not_all_merged": str(errors.REFUSED),
        "usage": str(errors.USAGE),
        "invalid_value": str(errors.REFUSED),
        "command_failed": "the command's own",
        "internal": str(errors.BUG),
        "file": str(errors.FILE),
    }
