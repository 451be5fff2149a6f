"""Initial weights: a function of seed and parameter name only, so every mesh starts equal."""

from __future__ import annotations

import hashlib
import math

import torch
from torch import nn

STANDARD_DEVIATION = 0.02
"""From GPT-2 (https://github.com/openai/gpt-2/blob/master/src/model.py) and most later decoders."""


def _generator(seed: int, name: str, device: torch.device) -> torch.Generator:
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:7], "big"))


@torch.no_grad()
def initialise(stage: nn.Module, seed: int, layers: int) -> None:
    """Fill `stage` in place, before it is sharded.

    Residual outputs are scaled by 1 / sqrt(2 x layers). The values depend on the device type: CPU
    and CUDA draw different numbers from one seed.
    """
    for name, parameter in stage.named_parameters():
        if parameter.dim() < 2:
            parameter.fill_(1.0)
            continue
        residual = name.endswith(("attention.output.weight", "feed_forward.down.weight"))
        deviation = STANDARD_DEVIATION / math.sqrt(2 * layers) if residual else STANDARD_DEVIATION
        parameter.normal_(0.0, deviation, generator=_generator(seed, name, parameter.device))
