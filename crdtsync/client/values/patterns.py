"""Patterns and beginnings of keys, for those who stand above the client.

``*`` is one part of a key, ``**`` any number of them.
"""

from crdtsync.wire.limits import check_prefix
from crdtsync.wire.patterns import Pattern, check_new_pattern

__all__ = ["Pattern", "check_new_pattern", "check_prefix"]
