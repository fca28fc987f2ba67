"""Bounds of what goes on at once, made smaller for a test: what is short takes as many steps as what is long then."""

from __future__ import annotations

import sys

import pytest


def set_limits(monkeypatch: pytest.MonkeyPatch, **limits: int) -> None:
    """Set ``NAME=value`` in each module of the library that knows the constant, wherever it is defined.

    :raises LookupError: none knows it.
    """
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("crdtsync.")]
    for limit, value in limits.items():
        knowing = [module for module in modules if limit in vars(module)]
        if not knowing:
            raise LookupError(limit)
        for module in knowing:
            monkeypatch.setattr(module, limit, value)
