"""Model FLOP utilisation: what the model needed over what the devices could do."""

from __future__ import annotations

import tomllib
from importlib.resources import files


def peak_flops(device_name: str, precision: str) -> float | None:
    """Peak FLOP/s of one device in `precision`; None where `peaks.toml` has no entry."""
    text = files("stepwatch.trainer.run").joinpath("peaks.toml").read_text(encoding="utf-8")
    for part, row in tomllib.loads(text).items():
        if part in device_name:
            peak = row.get(precision)
            return None if peak is None else float(peak)
    return None


def model_flops_utilisation(
    tokens_per_second: float | None, flops_per_token: float, devices: int, peak: float | None
) -> float | None:
    """Share of the devices' peak that went into the model; None where rate or peak is unknown."""
    if tokens_per_second is None or peak is None:
        return None
    return tokens_per_second * flops_per_token / (devices * peak)
