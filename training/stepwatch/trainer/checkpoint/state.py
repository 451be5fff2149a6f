"""A checkpoint's tensors, with names that do not depend on the mesh."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from stepwatch.trainer.parallel.local_model import LocalModel

_MOMENTS = ("exp_avg", "exp_avg_sq")


def materialise_moments(model: LocalModel) -> None:
    """Allocate missing AdamW state for every parameter, as zeros."""
    for parameter in model.named_parameters().values():
        state = model.optimizer.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            for moment in _MOMENTS:
                state[moment] = torch.zeros_like(parameter, memory_format=torch.preserve_format)


def optimizer_steps(model: LocalModel) -> int:
    """Return the number of updates that the optimizer has made; the same for every parameter."""
    states = [model.optimizer.state[p] for p in model.named_parameters().values()]
    return int(states[0]["step"]) if states and "step" in states[0] else 0


def set_optimizer_steps(model: LocalModel, steps: int) -> None:
    """Set the number of updates that AdamW's bias correction uses."""
    for parameter in model.named_parameters().values():
        model.optimizer.state[parameter]["step"].fill_(float(steps))


def state_tensors(model: LocalModel) -> dict[str, Tensor]:
    """Return every tensor to save or to load into, by a name that is the same on every mesh."""
    tensors: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters().items():
        tensors[f"model.{name}"] = parameter.detach()
        state = model.optimizer.state[parameter]
        for moment in _MOMENTS:
            tensors[f"optimizer.{name}.{moment}"] = state[moment]
    return tensors


def random_key(rank: int) -> str:
    """Return the name of one rank's random-number state."""
    return f"random.{rank}"


def random_state(rank: int, device: torch.device) -> dict[str, Any]:
    """Return this rank's random-number state: uint8 tensors by name."""
    states = {random_key(rank): torch.get_rng_state()}
    if device.type != "cpu":
        module = torch.get_device_module(device)
        states[f"{random_key(rank)}.{device.type}"] = module.get_rng_state(device)
    return states


def restore_random(states: dict[str, Any], rank: int, device: torch.device) -> None:
    """Set the random-number state that `random_state` returned."""
    torch.set_rng_state(states[random_key(rank)])
    if device.type != "cpu":
        state = states[f"{random_key(rank)}.{device.type}"]
        torch.get_device_module(device).set_rng_state(state, device)
