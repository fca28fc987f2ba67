"""Attributes that mark what an operation belongs to, beside what its value says of itself."""

from __future__ import annotations

RESOLVED_ATTR = "resolved"
"""The attribute of the first operation of a resolution: what follows tells readers a whole value, not news of it."""
TRIMMED_ATTR = "trimmed"
"""The attribute of a trim that names elements one by one. Others are known by their bound."""
