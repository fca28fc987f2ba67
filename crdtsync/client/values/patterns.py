"""Patterns of keys, for those who stand above the client: ``*`` is one part of a key, ``**`` any number of them."""

from crdtsync.wire.patterns import Pattern, check_pattern

__all__ = ["Pattern", "check_pattern"]
