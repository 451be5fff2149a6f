"""Calls back when a module has been imported, now or later, and imports none itself."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class Imports:
    """Waits for modules by name; `imported` is called with each, and must not raise."""

    def __init__(self, names: set[str], imported: Callable[[ModuleType], None]) -> None:
        self._names = names
        self._imported = imported
        self._inside = threading.local()

    def start(self) -> None:
        """Call back for modules that are imported already, and wait for the others."""
        sys.meta_path.insert(0, self)
        for name in sorted(self._names):
            module = sys.modules.get(name)
            if module is not None:
                self._imported(module)

    def stop(self) -> None:
        """Wait for nothing more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the other finders' spec, with a loader that calls back; else None."""
        if name not in self._names or getattr(self._inside, "asking", False):
            return None
        self._inside.asking = True
        try:
            spec = self._ask(name, path, target)
        finally:
            self._inside.asking = False
        if spec is not None and spec.loader is not None:
            self._follow(spec.loader)
        return spec

    def _ask(self, name: str, path: Any, target: Any) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None) if finder is not self else None
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                return spec  # type: ignore[no-any-return]
        return None

    def _follow(self, loader: Loader) -> None:
        followed: Any = loader
        load = getattr(followed, "exec_module", None)
        if load is None or not hasattr(followed, "__dict__"):
            return  # another kind of loader: the module stays unchanged

        def exec_module(module: ModuleType) -> None:
            load(module)
            followed.exec_module = load
            if self in sys.meta_path:
                self._imported(module)

        followed.exec_module = exec_module
