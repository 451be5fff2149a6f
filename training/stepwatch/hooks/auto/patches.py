"""Replaces the few torch functions that every trainer calls, once per process."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from stepwatch.hooks.collectives.calls import calls
from stepwatch.hooks.guard import guarded
from stepwatch.hooks.optimizers import makes_state

from .router import Router


def install(router: Router) -> None:
    """Watch optimizers, backward, loaders and collectives; `Pauses` watches evaluations and saves.

    A part that this torch lacks is left out and counted by `router`'s guard.
    """
    Patches(router).install()


class Patches:
    """The replacements; each calls its original exactly once and passes its errors on."""

    def __init__(self, router: Router) -> None:
        self.guard = router.guard
        self._router = router

    def install(self) -> None:
        """Install every replacement; one may fail without the others."""
        self._watch_optimizers()
        self._watch_backward()
        self._watch_loaders()
        self._watch_distributed()
        self._watch_loads()

    @guarded()
    def _watch_optimizers(self) -> None:
        from torch.optim import optimizer as module

        router = self._router

        def begins(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            observer = None if makes_state(optimizer) else router.training()
            if observer is not None:
                # args holds the optimizer itself, then the caller's arguments.
                closure = args[1] if len(args) > 1 else kwargs.get("closure")
                observer.optimizer_begins(optimizer, closure=closure is not None)

        def ends(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if router.observer is not None:
                router.observer.optimizer_ends(optimizer)

        module.register_optimizer_step_pre_hook(begins)
        module.register_optimizer_step_post_hook(ends)

    @guarded()
    def _watch_backward(self) -> None:
        import torch

        router, inner = self._router, torch.autograd.backward
        compiling = torch.compiler.is_compiling

        @functools.wraps(inner)
        def backward(*args: Any, **kwargs: Any) -> Any:
            observer = None if compiling() else router.training()
            if observer is None or not observer.backward_begins():
                return inner(*args, **kwargs)
            try:
                return inner(*args, **kwargs)
            finally:
                observer.backward_ends()

        torch.autograd.backward = backward

    @guarded()
    def _watch_loaders(self) -> None:
        from torch.utils.data import dataloader

        base: Any = dataloader._BaseDataLoaderIter
        base.__next__ = _timed_data(self._router, base.__next__, brings_batch=True)
        loader: Any = dataloader.DataLoader
        loader.__iter__ = _timed_data(self._router, loader.__iter__, brings_batch=False)

    @guarded()
    def _watch_loads(self) -> None:
        import torch

        router, inner = self._router, torch.load

        @functools.wraps(inner)
        def load(*args: Any, **kwargs: Any) -> Any:
            if router.observer is not None:
                return inner(*args, **kwargs)
            router.loads(args[0] if args else kwargs.get("f"))
            try:
                return inner(*args, **kwargs)
            except BaseException:
                router.load_failed()
                raise

        # Two names of one function stay equal: pickle finds a function by its name.
        torch.load = torch.serialization.load = load

    @guarded()
    def _watch_distributed(self) -> None:
        import torch

        if not torch.distributed.is_available():
            return
        calls()
        parallel: Any = torch.nn.parallel.DistributedDataParallel
        router, inner = self._router, parallel.forward
        compiling = torch.compiler.is_compiling

        @functools.wraps(inner)
        def forward(model: Any, *args: Any, **kwargs: Any) -> Any:
            observer = None
            if not compiling():
                if torch.is_grad_enabled():
                    observer = router.training()
                elif router.observer is not None:
                    router.observer.model_inferred()
            if observer is None:
                return inner(model, *args, **kwargs)
            observer.model_called(model)
            output = inner(model, *args, **kwargs)
            observer.reducer.expect(model, output)
            observer.model_returned()
            return output

        parallel.forward = forward
        build = parallel.__init__

        @functools.wraps(build)
        def __init__(model: Any, *args: Any, **kwargs: Any) -> None:
            build(model, *args, **kwargs)
            router.wrapped(model)

        parallel.__init__ = __init__


def _timed_data(
    router: Router, inner: Callable[..., Any], *, brings_batch: bool
) -> Callable[..., Any]:
    @functools.wraps(inner)
    def call(loader: Any) -> Any:
        observer = router.observer
        if observer is None or not observer.data_begins():
            return inner(loader)
        came = False
        try:
            result = inner(loader)
            came = brings_batch
            return result
        finally:
            observer.data_ends(came=came)

    return call
