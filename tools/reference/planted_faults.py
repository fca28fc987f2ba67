"""The page of planted faults: a row for each of :data:`tests.simulator.faults.planting.FAULTS`."""

from __future__ import annotations

from tests.simulator.faults import FAULTS
from tests.simulator.faults.known import KNOWN
from tools.reference import page
from tools.reference.markdown import prose, table

INTRODUCTION = """
# Planted faults

A harness that finds nothing proves nothing. So ``./dev simulate --faults`` plants each of these faults alone into the
code, and plays histories until a check finds it. ``--fault "resets add up"`` plants only those with these words in
their name. The seed is that of a history that is known to find the fault.
[Reliability](../explanation/reliability.md) says what the simulator does.

The histories of spaces, in ``tests/property/test_spaces.py``, have four more.
"""


@page("docs/reference/planted-faults.md")
def planted_faults() -> str:
    """The page."""
    rows = []
    for fault in sorted(FAULTS, key=lambda fault: fault.name):
        name = fault.name.replace("_", " ")
        seed = KNOWN.get(fault.name)
        rows.append((name, "" if fault.breaks == name else fault.breaks, "" if seed is None else str(seed)))
    return f"{prose(INTRODUCTION)}\n\n{table(('fault', 'what it breaks', 'seed'), rows)}"
