"""Model FLOP utilisation."""

from __future__ import annotations

import pytest

from stepwatch.trainer.run.utilisation import model_flops_utilisation, peak_flops


def test_utilisation_is_unknown_where_the_peak_is() -> None:
    assert peak_flops("cpu", "bf16") is None
    assert peak_flops("NVIDIA H200", "fp32") is None
    peak = peak_flops("NVIDIA H200", "bf16")
    assert peak == pytest.approx(989.5e12)
    assert model_flops_utilisation(None, 1e9, 1, peak) is None
    assert model_flops_utilisation(1e5, 1e9, 1, None) is None
    assert model_flops_utilisation(98_950.0, 1e10, 2, peak) == pytest.approx(0.5)
