"""How a fresh process builds a probe: class and constructor arguments, as JSON.

A clock and the ranks' processes are only named: the other process has its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepwatch.agent.probes.probe import Probe, RankProcesses
from stepwatch.signals.clock import SystemClock

Recipe = dict[str, Any]


def recipe_of(probe: Probe) -> Recipe:
    """Return the recipe from which `build_probe` builds the same probe.

    Raises:
        TypeError: a constructor argument cannot be sent to another process.
    """
    arguments, named = probe.built_with
    return {
        "module": type(probe).__module__,
        "name": type(probe).__qualname__,
        "arguments": [_described(argument) for argument in arguments],
        "named": {name: _described(argument) for name, argument in named.items()},
    }


def build_probe(recipe: Recipe, ranks: RankProcesses) -> Probe:
    """Build the probe from a recipe; this opens nothing.

    Raises:
        Exception: the module cannot be imported, or the class refuses its arguments.
    """
    target: Any = importlib.import_module(recipe["module"])
    for name in recipe["name"].split("."):
        target = getattr(target, name)
    arguments = [_restored(argument, ranks) for argument in recipe["arguments"]]
    named = {name: _restored(argument, ranks) for name, argument in recipe["named"].items()}
    probe = target(*arguments, **named)
    if not isinstance(probe, Probe):
        raise TypeError(f"{recipe['name']} is not a probe")
    return probe


def _described(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return {"path": str(value)}
    if isinstance(value, RankProcesses):
        return {"ranks": True}
    if isinstance(value, SystemClock):
        return {"clock": True}
    raise TypeError(f"no other process can be given a {type(value).__name__}")


_KINDS: dict[str, Callable[[Any, RankProcesses], object]] = {
    "path": lambda text, _: Path(text),
    "ranks": lambda _, ranks: ranks,
    "clock": lambda _, __: SystemClock(),
}


def _restored(value: Any, ranks: RankProcesses) -> object:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    return _KINDS[kind](content, ranks)
