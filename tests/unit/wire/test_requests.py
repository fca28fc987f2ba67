"""The table of requests, and the page of the protocol that people read."""

from __future__ import annotations

import re
from pathlib import Path

from crdtsync.wire.requests import REQUESTS, WITHOUT_NEED

PAGE = (Path(__file__).parents[3] / "docs/reference/agent-protocol.md").read_text()
ROWS = re.findall(r"^\| `(\w+)` \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", PAGE, re.MULTILINE)


def test_the_page_says_of_every_request_and_of_no_other_what_it_answers():
    assert {name for name, *_ in ROWS} == set(REQUESTS)
    assert [name for name, _, _, said in ROWS if not said.strip()] == []


def test_the_page_says_which_requests_do_not_take_need():
    (said,) = re.findall(r"^- Any request but (.*?) may carry `need`", PAGE, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", said)) == WITHOUT_NEED
