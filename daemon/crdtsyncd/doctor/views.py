"""Named views whose sources outgrow them: from some point on an agent is no longer shown all that it asks for."""

from __future__ import annotations

from collections.abc import Iterator

from crdtsyncd.doctor.finding import Finding, ok, warning
from crdtsyncd.wording import counted

from crdtsync.context.view.alarm import FULL
from crdtsync.errors import CrdtSyncError

VIEWS_MAX = 50
KEYS_MAX = 2_000
"""A view over more than that is full, whatever its entries are."""


def examine_views(socket: str | None, timeout_s: float) -> Iterator[Finding]:
    """Compare what views show with their budgets; nothing if that cannot be told."""
    from crdtsync.client import Client
    from crdtsync.context import Views

    try:
        with Client(socket=socket, agent="doctor", timeout=timeout_s) as client:
            views = Views(client)
            names = views.names()[:VIEWS_MAX]
            windows = {name: alarm.get("budget_tokens") for name, alarm in views.alarms().items()}
            full = [
                name for name in names
                if (share := views.share(name, KEYS_MAX, windows.get(name))) is None or share > FULL
            ]  # fmt: skip
    except (CrdtSyncError, OSError):
        return
    for name in full:
        yield warning(
            "views",
            f"the sources of the view {name} take more than {FULL:.0%} of "
            + (f"a window of {windows[name]} tokens that asked for it" if name in windows else "its budget"),
            f"crdtsync view define {name} with more --budget, fewer prefixes or --summarize-after; "
            f"or, if it has that, crdtsync view summarize {name}",
        )
    if names and not full:
        yield ok("views", f"the sources of {counted(len(names), 'view')} fit into their budgets")
