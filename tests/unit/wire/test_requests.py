"""The table of requests, and the page of the protocol that people read."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from crdtsync.wire.requests import (
    ARGUMENTS,
    READ_ARGUMENTS,
    REQUESTS,
    WITHOUT_NEED,
    WRITE_ARGUMENTS,
    Form,
)

PAGE = (Path(__file__).parents[3] / "docs/reference/agent-protocol.md").read_text()
COMMON = {Form.READ: ARGUMENTS | READ_ARGUMENTS, Form.WRITE: ARGUMENTS | WRITE_ARGUMENTS}


def documented() -> dict[str, set[str]]:
    """The arguments of each request by the page: rows of its tables of operations, and forms such as ``x {"a"}``."""
    found: dict[str, set[str]] = defaultdict(set)
    for table in re.findall(r"^\| operation \| arguments \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE):
        for name, cell in re.findall(r"^\| `(\w+)` \| (.*?) ?\| ", table, re.MULTILINE):
            code = re.findall(r"`([^`]*)`", re.sub(r"\([^()]*\)", "", cell))
            found[name] |= {word for part in code for word in re.findall(r"[a-z_]+", part.split(":")[0])}
    for name, fields in re.findall(r"`(\w+) \{(.*?)\}`", PAGE):
        found[name] |= set(re.findall(r'"(\w+)"', fields))
    return found


def test_the_page_has_every_request_and_no_other():
    assert set(documented()) == set(REQUESTS)


def test_the_page_has_the_arguments_of_every_request_and_no_others():
    found = documented()
    common = {name: COMMON.get(request.form, ARGUMENTS) for name, request in REQUESTS.items()}
    assert {name: found[name] - common[name] for name in REQUESTS} == {
        name: set(request.arguments - common[name]) for name, request in REQUESTS.items()
    }


def test_the_page_says_which_requests_do_not_take_need():
    (said,) = re.findall(r"^- Any request but (.*?) may carry `need`", PAGE, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", said)) == WITHOUT_NEED
