"""The page words a value as the command line does."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from stepwatch.collector.quantities import device_time, quantity
from tests.collector.page.test_bundle import SOURCES

VALUES: list[tuple[float | None, str]] = [
    (0.0, "seconds"),
    (0.000068, "seconds"),
    (0.6871, "seconds"),
    (0.9996, "seconds"),
    (61.5, "seconds"),
    (744.0, "seconds"),
    (11_520.0, "seconds"),
    (0.452, "seconds ago"),
    (67_108_864.0, "bytes"),
    (1.5e6, "bytes_per_second"),
    (0.54, "ratio"),
    (3.0, "ranks"),
    (1.0, "ranks"),
    (1.0, "steps"),
    (1.0, "CPUs"),
    (0.0213, "per second"),
    (20_480.0, "tokens"),
    (25.0, "step"),
    (48_879.0, "digest"),
    (-9.0, ""),
    (None, "bytes"),
]


def test_the_page_words_a_value_as_the_command_line_does() -> None:
    calls = [["measure", value, unit] for value, unit in VALUES]
    calls += [["deviceTime", value] for value, _ in VALUES]
    words = ["node", str(Path("tests/evaluate.mjs"))]
    ran = subprocess.run(
        words, cwd=SOURCES, input=json.dumps(calls), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    expected = [quantity(value, unit) for value, unit in VALUES]
    assert json.loads(ran.stdout) == expected + [device_time(value) for value, _ in VALUES]
