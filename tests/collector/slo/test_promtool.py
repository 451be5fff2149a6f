"""Windows of the engine beside Prometheus' own arithmetic over the series that are exported.

Where both can know the same they agree: a window is a difference of two sums for either. Where they
cannot, the tests say how they differ:

- before a window is full Prometheus has no value at its beginning, and none of the window; the
  engine has what there is since the job began;
- what is amended afterwards (steps that a later attempt does again) changes the engine's sums of
  the past, but not the samples that Prometheus scraped then: until the amended part leaves the
  window, its figure is off by what was amended before the window began.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from stepwatch.collector.slo.slice_line import SliceLine
from stepwatch.collector.store.slices import SLICE_SECONDS, Slice

START, COUNT = 1_800_000_000 // SLICE_SECONDS * SLICE_SECONDS, 240
WINDOWS = (60, 600, 1800)
GOOD, TOTAL = "stepwatch_sli_good_device_seconds", "stepwatch_sli_device_seconds"


def history(seed: int, gaps: bool) -> list[Slice]:
    """Slices of forty minutes, some all bad; with `gaps` of some minutes in which nothing ran."""
    random = np.random.default_rng(seed)
    slices, sums = [], [0.0, 0.0]
    missing = set()
    if gaps:
        for first in random.integers(20, COUNT - 40, 2):
            missing |= {*range(first, first + int(random.integers(3, 25)))}
    for number in range(COUNT):
        if number in missing:
            continue
        total = round(float(random.uniform(10, 80)), 6)
        good = round(total * float(random.choice([1.0, 1.0, 1.0, 0.5, 0.0])), 6)
        sums = [round(sums[0] + good, 6), round(sums[1] + total, 6)]
        start = START + number * SLICE_SECONDS
        slices.append(Slice(start, 1, good, total, 4, 4, sums[0], sums[1], SLICE_SECONDS))
    return slices


def exported(slices: Sequence[Slice]) -> tuple[list[float], list[float]]:
    """Good and total as scraped just after each slice of the grid ended, from 0 on."""
    good, total = [0.0], [0.0]
    by_start = {part.start_s: part for part in slices}
    for number in range(COUNT):
        part = by_start.get(START + number * SLICE_SECONDS)
        good.append(good[-1] if part is None else part.cumulative_good)
        total.append(total[-1] if part is None else part.cumulative_total)
    return good, total


def engine(slices: Sequence[Slice], number: int, seconds: int) -> float:
    """The engine's ratio of the window that ends with slice `number - 1`."""
    # Just before the next slice begins.
    slice_window = SliceLine(slices).window(START + number * SLICE_SECONDS - 1e-3, seconds - 1e-3)
    return float(slice_window.good / slice_window.total) if slice_window.total else float("nan")


def agreement(
    folder: Path, series: Mapping[str, Sequence[float]], tests: list[dict[str, Any]]
) -> str:
    """What promtool has to say of the expressions; empty where all hold."""
    document = {
        "evaluation_interval": f"{SLICE_SECONDS}s",
        "tests": [
            {
                "interval": f"{SLICE_SECONDS}s",
                "input_series": [
                    {"series": name, "values": " ".join(map(repr, values))}
                    for name, values in series.items()
                ],
                "promql_expr_test": tests,
            }
        ],
    }
    path = folder / "windows.test.yaml"
    path.write_text(yaml.safe_dump(document))
    tool = shutil.which("promtool")
    assert tool, "promtool is missing; install it with: make tools"
    words = [tool, "test", "rules", str(path)]
    process = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    return "" if process.returncode == 0 else process.stdout + process.stderr


def ratio(name: str, seconds: int) -> str:
    """The exported expression of a window."""
    label = f'{{job_name="{name}"}}'
    parts = [f"({metric}{label} - {metric}{label} offset {seconds}s)" for metric in (GOOD, TOTAL)]
    return " / ".join(parts)


def expects(expression: str, value: float, number: int, name: str) -> dict[str, Any]:
    """That an expression is a value, to nine digits."""
    return {
        "expr": f"abs({expression} - {value!r}) < bool 1e-9",
        "eval_time": f"{number * SLICE_SECONDS}s",
        "exp_samples": [{"labels": f'{{job_name="{name}"}}', "value": 1}],
    }


@pytest.mark.parametrize("gaps", [False, True])
def test_windows_are_what_prometheus_makes_of_the_exported_sums(tmp_path: Path, gaps: bool) -> None:
    series: dict[str, Sequence[float]] = {}
    tests = []
    for seed in range(12):
        name, slices = f"job-{seed}", history(seed, gaps)
        good, total = exported(slices)
        series[f'{GOOD}{{job_name="{name}"}}'] = good
        series[f'{TOTAL}{{job_name="{name}"}}'] = total
        for seconds in WINDOWS:
            first = seconds // SLICE_SECONDS
            for number in np.random.default_rng(seed).integers(first, COUNT, 8).tolist():
                value = engine(slices, number, seconds)
                if not np.isnan(value):
                    tests.append(expects(ratio(name, seconds), value, number, name))
    assert len(tests) > 200
    assert agreement(tmp_path, series, tests) == ""
    tests[0] = expects(ratio("job-0", 60), 2.0, 10, "job-0")
    assert "FAILED" in agreement(tmp_path, series, tests), "a wrong figure is noticed"


def test_before_a_window_is_full_only_the_engine_knows_one(tmp_path: Path) -> None:
    slices = history(1, gaps=False)
    good, total = exported(slices)
    series = {f'{GOOD}{{job_name="a"}}': good, f'{TOTAL}{{job_name="a"}}': total}
    assert 0 <= engine(slices, 30, 1800) <= 1
    nothing = {"expr": ratio("a", 1800), "eval_time": "300s", "exp_samples": []}
    assert agreement(tmp_path, series, [nothing]) == ""


def test_what_is_amended_before_a_window_began_moves_prometheus_alone(tmp_path: Path) -> None:
    """Slices 100 to 109 turn bad when slice 150 is written: the good they had leaves the sums."""
    slices = history(3, gaps=False)
    amended_s = sum(part.good for part in slices[100:110])
    amended, sums = [], 0.0
    for number, part in enumerate(slices):
        good = 0.0 if 100 <= number < 110 else part.good
        sums = round(sums + good, 6)
        amended.append(part._replace(good=good, cumulative_good=sums))
    original_rows, total = exported(slices)
    amended_rows, _ = exported(amended)
    scraped = original_rows[:151] + amended_rows[151:]
    series = {f'{GOOD}{{job_name="a"}}': scraped, f'{TOTAL}{{job_name="a"}}': total}
    # The window of ten minutes at 180 begins with slice 120, between the amended ones and 150.
    value = engine(amended, 180, 600)
    window_total = total[180] - total[120]
    # At 220 it begins after the amendment was written, and both agree again.
    tests = [
        expects(ratio("a", 600), value - amended_s / window_total, 180, "a"),
        expects(ratio("a", 600), engine(amended, 220, 600), 220, "a"),
    ]
    assert amended_s > 0 and agreement(tmp_path, series, tests) == ""
