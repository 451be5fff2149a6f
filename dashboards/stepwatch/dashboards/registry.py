"""The dashboard registry: every module in `boards` is a dashboard."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import Protocol, cast

from . import boards as shipped
from .sdk import builders
from .thresholds import Thresholds


class Board(Protocol):
    """A module that builds one dashboard."""

    @property
    def FILE(self) -> str:
        """Name of its generated file."""
        ...

    def build(self, thresholds: Thresholds) -> builders.Dashboard:
        """Build the dashboard."""
        ...


def boards(package: ModuleType = shipped) -> list[Board]:
    """Import `package`'s dashboards, sorted by module name.

    Raises:
        TypeError: a module lacks `FILE` or `build`.
    """
    modules = []
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        missing = [name for name in ("FILE", "build") if not hasattr(module, name)]
        if missing:
            raise TypeError(f"dashboard {module.__name__} lacks {' and '.join(missing)}")
        modules.append(cast(Board, module))
    return modules
