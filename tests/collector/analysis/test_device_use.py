"""The devices' wait for their hosts, as a share of the steps; unknown where one part of it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.analysis.device_use import UNKNOWN_USE, device_use, host_leads
from stepwatch.collector.state.evidence.step_window import IDLE
from stepwatch.collector.step_clocks import DEVICE
from tests.collector.detect.windows import window


@given(st.floats(0.0, 1.0), st.integers(0, 1000))
def test_the_idle_part_of_the_step(share: float, seed: int) -> None:
    step_window = window(10, 4, noise=0.2, seed=seed)._replace(clock=DEVICE)
    for name in IDLE:
        step_window.planes[name][:] = share * step_window.planes[name.removesuffix("_idle")]
    usage = device_use(step_window)
    work = sum(step_window.planes[name.removesuffix("_idle")].sum() for name in IDLE)
    assert usage.idle_ratio == pytest.approx(
        share * work / step_window.planes["duration"].sum(), rel=1e-4
    )
    assert usage.late_host_ratio is not None and usage.idle_ratio is not None
    assert usage.late_host_ratio <= usage.idle_ratio + 1e-9, "data is the loader's"


def test_unknown_parts_leave_the_share_unknown() -> None:
    step_window = window(10, 4)._replace(clock=DEVICE)
    step_window.planes["forward_idle"][:] = 0.1
    usage = device_use(step_window)
    assert usage.idle_seconds["forward"] == pytest.approx(0.1)
    assert (usage.idle_ratio, usage.launch_bound, usage.host_lead_seconds) == (None, None, None)


def test_nothing_is_known_on_the_hosts_clock_or_without_a_step() -> None:
    assert device_use(window(10, 4)) == UNKNOWN_USE
    assert device_use(window(0, 4)._replace(clock=DEVICE)) == UNKNOWN_USE


def test_leads_of_hosts() -> None:
    step_window = window(3, 3)
    step_window.planes["host_lead"][:, 0] = [0.1, 0.3, 0.2]
    step_window.planes["host_lead"][1, 2] = 0.5
    leads = host_leads(step_window)
    np.testing.assert_allclose(leads, [0.2, np.nan, 0.5], rtol=1e-6)
