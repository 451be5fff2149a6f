"""`Pauses`: recognises evaluations and saves from the first `attach` until the Watch closes."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

from stepwatch.hooks.checkpoints import CheckpointQueue
from stepwatch.hooks.gradients import in_backward
from stepwatch.hooks.guard import guarded
from stepwatch.hooks.models.module_hooks import ModuleHook
from stepwatch.hooks.models.wrapped import is_wrapped
from stepwatch.hooks.recorder.recorder import Recorder

from .evaluation import Evaluation
from .imports import Imports
from .interruptions import INTERRUPTIONS, Interruption, Interrupts
from .loads import Loads
from .replacements import Function, Replacements
from .save_paths import SaveCall
from .saves import InnerSave, RecognisedSave, Saves
from .trained import Trained

_MODELS = "torch.nn.modules.module"


class Pauses:
    """One Watch's recognised pauses; other hooks call `evaluation`."""

    def __init__(self, recorder: Recorder, queue: CheckpointQueue) -> None:
        self.guard = recorder.guard
        self.evaluation = Evaluation(recorder)
        self._trained = Trained()
        self._followed: weakref.WeakSet[Any] = weakref.WeakSet()
        self._recorder = recorder
        self.saves = Saves(recorder, queue)
        self.loads = Loads(recorder)
        self._replaced = Replacements()
        self._imports: Imports | None = None
        self._switching = False

    @guarded()
    def start(self) -> None:
        """Recognise pauses from now on; a second call changes nothing."""
        if self._imports is None and self._recorder.timeline is not None:
            names = {entry.module for entry in INTERRUPTIONS} | {_MODELS}
            self._imports = Imports(names, self._imported)
            self._imports.start()

    @guarded()
    def close(self) -> None:
        """Restore the replaced functions."""
        if self._imports is not None:
            self._imports.stop()
        self._replaced.undo()

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace `owner.name` by the result of `make`, until the Watch closes."""
        self._replaced.put(owner, name, make)

    @guarded()
    def follow(self, model: Any) -> None:
        """Note that `model` trains; if torch has hooks on it already, each call to it is seen."""
        self._trained.add_model(model)
        if is_wrapped(model) and model not in self._followed:
            self._followed.add(model)
            handle = model.register_forward_pre_hook(ModuleHook(self._called))
            self._recorder.attachments.keep(handle)

    @guarded()
    def _called(self, model: Any) -> None:
        import torch

        if not in_backward():
            self.evaluation.called(gradients=torch.is_grad_enabled(), training=model.training)

    @guarded()
    def follow_optimizer(self, optimizer: Any) -> None:
        """Note that `optimizer`'s parameters train."""
        self._trained.add_optimizer(optimizer)

    @guarded()
    def _imported(self, module: ModuleType) -> None:
        if module.__name__ == _MODELS:
            self._replaced.put(module.Module, "train", self._switched)
        for entry in INTERRUPTIONS:
            if entry.module == module.__name__:
                owner = getattr(module, entry.owner, None) if entry.owner else module
                if owner is not None:
                    make = functools.partial(self._interrupting, entry)
                    self._replaced.put(owner, entry.name, make)

    def _interrupting(self, entry: Interruption, inner: Function) -> Function:
        @functools.wraps(inner)
        def call(*args: Any, **kwargs: Any) -> Any:
            if _is_compiling():
                return inner(*args, **kwargs)
            if entry.is_load and self.loads.reports:
                self._loads(entry, SaveCall(args, kwargs))
            with self._scope(entry.interrupts, (*args, *kwargs.values())) as entered:
                result = inner(*args, **kwargs)
                if isinstance(entered, RecognisedSave | InnerSave):
                    entered.returned(entry, SaveCall(args, kwargs, result))
                return result

        return call

    @guarded()
    def _loads(self, entry: Interruption, call: SaveCall) -> None:
        if entry.path is not None:
            self.loads.note(entry.path(call))

    @guarded(fallback=nullcontext())
    def _scope(
        self, interrupts: Interrupts, arguments: tuple[Any, ...]
    ) -> AbstractContextManager[Any]:
        if interrupts is Interrupts.EVALUATION:
            return self.evaluation.scope()
        if interrupts is Interrupts.READ:
            return nullcontext()
        if interrupts is Interrupts.LOAD:
            return self.saves.load()
        return self.saves.save(arguments)

    def _switched(self, inner: Function) -> Function:
        # Not `eval`: models override it without calling it. Each submodule comes through here.
        @functools.wraps(inner)
        def train(model: Any, mode: bool = True) -> Any:
            if _is_compiling() or not self._recorder.thread.is_current():
                return inner(model, mode)
            if self._switching or (mode and not self.evaluation.lasting):
                return inner(model, mode)
            self._switching = True
            try:
                result = inner(model, mode)
            finally:
                self._switching = False
            self._switch(model, mode)
            return result

        return train

    @guarded()
    def _switch(self, model: Any, mode: bool) -> None:
        """The training thread put all of `model` into training mode, or into evaluation mode."""
        if self._recorder.thread.is_current() and self._trained.holds(model):
            if mode:
                self.evaluation.ends()
            else:
                self.evaluation.begins(model)


def _is_compiling() -> bool:
    import torch

    return bool(torch.compiler.is_compiling())
