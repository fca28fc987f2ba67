"""Named views whose sources outgrow them: from some point on an agent is no longer shown all that it asks for."""

from __future__ import annotations

from collections.abc import Iterator

from crdtsyncd.doctor.finding import Finding, ok, warning

from crdtsync.errors import CrdtSyncError

SHARE_MAX = 0.7
"""From this part of its budget on, a view is spoken of: before something has to be left out."""
VIEWS_MAX = 50
KEYS_MAX = 2_000
"""A view over more than that is full, whatever its entries are."""


def examine_views(socket: str | None, timeout_s: float) -> Iterator[Finding]:
    """What views show, against their budgets; nothing if that cannot be told."""
    from crdtsync.client import Client
    from crdtsync.context import Views

    try:
        with Client(socket=socket, agent="doctor", timeout=timeout_s) as client:
            views = Views(client)
            names = views.names()[:VIEWS_MAX]
            full = [name for name in names if (share := views.share(name, KEYS_MAX)) is None or share > SHARE_MAX]
    except (CrdtSyncError, OSError):
        return
    for name in full:
        yield warning(
            "views",
            f"the sources of the view {name} take more than {SHARE_MAX:.0%} of its budget",
            f"crdtsync view define {name} with more --budget, fewer prefixes or --summarize-after; "
            f"or, if it has that, crdtsync view summarize {name}",
        )
    if names and not full:
        yield ok("views", f"the sources of {len(names):,} views fit into their budgets")
