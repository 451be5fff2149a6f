"""Model sizes from `sizes.toml`, with their parameter and FLOP counts."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

VOCABULARY = 256
"""A token is a byte."""


@dataclass(frozen=True)
class ModelSize:
    """The decoder's shape: counts, and the base of the rotary frequencies."""

    name: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    feed_forward: int
    rotary_base: float

    @property
    def head_width(self) -> int:
        """One attention head's width."""
        return self.width // self.heads

    @property
    def layer_parameters(self) -> int:
        """Weights in one layer that matrix products use."""
        attention = self.width * self.head_width * (2 * self.heads + 2 * self.kv_heads)
        return attention + 3 * self.width * self.feed_forward

    @property
    def parameters(self) -> int:
        """All trainable weights: embedding, layers with their two norms, last norm, head."""
        norms = (2 * self.layers + 1) * self.width
        return 2 * VOCABULARY * self.width + self.layers * self.layer_parameters + norms

    def flops_per_token(self, sequence_length: int) -> float:
        """Return training FLOPs per token: 6 per matrix weight, and those for attention.

        Attention takes 12 x layers x width x length. The convention is from PaLM, appendix B
        (https://arxiv.org/abs/2204.02311): recomputation does not count, and attention counts in
        full although the causal half is never needed.
        """
        weights = self.layers * self.layer_parameters + VOCABULARY * self.width
        return 6.0 * weights + 12.0 * self.layers * self.width * sequence_length


@cache
def model_sizes() -> dict[str, ModelSize]:
    """Read every size in `sizes.toml`, by name."""
    text = files("stepwatch.trainer.config").joinpath("sizes.toml").read_text(encoding="utf-8")
    return {name: ModelSize(name=name, **row) for name, row in tomllib.loads(text).items()}
