"""Hooks on the trainer's modules that compiled graphs and module copies leave out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any


class ModuleHook:
    """A forward hook or pre-hook that does nothing while torch compiles.

    It calls `call` with the module, and after a forward with the output as well. A copy of the
    module, in memory or in a file, carries an inert hook. It unpickles to standard library
    objects: it can be read where stepwatch is not installed.
    """

    def __init__(self, call: Callable[..., object]) -> None:
        self._call = call

    def __call__(self, module: Any, _inputs: Any, *output: Any) -> None:
        import torch

        if not torch.compiler.is_compiling():
            self._call(module, *output)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (contextlib.nullcontext(), "__exit__")
