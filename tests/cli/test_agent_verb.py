"""`stepwatch agent`: what it refuses, in one line that says what to do."""

from __future__ import annotations

import pytest

from stepwatch.cli.main import main

USAGE = 2


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "61"])
def test_an_interval_that_no_ring_can_wait_for(
    capsys: pytest.CaptureFixture[str], seconds: str
) -> None:
    assert main(["agent", "--flush-seconds", seconds]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert "--flush-seconds" in line and "at most 60" in line
