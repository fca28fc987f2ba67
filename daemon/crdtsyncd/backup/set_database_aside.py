"""Sets a node's database aside and begins another one, of the cluster that it has joined."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from crdtsyncd.storage.database import Store

from crdtsync.core.storage.write_batch import WriteBatch

ARCHIVE_NAME = "archive"

OpenStore = Callable[..., Store]
"""Opens the database, which belongs to the cluster given if it is new, and perhaps to the node with this id."""


def set_aside(old: Store, data_dir: Path, keeps: bool) -> Path | None:
    """Close a database and put it into the archive; None: it holds nothing and is removed (not ``keeps``).

    :raises StorageError: it cannot be moved.
    """
    name = f"{old.cluster.hex()[:8]}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    place = data_dir / ARCHIVE_NAME / name
    old.set_aside(place)
    if keeps:
        return place
    import shutil  # seldom needed, and it brings compressors along

    shutil.rmtree(place, ignore_errors=True)
    return None


def begin(open_store: OpenStore, cluster: bytes, node: str, metas: Mapping[str, bytes]) -> Store:
    """A new database of this cluster, with what the node keeps for itself.

    :raises CrdtSyncError: the disk failed.
    """
    store = open_store(cluster, node)
    batch = WriteBatch()
    batch.metas.extend(metas.items())
    store.commit(batch)
    return store
