"""How much one answer shows: a reply of bounded size, made in a part of a turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crdtsync.errors import InvalidRequest

PAGE_ROWS_MAX = 1000
"""Rows of one page of a scan or log."""
PAGE_BYTES_MAX = 1024 * 1024
"""Bytes of one page of a scan or log."""
PAGE_WORK_MAX = 20_000
"""What the rows of one page of a scan come to, in entries that are looked at: if all is told of each key, 500 rows."""
PAGE_OPENED_TEXTS_MAX = 32
"""Texts that one page of a scan reads from disk: each may take some milliseconds, in which nobody else is served."""
PAGE_KEYS_TRIED_MAX = 10_000
"""Keys that one page of a scan looks at for those that it shows: with ``where_meta`` these may be few."""
PAGE_META_BYTES_MAX = 128 * 1024
"""Bytes of ``meta`` that are unpacked for one page, and one value more: maps in each other take 0.1 to 0.3 s a MiB."""


def page_limit(args: Mapping[str, Any]) -> int:
    """How many things a page may have.

    :raises InvalidRequest: not a number from 1 to ``PAGE_ROWS_MAX``.
    """
    limit = args.get("limit", PAGE_ROWS_MAX)
    if type(limit) is not int or not 1 <= limit <= PAGE_ROWS_MAX:
        raise InvalidRequest(f"limit must be from 1 to {PAGE_ROWS_MAX}")
    return limit
