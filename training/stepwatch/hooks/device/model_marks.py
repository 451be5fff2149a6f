"""Marks inside forward and backward, from hooks on a model and on a few of its blocks.

They show how far ahead the host is in the middle of a phase. If the trainer marks no phases, they
also distinguish forward from backward on the device: forward is the root module's call, backward
lasts from the first gradient of its output to the end of the graph. A compiled backward has no
marks: its time counts in the enclosing phase.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepwatch.hooks.gradients import in_backward, in_eager_backward, queue
from stepwatch.hooks.guard import guarded
from stepwatch.hooks.models.module_hooks import ModuleHook
from stepwatch.hooks.models.wrapped import is_wrapped
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.records import Phase

from .marks import DeviceMarks

MOST_BLOCKS = 8
_OTHER, _FORWARD, _BACKWARD = int(Phase.OTHER), int(Phase.FORWARD), int(Phase.BACKWARD)


class ModelMarks:
    """Puts marks on the device's timeline while a model computes."""

    def __init__(self, recorder: Recorder, marks: DeviceMarks) -> None:
        self.guard = recorder.guard
        self._recorder = recorder
        self._marks = marks

    @guarded()
    def forward_begins(self, _module: Any) -> None:
        """The root module is called; a call inside backward is part of backward."""
        if self._trains() and not in_backward():
            self._infer(_FORWARD)

    @guarded()
    def forward_ends(self, _module: Any, output: Any) -> None:
        """The root module returned `output`; backward starts from its gradient."""
        if not self._trains() or in_backward():
            return
        self._infer(_OTHER)
        for tensor in _differentiable(output):
            tensor.register_hook(in_eager_backward(self._first_gradient))

    @guarded()
    def _first_gradient(self, _gradient: Any) -> None:
        """A gradient of the root's output is ready: the model's backward begins."""
        if self._trains() and self._marks.inferred != _BACKWARD:
            self._infer(_BACKWARD)
            queue(self._backward_ends)

    @guarded()
    def _backward_ends(self) -> None:
        if self._marks.inferred == _BACKWARD:
            self._infer(_OTHER)

    @guarded()
    def block_begins(self, _module: Any) -> None:
        """A block is called."""
        self._mark()

    @guarded()
    def block_ends(self, _module: Any, output: Any) -> None:
        """A block returned `output`: its gradient shows the progress of backward."""
        if self._trains() and not in_backward():
            for tensor in _differentiable(output):
                tensor.register_hook(in_eager_backward(self._gradient))
                return

    @guarded()
    def _gradient(self, _gradient: Any) -> None:
        self._mark()

    def _trains(self) -> bool:
        active = self._marks.active and self._recorder.timeline is not None
        return active and self._recorder.thread.is_current()

    def _infer(self, phase: int) -> None:
        timeline = self._recorder.timeline
        if timeline is not None:
            self._marks.infer(self._recorder.clock(), timeline.bucket, phase)

    def _mark(self) -> None:
        timeline = self._recorder.timeline
        if timeline is not None and self._trains():
            self._marks.inside(self._recorder.clock(), timeline.bucket)


def mark_model(marks: ModelMarks, root: Any) -> list[Any]:
    """Put hooks on `root` and on a few of its blocks, if they carry torch's hooks already.

    Return the hooks' handles.
    """
    if not is_wrapped(root):
        return []
    handles = _mark(root, marks.forward_begins, marks.forward_ends)
    for block in filter(is_wrapped, blocks_of(root)):
        handles += _mark(block, marks.block_begins, marks.block_ends)
    return handles


def _mark(module: Any, begins: Any, ends: Any) -> list[Any]:
    return [
        module.register_forward_pre_hook(ModuleHook(begins)),
        module.register_forward_hook(ModuleHook(ends)),
    ]


def blocks_of(root: Any) -> list[Any]:
    """Return at most `MOST_BLOCKS` members of `root`'s longest module list, evenly spaced."""
    import torch

    kinds = (torch.nn.ModuleList, torch.nn.Sequential)
    lists = [module for module in root.modules() if isinstance(module, kinds)]
    members = list(max(lists, key=len, default=()))
    stride = -(-len(members) // MOST_BLOCKS) or 1
    return members[::stride]


def _differentiable(output: Any) -> Iterator[Any]:
    """Yield the tensors in `output` that have a graph."""
    import torch
    from torch.utils import _pytree

    for leaf in _pytree.tree_leaves(output):
        if isinstance(leaf, torch.Tensor) and leaf.grad_fn is not None:
            yield leaf
