"""Slow transfers between pipeline stages are found, and the pair named; slow stages are not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.collector.detect import slow_collective
from stepwatch.collector.detect.finding import NO_RANK, Finding
from stepwatch.collector.detect.slow_collective import Waiting, detect_between_stages
from stepwatch.signals.arrays import Vector

LIMITS = slow_collective.LIMITS
STEPS = 30


def waiting(transfer: float = 0.0, work: float = 0.0, begins: int = 10, **sends: float) -> Waiting:
    """Steps of 0.5 s, of which ranks wait 0.1 s; from one on, transfers and stages take longer."""
    later: Vector = (np.arange(STEPS) >= begins).astype(np.float64)

    def course(usual: float, more: float) -> Vector:
        seconds: Vector = usual + later * more
        return seconds

    pairs = {(int(name[1]), int(name[2])): seconds for name, seconds in sends.items()}
    return Waiting(
        numbers=np.arange(STEPS),
        seconds=course(0.5, transfer + work),
        wait=course(0.1, transfer + work),
        more=course(0.0, work),
        usual=0.1,
        sends=pairs,
        ranks={0: [0, 1], 1: [2, 3], 2: [4, 5]},
    )


def findings_of(stage_waits: Waiting) -> list[Finding]:
    return detect_between_stages(stage_waits, LIMITS)


def test_the_slow_pair_is_named_by_its_sends() -> None:
    (finding,) = findings_of(waiting(1.0, s01=0.02, s12=0.9))
    assert (finding.kind.value, finding.cause) == ("slow-collective", "slow-transfer")
    assert (finding.rank, finding.subject, finding.began_step) == (NO_RANK, "pipeline", 10)
    assert finding.confidence == "likely"
    assert "between stages 1 and 2 (ranks 2-5)" in finding.summary
    assert finding.lost_ratio == pytest.approx(1.0 / 1.5)


def test_without_sends_or_with_two_slow_pairs_no_pair_is_named() -> None:
    for stage_waits in (waiting(1.0), waiting(1.0, s01=0.9, s12=0.8)):
        (finding,) = findings_of(stage_waits)
        assert finding.subject == "pipeline" and "not known" in finding.summary
        assert finding.confidence == "one of"


def test_of_long_steps_three_are_enough() -> None:
    stage_waits = waiting(3.0, begins=STEPS - 3)
    assert len(findings_of(stage_waits)) == 1
    assert (
        findings_of(
            stage_waits._replace(seconds=stage_waits.seconds / 2.5, wait=stage_waits.wait / 2.5)
        )
        == []
    )
    assert findings_of(waiting(3.0, begins=STEPS - 2)) == []
    assert len(findings_of(waiting(4.0, begins=STEPS - 2))) == 1, "of longer ones two"


def test_a_stage_that_works_longer_is_no_transfer() -> None:
    assert findings_of(waiting(work=1.0)) == []
    assert findings_of(waiting(0.05, work=1.0)) == []
    (finding,) = findings_of(waiting(1.0, work=0.5))
    assert finding.severity == pytest.approx(1.0)


def test_a_few_slow_steps_are_nothing() -> None:
    assert findings_of(waiting(1.0, begins=STEPS - 4)) == []
    assert findings_of(waiting()) == []


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.1))
def test_noise_is_nothing_and_nan_neither(seed: int, noise: float) -> None:
    dice = np.random.default_rng(seed)
    stage_waits = waiting()
    wait = stage_waits.wait * (1.0 + noise * dice.standard_normal(STEPS))
    assert findings_of(stage_waits._replace(wait=wait)) == []
    wait[dice.integers(STEPS)] = math.nan
    assert findings_of(stage_waits._replace(wait=wait)) == []
