"""Tracker discovery: every subclass of `Tracker` in a file below `trackers/`."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from stepwatch.collector.state import trackers
from stepwatch.collector.state.tracker import Tracker


@cache
def discover() -> tuple[type[Tracker], ...]:
    """Return all trackers by `order`, then by name; no other list exists."""
    below = pkgutil.walk_packages(trackers.__path__, f"{trackers.__name__}.")
    names = [module.name for module in below if not module.ispkg]
    tracker_types = [
        value
        for name in names
        for value in vars(import_module(name)).values()
        if isinstance(value, type) and issubclass(value, Tracker) and value.__module__ == name
    ]
    return tuple(sorted(tracker_types, key=lambda kind: (kind.order, kind.__name__)))
