"""A rank looks stalled when its own step time no longer explains the lack of progress."""

from __future__ import annotations

import pytest

from stepwatch.agent.stalls.trigger import (
    FIRST_STEP_SECONDS,
    LEAST_SECONDS,
    PAUSE_SECONDS,
    STEP_MULTIPLE,
    Progress,
    StallTrigger,
)
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Phase


def progress(now: float, moved: float, phase: Phase = Phase.FORWARD) -> Progress:
    return Progress(round(now * NANOSECONDS), phase, round(moved * NANOSECONDS))


@pytest.mark.parametrize(
    ("step_seconds", "phase", "allowed"),
    [
        (0.1, Phase.FORWARD, LEAST_SECONDS),
        (5.0, Phase.FORWARD, 5.0 * STEP_MULTIPLE),
        (0.1, Phase.CHECKPOINT, PAUSE_SECONDS),
        (0.1, Phase.EVAL, PAUSE_SECONDS),
    ],
)
def test_the_trigger_follows_the_ranks_own_step_time(
    step_seconds: float, phase: Phase, allowed: float
) -> None:
    trigger = StallTrigger()
    for _ in range(10):
        trigger.note_step(step_seconds)
    assert not trigger.is_stalled(progress(100 + allowed - 0.1, 100.0, phase))
    assert trigger.is_stalled(progress(100 + allowed + 0.1, 100.0, phase))


def test_the_first_step_may_take_long() -> None:
    trigger = StallTrigger()
    assert not trigger.is_stalled(progress(FIRST_STEP_SECONDS - 1, 0.0))
    assert trigger.is_stalled(progress(FIRST_STEP_SECONDS + 1, 0.0))
