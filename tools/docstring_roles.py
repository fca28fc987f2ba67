"""For the reference on the site: docstrings name things as ``:class:`Client```, which Markdown does not know."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):`(?:([^`<]*?) ?<[^`>]*>|~(?:[\w.]*\.)?(\w+)|([^`]*))`")


def plain(text: str) -> str:
    """A docstring with every role as code."""
    return ROLE.sub(lambda match: f"`{match[1] or match[2] or match[3]}`", text)


class PlainRoles(Extension):
    """Makes roles plain in every docstring that is read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:  # Any: what else griffe hands over
        """An object was read."""
        if obj.docstring is not None:
            obj.docstring.value = plain(obj.docstring.value)
