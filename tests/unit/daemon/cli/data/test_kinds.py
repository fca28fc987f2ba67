"""The table of kinds that export, import and batch read."""

from __future__ import annotations

from crdtsyncd.cli.data.kinds import KINDS

from crdtsync.core.kinds import registry
from crdtsync.wire.kinds import kind_name


def test_every_kind_is_exported_and_imported():
    assert {*KINDS} == {kind_name(kind) for kind in registry.KINDS}


def test_what_a_read_in_parts_is_for_is_read_in_parts():
    in_parts = {kind_name(kind) for kind, rules in registry.KINDS.items() if rules.paged is not None}
    assert {name for name, kind in KINDS.items() if kind.read_parts is not None} == in_parts


def test_a_line_of_a_batch_may_name_every_write_of_a_kind_but_edits_of_texts_and_blobs():
    writes = {write for rules in registry.KINDS.values() for write in rules.writes}
    batched = {operation for kind in KINDS.values() for operation in kind.operations}
    assert batched == {write for write in writes if not write.startswith(("text_", "blob_"))}
