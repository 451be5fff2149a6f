"""The loss across a resume: continued, not continued, or unknown."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.detect.loss_anomaly.detector import LIMITS
from stepwatch.collector.detect.loss_anomaly.resumes import loss_across
from stepwatch.signals.arrays import Vector


def descent(steps: int, seed: int, noise: float = 0.1) -> Vector:
    """Losses that fall from 4 to 1, with a noise in each step."""
    table: Vector = 1.0 + 3.0 * np.exp(-np.arange(steps) / 20.0)
    return table + np.random.default_rng(seed).normal(0.0, noise, steps)


@pytest.mark.parametrize("saved", [12, 30, 60, 200])
@pytest.mark.parametrize("seed", range(20))
def test_a_loss_that_goes_on_has_continued_or_is_unknown(saved: int, seed: int) -> None:
    losses = descent(saved + 20, seed)
    across = loss_across(losses[:saved], losses[saved:], losses, LIMITS)
    assert across.continued is not False
    if saved >= 30:  # before that a return to the first losses is not far enough
        assert across.continued is True
    assert across.before == pytest.approx(np.median(losses[saved - 5 : saved]))
    assert across.after == pytest.approx(np.median(losses[saved : saved + 5]))


@pytest.mark.parametrize("saved", [30, 60, 200])
@pytest.mark.parametrize("seed", range(20))
def test_a_loss_that_begins_again_has_not_continued(saved: int, seed: int) -> None:
    losses, again = descent(saved, seed), descent(20, seed + 100)
    assert loss_across(losses, again, losses, LIMITS).continued is False


@pytest.mark.parametrize("seed", range(20))
def test_a_small_jump_beyond_the_noise_has_not_continued(seed: int) -> None:
    losses = descent(220, seed, noise=0.005)
    losses[200:] += 0.06  # six percent: far below a spike that pages
    assert loss_across(losses[:200], losses[200:], losses, LIMITS).continued is False


def test_one_bad_batch_is_no_jump() -> None:
    losses = descent(220, 0)
    losses[200] = 9.0
    assert loss_across(losses[:200], losses[200:], losses, LIMITS).continued is True


@pytest.mark.parametrize(("before", "after"), [(9, 20), (60, 4), (0, 20), (60, 0)])
def test_too_few_steps_are_unknown(before: int, after: int) -> None:
    losses = descent(80, 0)
    across = loss_across(losses[:before], losses[60:][:after], losses, LIMITS)
    assert across.continued is None
    assert (across.before is None) == (not before) and (across.after is None) == (not after)


def test_a_loss_that_has_not_fallen_shows_nothing() -> None:
    losses = 2.0 + np.random.default_rng(0).normal(0.0, 0.1, 80)
    assert loss_across(losses[:60], losses[60:], losses, LIMITS).continued is None
