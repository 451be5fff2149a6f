from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.state.newest_rows import NewestRows

ROW = np.dtype([("step", "<u4"), ("number", "<i8")])


@pytest.mark.parametrize("most", [1, 500, 5000, 20_000])
def test_rows_of_some_steps_are_those_a_look_at_all_rows_finds(most: int) -> None:
    dice = np.random.Generator(np.random.SFC64(3))
    retained, arrived = NewestRows(ROW, most), np.zeros(0, dtype=ROW)
    for step in range(0, 6000, 60):
        count = int(dice.integers(0, 700))
        fresh = np.zeros(count, dtype=ROW)
        fresh["step"] = np.maximum(step + dice.integers(-2000, 60, count), 0)
        fresh["number"] = len(arrived) + np.arange(count)
        retained.add({"step": fresh["step"], "number": fresh["number"]})
        arrived = np.concatenate([arrived, fresh])
        for first, last in ((step - 64, step), (0, 3), (step - 1500, step - 1400), (9, 8)):
            # Room is a power of two until it is all that there may be.
            newest = arrived[-min(len(retained), len(arrived)) :] if len(arrived) else arrived
            wanted = newest[(newest["step"] >= max(first, 0)) & (newest["step"] <= max(last, 0))]
            np.testing.assert_array_equal(retained.of_steps(first, last), wanted)
