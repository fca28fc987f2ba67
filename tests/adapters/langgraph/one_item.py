"""One item of the store: ``put NAME``, ``get``."""

from __future__ import annotations

import sys

from crdtsync.adapters.langgraph import CrdtStore

with CrdtStore() as store:
    if sys.argv[1] == "put":
        store.put(("team",), "owner", {"by": sys.argv[2]})
    else:
        item = store.get(("team",), "owner")
        print(None if item is None else item.value)
