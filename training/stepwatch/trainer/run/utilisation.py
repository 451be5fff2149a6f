"""Model FLOP utilisation: the model's FLOPs over the devices' peak."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import torch


def peak_flops(device_name: str, precision: str) -> float | None:
    """Return one device's peak FLOP/s in `precision`; None if `peaks.toml` has no entry."""
    text = files("stepwatch.trainer.run").joinpath("peaks.toml").read_text(encoding="utf-8")
    for name, row in tomllib.loads(text).items():
        if name in device_name:
            peak = row.get(precision)
            return None if peak is None else float(peak)
    return None


def peak_of(device: torch.device, precision: str) -> float | None:
    """Return a device's peak FLOP/s in `precision`; None if unknown."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return peak_flops(name, precision)


def model_flops_utilisation(
    tokens_per_second: float | None, flops_per_token: float, devices: int, peak: float | None
) -> float | None:
    """Return the used fraction of the devices' peak; None if rate or peak is unknown."""
    if tokens_per_second is None or peak is None:
        return None
    return tokens_per_second * flops_per_token / (devices * peak)
