"""Detectors that found nothing are asked again once steps change, and find what they always did."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.registry import Detector, When, discover, find
from stepwatch.collector.detect.unchanged import FoundNothing
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.signals import wire
from stepwatch.signals.arrays import Rows
from stepwatch.signals.names import FindingKind
from stepwatch.signals.records import Kind
from tests.collector.detect.test_registry import finding_of_kind
from tests.collector.histories import History
from tests.collector.made import JOB, run_segments
from tests.verdicts.scenario.course.exits import exits_of
from tests.verdicts.scenario.course.timeline import Timeline
from tests.verdicts.scenario.examples import with_fault
from tests.verdicts.scenario.plan import FaultKind
from tests.verdicts.scenario.reported.segments import Agents


class Asked:
    """A detector that counts how often it is asked, and finds what it was given."""

    def __init__(self, *findings: Finding, from_steps: bool = True) -> None:
        self.times, self._found = 0, list(findings)
        self.detector = Detector(
            kinds=frozenset({FindingKind.DATA_SKEW}),
            when=When.PROGRESSING,
            order=1,
            find=self._find,
            from_steps=from_steps,
        )

    def _find(self, context: DetectionContext) -> list[Finding]:
        self.times += 1
        return self._found


def evaluations_of(detector: Asked, job: LiveJob, nothing: FoundNothing) -> int:
    """Look at a job twice more; how often the detector was asked by then."""
    for now_s in (100.0, 101.0):
        find(DetectionContext(job, now_s), [detector.detector], nothing)
    return detector.times


def test_who_found_nothing_is_asked_again_once_there_are_new_steps() -> None:
    job, step_detector, every = LiveJob(JOB), Asked(), Asked(from_steps=False)
    segments, nothing = list(run_segments(60)), FoundNothing()
    half = len(segments) // 2
    for item in segments[:half]:
        job.apply(item, Received(0.0, 100.0))
    assert evaluations_of(step_detector, job, nothing) == 1
    assert evaluations_of(every, job, nothing) == 2
    for item in segments[half:]:
        job.apply(item, Received(0.0, 100.0))
    assert evaluations_of(step_detector, job, nothing) == 2


def test_who_found_something_is_asked_each_time() -> None:
    job, nothing = LiveJob(JOB), FoundNothing()
    for item in run_segments(30):
        job.apply(item, Received(0.0, 100.0))
    assert evaluations_of(Asked(finding_of_kind(FindingKind.DATA_SKEW)), job, nothing) == 2


def test_readings_of_ranks_alone_ask_nobody_again() -> None:
    job, detector, nothing = LiveJob(JOB), Asked(), FoundNothing()
    segments = list(run_segments(30))
    for item in segments:
        job.apply(item, Received(0.0, 100.0))
    assert evaluations_of(detector, job, nothing) == 1
    last = segments[-1]
    tables: dict[Kind, Rows] = {Kind.RANK_STATE: last.tables[Kind.RANK_STATE]}
    key = last.key._replace(sequence=last.key.sequence + 1)
    job.apply(last._replace(key=key, tables=tables), Received(1.0, 101.0))
    assert evaluations_of(detector, job, nothing) == 1


@pytest.mark.parametrize("seed", range(4))
def test_whatever_comes_the_same_is_found_as_without(seed: int) -> None:
    job, nothing, detectors = LiveJob(JOB), FoundNothing(), discover()
    for segment, received in History(seed).segments(60):
        job.apply(segment, received)
        for later in (0.0, 0.5):
            now_s = received.monotonic_s + later
            context, reference = (DetectionContext(job, now_s) for _ in range(2))
            assert find(context, detectors, nothing) == find(reference, detectors)


def test_a_fault_is_found_as_without() -> None:
    scenario = replace(with_fault(FaultKind.SLOW_COMPUTE, 2, effect=1.6), step_seconds=3.0)
    scenario = replace(scenario, seconds=150.0)
    agents = Agents(scenario, Timeline(scenario), exits_of(scenario), 10**18)
    job, nothing, detectors, finding_count = LiveJob(scenario.job), FoundNothing(), discover(), 0
    for over, body in agents.deliveries():
        for segment in map(wire.decode, wire.split(body)):
            job.apply(segment, Received(10**9 + over, over))
        if job.attempts:
            context, reference = (DetectionContext(job, over, wall_s=over) for _ in range(2))
            once = find(reference, detectors)
            assert find(context, detectors, nothing) == once
            finding_count += bool(once)
    assert finding_count
