"""Which globals of a pickle are safe: the lists in `names.toml`, and the standard library's."""

from __future__ import annotations

import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from stepwatch.agent.checkpoints.result import Weight

from .machine import Pickle

_PYTHON_2 = {"__builtin__": "builtins", "copy_reg": "copyreg", "cPickle": "pickle"}
_SHOWN = 4
"""Names that a reason lists before it counts the others."""


class _Lists(NamedTuple):
    dangerous_modules: frozenset[str]
    dangerous_names: frozenset[str]
    safe: dict[str, tuple[str, ...]]
    families: frozenset[str]


@cache
def _lists() -> _Lists:
    document = tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))
    return _Lists(
        frozenset(document["dangerous_modules"]),
        frozenset(document["dangerous_names"]),
        {module: tuple(names) for module, names in document["safe"].items()},
        frozenset(document["families"]["classes"]),
    )


def judge(pickle: Pickle) -> list[tuple[Weight, str]]:
    """Return the reasons why a load of this pickle is dangerous, or why that is unknown."""
    by_weight: dict[Weight, list[str]] = {}
    for (module, name), called in pickle.names.items():
        weight = trust(module, name, called=called)
        if weight is not None:
            by_weight.setdefault(weight, []).append(f"{module}.{name}"[:120])
    reasons = []
    if Weight.DANGER in by_weight:
        names = _listed(by_weight[Weight.DANGER])
        reasons.append((Weight.DANGER, f"dangerous pickle: a load runs {names}"))
    if pickle.computed:
        text = f"dangerous pickle: a load calls {pickle.computed[0]}"
        reasons.append((Weight.DANGER, text))
    if Weight.UNKNOWN in by_weight:
        names = _listed(by_weight[Weight.UNKNOWN])
        reasons.append((Weight.UNKNOWN, f"a load calls {names}, which is on no list"))
    if Weight.NOTICE in by_weight:
        names = _listed(by_weight[Weight.NOTICE])
        reasons.append((Weight.NOTICE, f"a load imports {names}"))
    return reasons


def trust(module: str, name: str, *, called: bool) -> Weight | None:
    """Return the weight of one global in a pickle; None if it is safe.

    `called` is true if a load calls it, false if it only creates or refers to it.
    """
    lists = _lists()
    module = _PYTHON_2.get(module, module)
    parts = f"{module}.{name}".split(".")
    prefixes = {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
    if not lists.dangerous_modules.isdisjoint(prefixes):
        return Weight.DANGER
    if not lists.dangerous_names.isdisjoint(prefixes):
        return Weight.DANGER
    if any(_matches(pattern, name) for pattern in lists.safe.get(module, ())):
        return None
    if any(part.startswith("__") and part.endswith("__") for part in name.split(".")):
        return Weight.DANGER
    is_class = parts[-1].lstrip("_")[:1].isupper()
    if parts[0] in sys.stdlib_module_names:
        return Weight.UNKNOWN if is_class else Weight.DANGER
    if not is_class and called:
        return Weight.UNKNOWN
    return None if parts[0] in lists.families else Weight.NOTICE


def _matches(pattern: str, name: str) -> bool:
    if pattern.startswith("*") and len(pattern) > 1:
        return name.endswith(pattern[1:])
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return name == pattern


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} others"
