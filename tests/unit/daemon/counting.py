"""The counters of a space, as stored and as counted."""

from __future__ import annotations

from crdtsyncd.storage.database import Store
from crdtsyncd.storage.writes import CHANGE_BYTES, DEAD_BYTES, REMOVAL_BYTES


def counters(store: Store, space: int = 1) -> dict[str, int]:
    store._whole_db  # noqa: B018  # the rows of large commits count once they are in their place
    return store.log_stats(space)


def counters_by_sum(store: Store, space: int = 1) -> dict[str, int]:
    def total(table: str, size: str) -> int:
        return store._one(f"SELECT IFNULL(SUM({size}), 0) FROM {table} WHERE space = ?", (space,))[0]

    def total_dead() -> int:
        return store._one(
            f"SELECT IFNULL(SUM({DEAD_BYTES}), 0) FROM entries WHERE space = ? AND position IS NOT NULL", (space,)
        )[0]

    return {
        "log_changes": total("changes", "1"),
        "log_bytes": total("changes", CHANGE_BYTES),
        "history_bytes": total_dead() + total("removals", REMOVAL_BYTES),
        "document_bytes": total("document_updates", "LENGTH(update_v1)") + total("document_states", "LENGTH(state)"),
    }
