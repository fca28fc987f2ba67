"""The table of kinds, against the rules of the core and the methods of the client."""

from __future__ import annotations

from crdtsync.client import Client
from crdtsync.core.kinds import registry
from crdtsync.core.kinds.operations import Tells
from crdtsync.wire.kinds import TRAITS


def test_every_kind_is_known():
    assert {*TRAITS} == {*registry.KINDS}


def test_what_tells_a_part_is_what_the_core_tells_as_one():
    for kind, traits in TRAITS.items():
        rules = registry.KINDS[kind]
        writes = (rules.written, *rules.written_to.values())
        parts = {one.name for one in writes if one.tells in (Tells.PART, Tells.RESULT)}
        assert {*traits.parts} == (parts if traits.is_read_by_events else set()), kind


def test_a_long_value_is_read_in_parts_by_a_method_of_the_client():
    for kind, traits in TRAITS.items():
        assert (traits.read_in_parts is None) == (registry.KINDS[kind].paged is None), kind
        assert traits.read_in_parts is None or callable(getattr(Client, traits.read_in_parts))
