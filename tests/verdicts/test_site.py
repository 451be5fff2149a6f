"""Runs are real, and none of their processes survives them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.services import ServiceError
from tests.verdicts.cases import Draw, cases
from tests.verdicts.run import run
from tests.verdicts.site import Site, is_alive

pytest.importorskip("torch", reason="the ranks need torch")


@pytest.mark.long(
    "tests/hangs/test_hangs.py::test_a_rank_that_sleeps_is_a_ticket_with_its_line",
)
def test_a_stopped_rank_is_named_and_nothing_is_left_running(tmp_path: Path) -> None:
    case = next(case for case in cases() if case.name == "stop")
    # The kernel log of other tests' processes must not be evidence about these ranks.
    site = Site(tmp_path, tmp_path / "rings", ("--kernel-log", "/dev/null"))
    try:
        site.start()
        ran = run(case, site)
        pids = site.launch(Draw("left", 0).plan(folder=str(tmp_path)))
    finally:
        site.close()
    assert ran.problem == ""
    assert [item.kind for item in ran.outcome.verdicts] == ["hang"]
    assert ran.outcome.verdicts[0].rank == Draw("stop", 0).rank
    assert ran.step_seconds > 0
    deadline = time.monotonic() + 30
    while any(map(is_alive, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_site_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "store.db").mkdir()
    site = Site(tmp_path, tmp_path / "rings")
    try:
        with pytest.raises(ServiceError, match="store"):
            site.start()
    finally:
        site.close()
