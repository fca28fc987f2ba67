"""A rule for texts, such as one that takes out secrets, applied to what an adapter is about to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crdtsync.errors import InvalidRequest

Rule = Callable[[str], str]


def redacted(rule: Rule | None, value: Any, name: object = "", within: Callable[[Any], Any] | None = None) -> Any:
    """``value`` with the rule applied to each text in it, but for the keys of dicts; without a rule as it is.

    Bytes are a text if they are UTF-8.

    ``within`` is asked first of each value: what it is with the rule applied, or None if nothing about it is special.

    :raises InvalidRequest: the rule does not return a text.
    """
    if rule is None:
        return value
    if within is not None and (found := within(value)) is not None:
        return found
    if isinstance(value, str):
        return _text(rule, value, name)
    if isinstance(value, bytes | bytearray):
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return value
        return type(value)(_text(rule, text, name).encode())
    if isinstance(value, dict):
        return {key: redacted(rule, each, key, within) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(rule, each, name, within) for each in value]
    return value


def _text(rule: Rule, text: str, name: object) -> str:
    """A text after the rule, which sees what it lets pass again with its name: ``password: …`` says more than ``…``."""
    found = _asked(rule, text)
    before = f"{name}: "
    if found != text or not isinstance(name, str) or not name:
        return found
    told = _asked(rule, before + text)
    return told[len(before) :] if told.startswith(before) else text


def _asked(rule: Rule, text: str) -> str:
    found = rule(text)
    if not isinstance(found, str):
        raise InvalidRequest(f"the rule redact returned {found!r:.40} for a text: it must return a text")
    return found
