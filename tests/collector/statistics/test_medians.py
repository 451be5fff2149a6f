"""Fast medians and quantiles have the bits of numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.statistics.medians import median, medians, quantiles
from stepwatch.signals.arrays import FloatMatrix


@pytest.mark.parametrize("count", [1, 2, 3, 8, 60, 61, 600])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_medians_are_numpys(count: int, kind: type) -> None:
    random = np.random.default_rng(count)
    values: FloatMatrix = random.lognormal(0.0, 3.0, (5, count)).astype(kind)
    values[1, count // 2] = np.nan
    expected = np.median(values, axis=1)
    assert medians(values).tobytes() == expected.tobytes()
    assert [median(row) for row in values[2:]] == expected[2:].tolist()


@pytest.mark.parametrize("count", [1, 2, 3, 8, 60, 61, 600])
def test_quantiles_are_numpys(count: int) -> None:
    values = np.random.default_rng(count).lognormal(0.0, 3.0, count)
    shares = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
    assert quantiles(values, shares) == np.quantile(values, shares).tolist()
    values[count // 2] = np.nan
    assert np.isnan(quantiles(values, shares)).all()
