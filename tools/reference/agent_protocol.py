"""The agent protocol: its tables from :mod:`crdtsync.wire.requests` and :mod:`crdtsync.wire.features`.

The sections on long answers are docstrings of the code that makes these answers. The page's other words are by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crdtsyncd.backup.backup import Backups

from crdtsync.core.agents.dispatcher import Dispatcher
from crdtsync.core.agents.watch_requests import WatchRequests
from crdtsync.core.crdt import read_context
from crdtsync.core.diagnostics import explain_reasons
from crdtsync.core.diagnostics.explain import explain
from crdtsync.core.kinds.values import describe_key
from crdtsync.core.reads import key_history, listing
from crdtsync.core.replica.resolve import resolve
from crdtsync.core.replica.schemas.declare import schema_set
from crdtsync.core.watch import events, state_watch
from crdtsync.wire.features import FEATURES
from crdtsync.wire.requests import ARGUMENTS, READ_ARGUMENTS, REQUESTS, WRITE_ARGUMENTS, Form, On, Request, Right
from tools.reference import ROOT, page
from tools.reference.markdown import docstring, inline, prose, table, with_section, with_table

PAGE = ROOT / "docs/reference/agent-protocol.md"
COMMON = {Form.READ: ARGUMENTS | READ_ARGUMENTS, Form.WRITE: ARGUMENTS | WRITE_ARGUMENTS.keys()}
HEADS = {
    Form.WRITE: ("write", "needs", "arguments", "does, and answers beside `token`"),
    Form.READ: ("read", "needs", "arguments", "answers"),
    Form.STANDING: ("standing request", "needs", "arguments", "does"),
    Form.NODE: ("request of the node", "needs", "arguments", "answers"),
}

SECTIONS: Mapping[str, Sequence[object]] = {
    "## Hello": (Dispatcher.hello,),
    "### Seen": (read_context,),
    "### Schemas": (schema_set,),
    "### Resolving": (resolve,),
    "### Entries": (describe_key,),
    "### Scan": (listing.scan,),
    "### History": (key_history.history_of_key, key_history.describe_past),
    "### Watch": (events,),
    "### State watches": (state_watch,),
    "### Resolvers": (WatchRequests.resolver,),
    "### Explain": (explain, explain_reasons),
    "### Backups": (Backups,),
}
"""The sections that say more of an answer: each is what the docstrings of the code that makes it say after their first
paragraphs.
"""


@page("docs/reference/agent-protocol.md", is_marked=False)
def agent_protocol() -> str:
    """The page as it should be."""
    text = with_table(PAGE.read_text(encoding="utf-8"), _features())
    arguments = [(f"`{name}`", inline(said)) for name, said in WRITE_ARGUMENTS.items()]
    text = with_table(text, table(("argument", "meaning"), arguments))
    for form, head in HEADS.items():
        rows = [
            (f"`{name}`", _needs(request), _arguments(request), inline(request.meaning))
            for name, request in REQUESTS.items()
            if request.form is form
        ]
        text = with_table(text, table(head, rows))
    for heading, things in SECTIONS.items():
        told = [prose(docstring(thing).partition("\n\n")[2]) for thing in things]
        text = with_section(text, heading, "\n\n".join(told))
    return text


def _needs(request: Request) -> str:
    if request.right is Right.NONE:
        return ""
    if request.right is Right.HOST:
        return "the host" + (", to change it" if request.on is On.LEVEL else "")
    return f"{request.right.word} on {request.on.value.partition(';')[0]}"


def _arguments(request: Request) -> str:
    own = request.arguments - COMMON.get(request.form, ARGUMENTS)
    return ", ".join(f"`{name}`" for name in sorted(own, key=lambda name: (name not in ("key", "keys"), name)))


def _features() -> str:
    rows = []
    for feature, requests in FEATURES.items():
        said = []
        for name, arguments in requests.items():
            listed = ", ".join(f"`{argument}`" for argument in sorted(arguments))
            said.append(f"{listed} of `{name}`" if listed else f"the request `{name}`")
        rows.append((f"`{feature}`", "; ".join(said)))
    return table(("feature", "what came with it"), rows)
