"""A rule for texts that adapters apply before they write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crdtsync.adapters.redaction import redacted
from crdtsync.errors import InvalidRequest

VALUES = ["a text", b"a text", {"name": "a text"}, ["a text"], {"deep": [{"name": b"a text"}]}]


@pytest.mark.parametrize("value", VALUES, ids=str)
@pytest.mark.parametrize("rule, said", [(lambda _: None, "None"), (lambda text: text.encode(), "b'")])
def test_a_rule_must_return_a_text(rule: Callable[[str], Any], said: str, value: object) -> None:
    """One that forgets to would wipe out every text, unnoticed."""
    with pytest.raises(InvalidRequest, match=f"the rule redact returned {said}.* for a text: it must return a text"):
        redacted(rule, value)


def test_a_rule_must_return_a_text_also_with_its_name() -> None:
    def forgets(text: str) -> Any:
        return None if text.startswith("password: ") else text

    assert redacted(forgets, {"name": "a text"}) == {"name": "a text"}
    with pytest.raises(InvalidRequest, match="the rule redact returned None for a text"):
        redacted(forgets, {"password": "a text"})
