"""The devices' wait for their hosts, as a share of the steps; unknown where one part of it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.analysis.device_use import UNKNOWN_USE, device_use, host_leads
from stepwatch.collector.state.trackers.steps.step_window import DEVICE, IDLE
from tests.collector.detect.windows import window


@given(st.floats(0.0, 1.0), st.integers(0, 1000))
def test_the_idle_part_of_the_step(share: float, seed: int) -> None:
    made = window(10, 4, noise=0.2, seed=seed)._replace(clock=DEVICE)
    for name in IDLE:
        made.planes[name][:] = share * made.planes[name.removesuffix("_idle")]
    found = device_use(made)
    work = sum(made.planes[name.removesuffix("_idle")].sum() for name in IDLE)
    assert found.idle_ratio == pytest.approx(share * work / made.planes["duration"].sum(), rel=1e-4)
    assert found.late_host_ratio is not None and found.idle_ratio is not None
    assert found.late_host_ratio <= found.idle_ratio + 1e-9, "data is the loader's"


def test_unknown_parts_leave_the_share_unknown() -> None:
    made = window(10, 4)._replace(clock=DEVICE)
    made.planes["forward_idle"][:] = 0.1
    found = device_use(made)
    assert found.idle_seconds["forward"] == pytest.approx(0.1)
    assert (found.idle_ratio, found.launch_bound, found.host_lead_seconds) == (None, None, None)


def test_nothing_is_known_on_the_hosts_clock_or_without_a_step() -> None:
    assert device_use(window(10, 4)) == UNKNOWN_USE
    assert device_use(window(0, 4)._replace(clock=DEVICE)) == UNKNOWN_USE


def test_leads_of_hosts() -> None:
    made = window(3, 3)
    made.planes["host_lead"][:, 0] = [0.1, 0.3, 0.2]
    made.planes["host_lead"][1, 2] = 0.5
    found = host_leads(made)
    np.testing.assert_allclose(found, [0.2, np.nan, 0.5], rtol=1e-6)
