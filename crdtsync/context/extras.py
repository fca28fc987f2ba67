"""Packages that only some agents need: imported at first use, or a sentence that says what to install."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from crdtsync.errors import CrdtSyncError


class MissingPackage(CrdtSyncError, ImportError):
    """An optional package is not installed; the message says how to get it."""

    code = "missing_package"
    exit_status = 2


def need(module: str, extra: str = "context") -> ModuleType:
    """``module``, imported; :class:`MissingPackage` if it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        message = f"this needs the package {module!r}, which is not installed: pip install 'crdtsync[{extra}]'"
        raise MissingPackage(message) from error
