"""The table of errors: names, codes and statuses from :mod:`crdtsync.errors`; what to do about each is by hand.

A new exception gets a row with the first sentence of its docstring. Who writes better words into the row keeps them.
"""

from __future__ import annotations

from crdtsync.errors import ERRORS_BY_CODE
from tools.reference import ROOT, page
from tools.reference.markdown import last_cells, summary, table, with_table

PAGE = ROOT / "docs/reference/errors.md"


@page("docs/reference/errors.md", is_marked=False)
def errors() -> str:
    """The page as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    kept = last_cells(text)
    rows = (
        (f"`{error.__name__}`", f"`{code}`", str(error.exit_status), kept.get(f"`{error.__name__}`", summary(error)))
        for code, error in ERRORS_BY_CODE.items()
    )
    return with_table(text, table(("exception", "code", "exit status", "what to do"), rows))
