"""The clock behind a finding's times, as an evidence row."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding, text_evidence
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.state.evidence.step_window import Window
from stepwatch.collector.state.step_clock import step_timing
from stepwatch.collector.step_clocks import DEVICE, StepClock


def with_clock(
    context: DetectionContext, finding: Finding, clock: StepClock | None = None
) -> Finding:
    """Return `finding` with a row that names the clock that timed its steps.

    The clock is the window's, or `clock` if only the hosts' clocks timed the baseline.
    """
    window = context.window
    if (clock or window.clock) == DEVICE:
        against = f"timing events on the compute stream; {_error_words(window)}"
    else:
        against = step_timing(context.attempt).reason or "no rank sends times of a device"
    row = text_evidence("clock that timed the steps", clock or window.clock, against)
    return finding._replace(evidence=(*finding.evidence, row))


def _error_words(window: Window) -> str:
    """Return in words how far device timestamps may be off the host's clock.

    Durations do not depend on this error.
    """
    errors = window.planes["clock_error"]
    finite = errors[~np.isnan(errors)]
    error = float(np.median(finite)) if len(finite) else None
    return f"moments on the host's clock to within {in_words(error)}"
