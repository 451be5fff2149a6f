"""The learning rate over a run."""

from __future__ import annotations

import pytest

from stepwatch.trainer.config.options import OptimizerOptions
from stepwatch.trainer.model.learning_rate import rate_at

OPTIONS = OptimizerOptions(lr=1.0, warmup=10, final_lr=0.1)


def test_the_rate_rises_to_the_peak_and_falls_to_the_floor() -> None:
    rates = [rate_at(step, 100, OPTIONS) for step in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == pytest.approx(1.0)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[100] == pytest.approx(0.1)


def test_no_warm_up_starts_at_the_peak() -> None:
    assert rate_at(0, 10, OptimizerOptions(lr=1.0, warmup=0)) == pytest.approx(1.0)
