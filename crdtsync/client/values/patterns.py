"""Keys, their patterns and beginnings, for those who stand above the client.

``*`` is one part of a key, ``**`` any number of them.
"""

from crdtsync.errors import InvalidRequest
from crdtsync.wire.limits import check_key, check_prefix
from crdtsync.wire.patterns import ANY_PARTS, ONE_PART, Pattern, check_new_pattern

__all__ = ["Pattern", "check_key", "check_new_pattern", "check_no_pattern", "check_prefix"]


def check_no_pattern(name: object, what: str) -> None:
    """Refuse ``tasks/**`` where one name is meant, though a key could be called so: whoever gives it means many.

    :raises InvalidRequest: it has wildcards; ``what`` says what for.
    """
    if isinstance(name, str) and not {ONE_PART, ANY_PARTS}.isdisjoint(name.split("/")):
        raise InvalidRequest(f"{name!r} is a pattern, and {what} has one name, without wildcards")
