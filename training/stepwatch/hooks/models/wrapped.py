"""Finds models that already carry torch's hooks, so that another one costs them no feature."""

from __future__ import annotations

from typing import Any


def is_wrapped(model: Any) -> bool:
    """Return whether DistributedDataParallel or FSDP2 has its own hooks on `model`.

    Any hook keeps a module out of `make_graphed_callables`, out of `torch.jit.script`, and out of
    `TransformerEncoderLayer`'s fused inference: wrapped models cannot use these anyway.
    """
    return hasattr(model, "require_backward_grad_sync") or hasattr(model, "set_custom_all_gather")
