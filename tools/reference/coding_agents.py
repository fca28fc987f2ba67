"""The tables of the page for coding agents, from :mod:`crdtsync.mcp`; its other words are by hand."""

from __future__ import annotations

from crdtsync.mcp.install.clients import CLIENTS
from crdtsync.mcp.server import all_tools
from crdtsync.mcp.session import Callers, ServerOptions
from tools.reference import ROOT, page
from tools.reference.markdown import sentences, summary, table, with_table

PAGE = ROOT / "docs/how-to/coding-agents.md"


@page("docs/how-to/coding-agents.md", is_marked=False)
def coding_agents() -> str:
    """The page as it should be."""
    clients = [
        (one.title, f"`{one.name}`", f"`~/{one.user}`", f"`{one.project}`" if one.project else "") for one in CLIENTS
    ]
    tools = [(f"`{one.name}`", _first_sentence(one.function)) for one in all_tools(Callers(ServerOptions()))]
    head = ("client", "`--client`", "settings of the user", "settings of a project")
    text = with_table(PAGE.read_text(encoding="utf-8"), table(head, clients))
    return with_table(text, table(("tool", "what its model is told"), tools))


def _first_sentence(thing: object) -> str:
    return sentences(summary(thing)).partition("\n")[0]
