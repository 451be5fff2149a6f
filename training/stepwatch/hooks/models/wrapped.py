"""Which models carry hooks of torch already, so that one more takes nothing from them."""

from __future__ import annotations

from typing import Any


def is_wrapped(model: Any) -> bool:
    """Whether DistributedDataParallel or FSDP2 has hooks of its own on `model`.

    Any hook keeps a module out of `make_graphed_callables`, out of `torch.jit.script`, and out of
    the fused inference of `TransformerEncoderLayer`: these have none of that to lose.
    """
    return hasattr(model, "require_backward_grad_sync") or hasattr(model, "set_custom_all_gather")
