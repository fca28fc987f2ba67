"""Names of a package that are imported when they are first used, so that to import the package costs next to nothing.

Example: ``_NAMES = {"aio.client": ("AsyncClient",)}`` and ``__getattr__ = lazy(globals(), _NAMES)`` in a package; then
``from package import AsyncClient`` imports ``package.aio.client``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def lazy(package: dict[str, Any], names: Mapping[str, Iterable[str]]) -> Callable[[str], object]:
    """The ``__getattr__`` of a package, of which these are the globals, with the ``names`` in each of its modules.

    ``dir`` lists them, and ``import *`` imports them.
    """
    modules = {name: module for module, found in names.items() for name in found}

    def find(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        found = package[name] = getattr(import_module(f"{package['__name__']}.{modules[name]}"), name)
        return found

    package["__all__"] = sorted(modules)
    package["__dir__"] = lambda: sorted({*package, *modules})
    return find
