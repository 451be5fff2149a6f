"""Hooks of gradients and of the end of backward, and whether one runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def in_eager_backward(call: Callable[[Any], object]) -> Callable[[Any], None]:
    """A hook of a tensor: `call` with its gradient, unless backward is compiled.

    Compiled autograd traces hooks: this one leaves nothing in the graph, and breaks none.
    """
    import torch

    compiling = torch.compiler.is_compiling

    def hook(gradient: Any) -> None:
        if not compiling():
            call(gradient)

    return hook


def queue(callback: Callable[[], object]) -> None:
    """Call `callback` at the end of the backward that runs, after those that were queued before."""
    import torch

    engine: Any = torch.autograd.Variable._execution_engine
    engine.queue_callback(callback)


def in_backward() -> bool:
    """Whether this thread runs a backward now."""
    import torch

    graph: Any = torch._C
    return bool(graph._current_graph_task_id() >= 0)
