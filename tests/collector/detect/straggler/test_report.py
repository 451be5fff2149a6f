"""What a finding on a slow rank says of the job's usual step."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from stepwatch.collector.detect.straggler.report import _lost, _usual_step
from stepwatch.collector.detect.straggler.steps import EvaluatedSteps, SlowRank

SECONDS = np.array([0.2, 0.2, 0.5, 0.6, 0.5])


@pytest.mark.parametrize(
    ("shows", "of", "usual"),
    [([2, 3, 4], 5, 0.2), ([2, 4], 3, 0.6), ([2, 3, 4], 3, 0.1)],
)
def test_the_usual_step_lies_between_slow_ones_or_is_what_the_peers_make_it(
    shows: list[int], of: int, usual: float
) -> None:
    none = np.zeros(5)
    slow = SlowRank(1, "forward", none, none, shows[0], np.array(shows), of)
    steps = cast(EvaluatedSteps, SimpleNamespace(step_seconds=SECONDS))
    found = _usual_step(slow, steps, 0.1)
    assert found == pytest.approx(usual)
    assert math.isfinite(_lost(slow, steps, found))
