"""Finds the model that trains: not a teacher, and not a part of the model."""

from __future__ import annotations

import weakref
from typing import Any

SHARE = 0.5
"""Share of a watched model's or optimizer's parameters that makes a module the model."""


class Trained:
    """The models and the optimizers that are known to train."""

    def __init__(self) -> None:
        self._models: list[weakref.ref[Any]] = []
        self._optimizers: list[weakref.ref[Any]] = []
        self._latest: weakref.ref[Any] | None = None
        self._answers: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()

    def add_model(self, model: Any) -> None:
        """Note that `model` trains."""
        self._models = _with_reference(self._models, model)
        self._answers.clear()

    def add_optimizer(self, optimizer: Any) -> None:
        """Note that `optimizer`'s parameters train."""
        if self._latest is not None and self._latest() is optimizer:
            return
        self._latest = weakref.ref(optimizer)
        count = len(self._optimizers)
        self._optimizers = _with_reference(self._optimizers, optimizer)
        if len(self._optimizers) != count:
            self._answers.clear()

    def holds(self, module: Any) -> bool:
        """Return whether `module` holds at least half of a known model or optimizer."""
        answer = self._answers.get(module)
        if answer is None:
            answer = self._answers[module] = self._compare(module)
        return answer

    def _compare(self, module: Any) -> bool:
        roots = [root for reference in self._models if (root := reference()) is not None]
        if any(root is module for root in roots):
            return True
        module_ids = {id(parameter) for parameter in module.parameters()}
        for sizes in (*map(_model_sizes, roots), *map(_optimizer_sizes, self._optimizers)):
            total = sum(sizes.values())
            shared_size = sum(size for key, size in sizes.items() if key in module_ids)
            if total and shared_size >= SHARE * total:
                return True
        return False


def _with_reference(references: list[weakref.ref[Any]], target: Any) -> list[weakref.ref[Any]]:
    alive = [reference for reference in references if reference() is not None]
    if any(reference() is target for reference in alive):
        return alive
    return [*alive, weakref.ref(target)]


def _model_sizes(root: Any) -> dict[int, int]:
    """Return each trained parameter's elements, by its id."""
    return {
        id(parameter): parameter.numel()
        for parameter in root.parameters()
        if parameter.requires_grad
    }


def _optimizer_sizes(reference: weakref.ref[Any]) -> dict[int, int]:
    optimizer = reference()
    groups = getattr(optimizer, "param_groups", ())
    return {id(parameter): parameter.numel() for group in groups for parameter in group["params"]}
