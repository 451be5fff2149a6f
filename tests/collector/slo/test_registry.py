"""An SLI is there because its file is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwatch.collector.runtime.evaluation.evaluator import Evaluator
from stepwatch.collector.slo import slis
from stepwatch.collector.slo.asked.openslo import parse_slo
from stepwatch.collector.slo.asked.site import Objectives
from stepwatch.collector.slo.registry import discover
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.store import Store
from tests.collector.made import JOB, HandClock, run_segments

SCRATCH = """
import numpy as np

from stepwatch.collector.slo.asked.site import Objectives
from stepwatch.collector.slo.registry import Sli

SLI = Sli(
    "early-steps",
    lambda attempt: (np.where(np.arange(len(attempt.steps.busy)) < 10, attempt.steps.busy, 0.0),
                     attempt.steps.busy),
)
"""
DOCUMENT = (Path(__file__).parents[2] / "data/good/goodput.yaml").read_text()


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "slis"
    folder.mkdir()
    file = folder / "scratch_sli.py"
    file.write_text(SCRATCH)
    monkeypatch.setattr(slis, "__path__", [*slis.__path__, str(folder)])
    yield file
    sys.modules.pop(f"{slis.__name__}.scratch_sli", None)


def test_a_file_is_all_that_a_new_sli_needs(scratch: Path, tmp_path: Path) -> None:
    clock, store = HandClock(100.0), Store.sqlite(tmp_path / "store.db")
    slo = parse_slo(DOCUMENT.replace("sli: goodput", "sli: early-steps"), "early.yaml")
    job = LiveJob(JOB)
    for item in run_segments(40):
        job.apply(item, Received(clock.wall_ns() / 1e9, 0.0))
    evaluator = Evaluator(store, Objectives({slo.name: slo}), clock)
    evaluator.evaluate(job)
    (verdict,) = evaluator.verdicts[JOB].slo_statuses
    assert verdict.ratio is not None and 0.2 < verdict.ratio < 0.3
    assert store.slices(JOB, "early-steps")


def test_a_file_that_names_no_sli_of_its_own_is_refused(scratch: Path) -> None:
    assert {"early-steps", "goodput", "step-time"} <= set(discover())
    for text in ("", SCRATCH.replace("early-steps", "goodput")):
        sys.modules.pop(f"{slis.__name__}.scratch_sli")
        scratch.write_text(text)
        with pytest.raises(LookupError, match=r"must name one SLI of its own"):
            discover()
