"""Activation checkpointing: recomputes activations in backward instead of keeping them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from .decoder import DecoderStage, RunBody

_Body = Callable[[Tensor, Tensor], Tensor]

_KEPT = frozenset(
    {
        torch.ops.aten.mm.default,
        torch.ops.aten._scaled_dot_product_flash_attention.default,
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
        torch.ops.aten._scaled_dot_product_efficient_attention.default,
        torch.ops.aten._scaled_dot_product_cudnn_attention.default,
    }
)
"""Results that selective checkpointing keeps, because recomputing them costs most."""


def _keep_costly(_context: Any, op: Any, *_args: Any, **_kwargs: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if op in _KEPT else CheckpointPolicy.PREFER_RECOMPUTE


def _full(body: _Body, hidden: Tensor, angles: Tensor) -> Tensor:
    return checkpoint(body, hidden, angles, use_reentrant=False)  # type: ignore[no-any-return]


def _selective(body: _Body, hidden: Tensor, angles: Tensor) -> Tensor:
    contexts = partial(create_selective_checkpoint_contexts, _keep_costly)
    return checkpoint(body, hidden, angles, use_reentrant=False, context_fn=contexts)  # type: ignore[no-any-return]


_KINDS: dict[str, RunBody] = {"full": _full, "selective": _selective}


def checkpoint_activations(stage: DecoderStage, kind: str) -> None:
    """Set every layer in `stage` to recompute all (`full`) or some (`selective`) activations.

    `keep` changes nothing.
    """
    if kind in _KINDS:
        for layer in stage.layers.values():
            layer.run_body = _KINDS[kind]  # type: ignore[assignment]
