"""Spaces that are not to be named are one row, and nothing else of the figures says what they are called."""

from __future__ import annotations

from typing import Any

import pytest
from crdtsyncd.telemetry.metrics_privacy import UNNAMED, with_names

from crdtsync.wire.limits import is_name

STATUS: dict[str, Any] = {
    "spaces": [
        {"name": name, "keys": keys, "epoch": 3, "digest": "00", "version_vector": {"1": 2}, "checkpoint_age_s": None}
        for name, keys in (("open", 1), ("payroll", 2), ("plans", 4))
    ],
    "peers": [{"name": "b", "behind": {"open": 1, "payroll": 2, "plans": 4}, "ahead": {}}],
}


def test_what_is_not_named_is_summed_up_where_spaces_are_labels():
    shown = with_names(STATUS, lambda name: name == "open")
    assert [(space["name"], space["keys"]) for space in shown["spaces"]] == [("open", 1), (UNNAMED, 6)]
    assert shown["peers"] == [{"name": "b", "behind": {"open": 1, UNNAMED: 6}, "ahead": {}}]
    assert shown["spaces"][1].keys() == {"name", "keys"}
    assert not is_name(UNNAMED)


@pytest.mark.parametrize("is_named, names", [(True, ["open", "payroll", "plans"]), (False, [UNNAMED])])
def test_all_or_none(is_named, names):
    assert [space["name"] for space in with_names(STATUS, lambda _name: is_named)["spaces"]] == names
