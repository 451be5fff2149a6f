"""Classes that a snapshot may name: the state's classes and the enumerations of the records.

No other object is ever created from a snapshot, whatever its content.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from importlib import import_module
from types import ModuleType

from stepwatch.collector import state
from stepwatch.signals import records

_INSIDE = f"{__package__}."


@cache
def known_classes() -> Mapping[str, type]:
    """Return the classes by their snapshot names."""
    classes: dict[str, type] = {}
    for module in (*_modules_of(state), records):
        for value in vars(module).values():
            if isinstance(value, type) and _belongs(value, module):
                classes[name_of(value)] = value
    return classes


def name_of(kind: type) -> str:
    """Return a class's name in snapshots."""
    return f"{kind.__module__.rpartition('stepwatch.')[2]}:{kind.__qualname__}"


def _belongs(kind: type, module: ModuleType) -> bool:
    if module is records:
        return issubclass(kind, Enum)
    return kind.__module__ == module.__name__


def _modules_of(package: ModuleType) -> Iterator[ModuleType]:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.startswith(_INSIDE) and module.name != __package__:
            yield import_module(module.name)
