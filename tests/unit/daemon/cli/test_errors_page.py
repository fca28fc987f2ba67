"""The page of errors says what the command line prints and returns beside the exceptions of the library."""

from __future__ import annotations

import re
from pathlib import Path

from crdtsyncd.cli import errors

from crdtsync.errors import ERRORS_BY_CODE

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs" / "reference" / "errors.md"


def test_the_details_that_the_command_line_prints_are_documented():
    listed = re.search(r"prints what else the error has: (.+)\.", PAGE.read_text().replace("\n", " "))
    assert listed is not None
    assert set(re.findall(r"`(\w+)`", listed[1].partition(". ")[0])) == set(errors.DETAILS)


def test_every_code_that_a_command_fails_with_is_on_the_page():
    sources = [path.read_text() for path in sorted((ROOT / "daemon/crdtsyncd/cli").rglob("*.py"))]
    codes = {code for source in sources for code in re.findall(r'\bcode="(\w+)"', source)}
    assert {"misfit", "unavailable", "damaged"} <= codes <= {*errors.OWN, *ERRORS_BY_CODE}
