"""Where the device's clock lies on the host's is bounded from both sides, and the bounds hold."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.hooks.device.anchor import DRIFT, Anchor


def test_the_worked_example() -> None:
    anchor = Anchor()
    assert (anchor.offset, anchor.error) == (0, None)
    anchor.enqueued(100 - 7)
    anchor.enqueued(150 - 60)
    assert (anchor.offset, anchor.error) == (93, None)
    anchor.observe(104 - 7)
    assert (anchor.offset, anchor.error) == (93, 4)


@settings(max_examples=200, deadline=None)
@given(
    offset=st.integers(-(10**15), 10**15),
    rate=st.floats(-DRIFT * 0.9, DRIFT * 0.9),
    events=st.lists(
        st.tuples(st.integers(1, 10**8), st.integers(0, 10**8), st.integers(0, 10**8)),
        min_size=1,
        max_size=30,
    ),
)
def test_the_true_offset_lies_within_the_bounds_while_the_clocks_drift(
    offset: int, rate: float, events: list[tuple[int, int, int]]
) -> None:
    """Each event: device ns after the one before, how long it waited, how late it was seen."""
    anchor = Anchor()
    device = 0
    for advance_ns, waited, delay_ns in events:
        device += advance_ns
        true = offset + round(device * rate)
        host = true + device
        anchor.move_to(host + delay_ns)
        anchor.enqueued(host - waited - device)
        anchor.observe(host + delay_ns - device)
        assert anchor.error is not None
        slack = 2 + round(10**8 * DRIFT)  # an event is read up to 0.1 s after it was passed
        assert anchor.offset - slack <= true <= anchor.offset + anchor.error + slack


def test_clocks_that_drift_faster_than_allowed_follow_the_newest_bound() -> None:
    anchor = Anchor()
    anchor.enqueued(100 - 0)
    anchor.observe(110 - 0)
    anchor.enqueued(1_130 - 1_000)
    assert (anchor.offset, anchor.error) == (130, 20)
    anchor.observe(2_100 - 2_000)
    assert (anchor.offset, anchor.error) == (70, 30)


def test_bounds_widen_with_time() -> None:
    anchor = Anchor()
    anchor.move_to(0)
    anchor.enqueued(100 - 0)
    anchor.observe(100 - 0)
    anchor.move_to(10**9)
    assert anchor.error == 2 * 10**9 * DRIFT
