"""The tensors of a checkpoint, under names that do not depend on the mesh."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from stepwatch.trainer.parallel.assemble import Share

_MOMENTS = ("exp_avg", "exp_avg_sq")


def materialise_moments(share: Share) -> None:
    """Give every parameter its (zero) AdamW state, so that there is something to load into."""
    for parameter in share.named_parameters().values():
        state = share.optimizer.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            for moment in _MOMENTS:
                state[moment] = torch.zeros_like(parameter, memory_format=torch.preserve_format)


def optimizer_steps(share: Share) -> int:
    """Updates the optimizer has made; the same for every parameter."""
    states = [share.optimizer.state[p] for p in share.named_parameters().values()]
    return int(states[0]["step"]) if states and "step" in states[0] else 0


def set_optimizer_steps(share: Share, steps: int) -> None:
    """Tell AdamW how many updates it has made (its bias correction depends on it)."""
    for parameter in share.named_parameters().values():
        share.optimizer.state[parameter]["step"].fill_(float(steps))


def state_tensors(share: Share) -> dict[str, Tensor]:
    """Every tensor to save, or to load into, by a name that is the same under any mesh."""
    tensors: dict[str, Tensor] = {}
    for name, parameter in share.named_parameters().items():
        tensors[f"model.{name}"] = parameter.detach()
        state = share.optimizer.state[parameter]
        for moment in _MOMENTS:
            tensors[f"optimizer.{name}.{moment}"] = state[moment]
    return tensors


def random_key(rank: int) -> str:
    """Name of one rank's random-number state."""
    return f"random.{rank}"


def random_state(rank: int, device: torch.device) -> dict[str, Any]:
    """This rank's random-number state: uint8 tensors by name."""
    states = {random_key(rank): torch.get_rng_state()}
    if device.type == "cuda":
        states[f"{random_key(rank)}.cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore_random(states: dict[str, Any], rank: int, device: torch.device) -> None:
    """Set the random-number state that `random_state` took."""
    torch.set_rng_state(states[random_key(rank)])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[f"{random_key(rank)}.cuda"], device)
