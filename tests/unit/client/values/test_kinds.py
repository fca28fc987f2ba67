"""The client's table of kinds, against the rules of the core, which it must not import."""

from __future__ import annotations

from crdtsync.client import Client
from crdtsync.client.values.kinds import KINDS
from crdtsync.core.kinds import registry
from crdtsync.core.kinds.operations import Tells
from crdtsync.core.kinds.values import kind_name

RULES = {kind_name(kind): rules for kind, rules in registry.KINDS.items()}


def test_every_kind_is_known():
    assert {*KINDS} == {*RULES}


def test_what_tells_a_part_is_what_the_core_tells_as_one():
    for name, kind in KINDS.items():
        writes = (RULES[name].written, *RULES[name].written_to.values())
        parts = {one.name for one in writes if one.tells in (Tells.PART, Tells.RESULT)}
        assert {*kind.parts} == (parts if kind.is_read_by_events else set()), name


def test_a_long_value_is_read_in_parts_by_a_method_of_the_client():
    for name, kind in KINDS.items():
        assert (kind.read_in_parts is None) == (RULES[name].paged is None), name
        assert kind.read_in_parts is None or callable(getattr(Client, kind.read_in_parts))
