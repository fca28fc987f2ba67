"""Arguments that a caller hands in: one of another type than is asked for is refused by its name.

Example: ``expect(str | None, query=5)`` raises ``InvalidRequest: query takes str | None, not 5``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from crdtsync.errors import InvalidRequest


def expect(wanted: Any, /, **given: object) -> None:
    """Refuse what is not of ``wanted``, a class or several joined by ``|``, by its name; a bool is no number.

    :raises InvalidRequest: something is of another type.
    """
    for name, value in given.items():
        if not isinstance(value, wanted) or isinstance(value, bool):
            message = f"{name} takes {wanted.__name__ if isinstance(wanted, type) else wanted}, not {value!r:.80}"
            raise InvalidRequest(message)


def expect_count(least: int, /, **given: int) -> None:
    """Refuse what is no whole number from ``least`` on, by its name.

    :raises InvalidRequest: something is not.
    """
    expect(int, **given)
    for name, number in given.items():
        if number < least:
            raise InvalidRequest(f"{name} must be {least} or more, not {number}")


def expect_one(choices: Collection[str], /, **given: str) -> None:
    """Refuse what is none of the ``choices``, by its name.

    :raises InvalidRequest: something is not.
    """
    for name, choice in given.items():
        if choice not in choices:
            raise InvalidRequest(f"{name} must be one of {', '.join(choices)}, not {choice!r:.80}")


def expect_utf8(**given: str | None) -> None:
    """Refuse a text that has half a surrogate pair, which UTF-8 cannot hold, by its name.

    :raises InvalidRequest: one has.
    """
    for name, text in given.items():
        if text is not None and re.search("[\ud800-\udfff]", text):
            raise InvalidRequest(f"{name} takes characters that UTF-8 has, not {text!r:.80}")


def texts(name: str, given: object) -> tuple[str, ...]:
    """One str, or several: all of them.

    :raises InvalidRequest: it is neither.
    """
    found = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (given,)
    if not all(isinstance(one, str) for one in found):
        raise InvalidRequest(f"{name} takes a str, or a list of them, not {given!r:.80}")
    return found
