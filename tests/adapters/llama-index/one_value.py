"""Put a value that says who did it, and print it."""

from __future__ import annotations

import sys

from crdtsync.adapters.llama_index import CrdtKVStore

with CrdtKVStore() as store:
    store.put("k", {"by": sys.argv[1]})
    print(store.get("k"))
