"""A detector is there because its folder is; which are asked depends on what the job does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from stepwatch.collector import detect
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding, build_finding
from stepwatch.collector.detect.registry import Detector, When, discover, failure_kinds, find
from stepwatch.collector.runtime.evaluation.evaluator import Evaluator
from stepwatch.collector.slo.asked.site import Objectives
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.store import Store
from stepwatch.signals.names import Cause, FindingKind
from tests.collector.made import JOB, HandClock, run_segments
from tests.contracts.recipes import recipe

SCRATCH, SCRATCH_TEST = recipe("A detector")


def finding_of_kind(kind: FindingKind, rank: int = 1) -> Finding:
    return build_finding(
        kind=kind,
        rank=rank,
        phase="data",
        cause=Cause.UNEVEN_SHARDS,
        summary=f"rank {rank} is found",
        began_step=3,
        began_ago_seconds=1.0,
        ratio=2.0,
        lost_ratio=0.5,
    )


def detector(kind: FindingKind, when: When, gives_way_to: FindingKind | None = None) -> Detector:
    """One that always finds its kind."""
    return Detector(
        kinds=frozenset({kind}),
        when=when,
        order=1,
        find=lambda context: [finding_of_kind(kind)],
        gives_way_to=frozenset() if gives_way_to is None else frozenset({gives_way_to}),
    )


def context(wall_s: float = 0.0) -> DetectionContext:
    job = LiveJob(JOB)
    for item in run_segments(30):
        job.apply(item, Received(wall_s, 100.0))
    return DetectionContext(job, 100.0)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "scratch_detector"
    folder.mkdir()
    (folder / "__init__.py").write_text(SCRATCH)
    monkeypatch.setattr(detect, "__path__", [*detect.__path__, str(tmp_path)])
    yield folder
    sys.modules.pop(f"{detect.__name__}.scratch_detector", None)


def test_a_folder_is_all_that_a_new_detector_needs(scratch: Path, tmp_path: Path) -> None:
    clock = HandClock(30.0)
    job = LiveJob(JOB)
    for item in run_segments(30, excess={(2, "other"): 0.3}):
        job.apply(item, Received(clock.wall_ns() / 1e9, clock.monotonic_ns() / 1e9))
    evaluator = Evaluator(Store.sqlite(tmp_path / "store.db"), Objectives({}), clock)
    evaluator.evaluate(job)
    incidents = evaluator.verdicts[JOB].open_incidents()
    (made,) = [incident for incident in incidents if incident.subject == "unmarked work"]
    assert (made.rank, made.phase) == (2, "other")
    assert "rank 2 works outside all phases since step" in made.summary


def test_the_test_of_the_recipe_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scratch_recipe.py").write_text(f"{SCRATCH}\n{SCRATCH_TEST}")
    monkeypatch.syspath_prepend(tmp_path)
    module = import_module("scratch_recipe")
    try:
        tests = [test for name, test in vars(module).items() if name.startswith("test_")]
        assert len(tests) == 3
        for test in tests:
            test()
    finally:
        sys.modules.pop("scratch_recipe", None)


def test_a_folder_without_a_detector_is_refused(scratch: Path) -> None:
    (scratch / "__init__.py").write_text("")
    with pytest.raises(LookupError, match=r"scratch_detector/.* names no DETECTORS"):
        discover()


def test_every_kind_has_a_detector_and_the_order_is_always_the_same() -> None:
    detectors = discover()
    assert frozenset().union(*(detector.kinds for detector in detectors)) == frozenset(FindingKind)
    assert detectors == discover()
    places = [(detector.when, detector.order) for detector in detectors]
    assert len(places) == len(set(places)), "two detectors of one order depend on a folder's name"
    assert failure_kinds(detectors) == {"rank-failed", "desync"}


def test_without_any_telemetry_nothing_else_is_found_and_a_stall_hides_what_is_slow() -> None:
    kinds = FindingKind
    slow = detector(kinds.DATA_SKEW, When.PROGRESSING)
    lasting = detector(kinds.NON_FINITE, When.ALWAYS)
    stalled = detector(kinds.HANG, When.STALLED)
    missing = detector(kinds.TELEMETRY_LOST, When.TELEMETRY_MISSING)
    failed = detector(kinds.RANK_FAILED, When.FAILED)
    now = context()
    for selected, expected in (
        ([lasting, slow, failed], [kinds.DATA_SKEW, kinds.NON_FINITE]),
        ([lasting, slow, stalled], [kinds.HANG, kinds.NON_FINITE]),
        ([lasting, slow, stalled, missing], [kinds.TELEMETRY_LOST, kinds.HANG, kinds.NON_FINITE]),
    ):
        assert [finding.kind for finding in find(now, selected)] == expected
    silent = DetectionContext(now.job, now.now_s + 60.0)
    assert [finding.kind for finding in find(silent, selected)] == [kinds.TELEMETRY_LOST]


def test_a_detector_gives_way_to_one_that_explains_what_it_would_find() -> None:
    desync = detector(FindingKind.DESYNC, When.STALLED)
    hang = detector(FindingKind.HANG, When.STALLED, gives_way_to=FindingKind.DESYNC)
    assert find(context(), [desync, hang]) == [finding_of_kind(FindingKind.DESYNC)]
    assert find(context(), [hang]) == [finding_of_kind(FindingKind.HANG)]
