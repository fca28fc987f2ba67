"""The tables of errors: of the library from :mod:`crdtsync.errors`, of the command line from its own list."""

from __future__ import annotations

from crdtsyncd.cli.errors import OWN

from crdtsync.errors import ERRORS_BY_CODE
from tools.reference import ROOT, page
from tools.reference.markdown import docstring, inline, table, with_table

PAGE = ROOT / "docs/reference/errors.md"


@page("docs/reference/errors.md", is_marked=False)
def errors() -> str:
    """The page as it should be."""
    rows = [
        (f"`{error.__name__}`", f"`{code}`", str(error.exit_status), inline(docstring(error)))
        for code, error in ERRORS_BY_CODE.items()
    ]
    own = [(f"`{code}`", str(status or "the command's own"), said) for code, (status, said) in OWN.items()]
    text = with_table(PAGE.read_text(encoding="utf-8"), table(("exception", "code", "exit status", "meaning"), rows))
    return with_table(text, table(("code", "exit status", "meaning"), own))
