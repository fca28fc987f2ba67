"""What a reaction's handler writes says by which reactions it came about."""

from __future__ import annotations

import pytest

from crdtsync.client.session.causes import CAUSES_MAX, VARIABLE, caused_by, causes, causes_of, with_causes


def test_it_is_added_to_what_else_is_said_about_a_value():
    assert with_causes(None) is None
    with caused_by(("analyst", "writer")):
        assert with_causes({"model": "m"}) == {"model": "m", "caused_by": ["analyst", "writer"]}
    assert with_causes({"model": "m"}) == {"model": "m"}


def test_a_command_finds_it_in_its_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, "analyst writer")
    assert causes() == ("analyst", "writer")
    with caused_by(()):
        assert causes() == ()


def test_it_does_not_grow_without_end():
    with caused_by(("r",) * 1000):
        assert len(causes()) == CAUSES_MAX


@pytest.mark.parametrize("meta", [None, {}, "x", {"caused_by": "analyst"}, {"caused_by": [1, None]}])
def test_what_somebody_else_has_put_there_is_no_cause(meta: object):
    assert causes_of(meta) == ()
