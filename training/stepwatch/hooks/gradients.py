"""Hooks on gradients and on the end of backward, and a check for a running backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def in_eager_backward(call: Callable[[Any], object]) -> Callable[[Any], None]:
    """Return a tensor hook: `call` with the gradient, unless backward is compiled.

    Compiled autograd traces hooks: this one adds nothing to the graph, and breaks none.
    """
    import torch

    compiling = torch.compiler.is_compiling

    def hook(gradient: Any) -> None:
        if not compiling():
            call(gradient)

    return hook


def queue(callback: Callable[[], object]) -> None:
    """Call `callback` at the end of the running backward, after the callbacks queued before."""
    import torch

    engine: Any = torch.autograd.Variable._execution_engine
    engine.queue_callback(callback)


def in_backward() -> bool:
    """Return whether this thread runs a backward now."""
    import torch

    graph: Any = torch._C
    return bool(graph._current_graph_task_id() >= 0)
