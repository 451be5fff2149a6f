"""Thresholds: each has unit and reason, and a site file changes them for one job class."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, fields
from inspect import get_annotations
from pathlib import Path

import pytest

from stepwatch.agent.probes.disk.latency import LIMITS as DISK
from stepwatch.agent.probes.host.limits import LIMITS as HOST
from stepwatch.agent.probes.topology.placement import LIMITS as TOPOLOGY
from stepwatch.collector.detect import data_skew, straggler
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.registry import discover, find
from stepwatch.collector.detect.thresholds import (
    read_changes,
    read_thresholds,
    reasons,
    shipped_thresholds,
)
from stepwatch.collector.detect.unchanged import steps_state
from stepwatch.collector.nodes.limits import LIMITS as NODES
from stepwatch.collector.runtime.evaluation.evaluator import Evaluator
from stepwatch.collector.slo.asked.site import Objectives, read_objectives
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.store import Store
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.records import Kind
from tests.collector.made import EPOCH, JOB, HandClock, run_segments

SITE = """
classes:
  research:
    slos: [goodput]
    thresholds:
      straggler: {least_ratio: 3.0, least_device_ratio: 3}
      data-skew: {window_steps: [24]}
      slow-collective:
        least_steps: 7
  production:
    slos: [goodput]
  "*":
    slos: []
    thresholds:
      telemetry: {least_seconds: 60}
"""
EVERY = {
    **shipped_thresholds(),
    "disk": DISK,
    "host": HOST,
    "topology": TOPOLOGY,
    "nodes": NODES,
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "site.yaml"
    path.write_text(SITE)
    return path


def slow_job(job_class: str) -> LiveJob:
    """A job in which rank 2's forward takes twice as long as its peers'."""
    job = LiveJob(JOB)
    for segment in run_segments(60, excess={(2, "forward"): 0.05}):
        segment.tables[Kind.RANK_STATE]["job_class"] = job_class.encode()
        job.apply(segment, Received(EPOCH + 100.0, 100.0))
    assert job.current.job_class == job_class
    return job


def stragglers(job: LiveJob, objectives: Objectives) -> list[Finding]:
    changed = objectives.thresholds_for(job.current.job_class)
    findings = find(DetectionContext(job, 100.0, thresholds=changed), discover())
    return [finding for finding in findings if finding.kind.value == "straggler"]


@pytest.mark.parametrize("name", EVERY)
def test_each_threshold_has_a_unit_and_a_reason(name: str) -> None:
    limits = EVERY[name]
    documented = reasons(limits)
    assert list(documented) == list(get_annotations(type(limits)))
    for reason in documented.values():
        assert reason.unit and len(reason.unit) < 30 and reason.text.endswith(".")


def test_thresholds_cannot_be_assigned() -> None:
    with pytest.raises(FrozenInstanceError):
        straggler.LIMITS.least_ratio = 2.0  # type: ignore[misc]


def test_a_changed_threshold_changes_the_verdict_for_its_class_only(site: Path) -> None:
    objectives = read_objectives(None, site)._replace(thresholds=read_thresholds(site))
    (finding,) = stragglers(slow_job("production"), objectives)
    assert finding.rank == 2
    assert stragglers(slow_job("unlisted"), objectives)
    assert stragglers(slow_job("research"), objectives) == []
    assert stragglers(slow_job("research"), read_objectives(None, site)), "without the change"


def test_the_evaluation_uses_the_thresholds_of_the_class(site: Path, tmp_path: Path) -> None:
    objectives = Objectives({}, thresholds=read_thresholds(site))
    for job_class, kinds in (("research", set()), ("experiment", {"straggler"})):
        store = Store.sqlite(tmp_path / f"{job_class}.db")
        evaluator = Evaluator(store, objectives, HandClock(100.0))
        evaluator.evaluate(slow_job(job_class))
        assert {incident.kind for incident in evaluator.verdicts[JOB].open_incidents()} == kinds


def test_a_class_has_its_own_changes_or_those_of_all_others(site: Path) -> None:
    objectives = read_objectives(None, site)._replace(thresholds=read_thresholds(site))
    research = objectives.thresholds_for("research")
    changed = research[type(straggler.LIMITS)]
    assert (changed.least_ratio, changed.least_device_ratio) == (3.0, 3.0)
    assert isinstance(changed.least_device_ratio, float)
    assert research[type(data_skew.LIMITS)].window_steps == (24,)
    assert changed.least_steps == straggler.LIMITS.least_steps
    assert len(research) == 3
    assert objectives.thresholds_for("production") == {}
    (others,) = objectives.thresholds_for("unlisted").values()
    assert others.least_seconds == 60.0
    assert read_thresholds(None) == {} and read_objectives().thresholds_for("research") == {}
    assert [change.line for change in read_changes(site, "unlisted")] == [15]
    assert "thresholds of classes changed" in objectives.changes_since(read_objectives(None, site))


def test_detectors_without_findings_run_again_after_a_change(site: Path) -> None:
    job = slow_job("research")
    changed = read_thresholds(site)["research"]
    shipped, site_state = (
        steps_state(DetectionContext(job, 100.0, thresholds=thresholds))
        for thresholds in (None, changed)
    )
    assert shipped is not None and shipped != site_state
    assert site_state == steps_state(DetectionContext(job, 101.0, thresholds=dict(changed)))


@pytest.mark.parametrize(
    ("written", "place", "problem"),
    [
        ("stragler: {least_ratio: 3}", "stragler", "no such detector; did you mean 'straggler'?"),
        ("slow_collective: {}", "slow_collective", "did you mean 'slow-collective'?"),
        ("pause: {quiet: 9}", "pause.quiet", "no such threshold; did you mean 'quiet_seconds'?"),
        ("pause: {zz: 9}", "pause.zz", "`stepwatch thresholds pause` lists them"),
        ("straggler: {least_ratio: fast}", "straggler.least_ratio", "write a number above 0"),
        ("straggler: {least_ratio: true}", "straggler.least_ratio", "write a number above 0"),
        ("straggler: {least_ratio: .inf}", "straggler.least_ratio", "write a number above 0"),
        ("straggler: {least_ratio: 0}", "straggler.least_ratio", "above 0, such as 1.5"),
        ("straggler: {least_steps: -3}", "straggler.least_steps", "a whole number above 0"),
        ("straggler: {least_steps: 2.5}", "straggler.least_steps", "a whole number above 0"),
        ("data-skew: {window_steps: 24}", "window_steps", "above 0, such as [8, 16, 32"),
        ("data-skew: {window_steps: []}", "window_steps", "list of whole numbers"),
        ("straggler: {least_ratio: 0.5}", "straggler.least_ratio", "a ratio above 1, such as 1.5"),
        ("straggler: {least_steps: 9}", "straggler.least_steps", "no verdict is possible"),
        ("straggler: 3", "straggler", "write its thresholds with their values"),
    ],
)
def test_a_wrong_threshold_is_refused_in_one_line(
    tmp_path: Path, written: str, place: str, problem: str
) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(f"classes:\n  a:\n    slos: []\n    thresholds:\n      {written}\n")
    with pytest.raises(ConfigurationError) as refusal:
        read_thresholds(site)
    (line,) = str(refusal.value).splitlines()
    assert line.startswith(f"{site}:5: classes.a.thresholds.")
    assert f"{place}: " in line and problem in line


def test_every_shipped_threshold_may_be_written_in_a_site_file(tmp_path: Path) -> None:
    site, shipped = tmp_path / "site.yaml", shipped_thresholds()
    written = {
        name: {field.name: getattr(limits, field.name) for field in fields(limits)}
        for name, limits in shipped.items()
    }
    thresholds = json.dumps(written)
    site.write_text(f"classes: {{a: {{slos: [], thresholds: {thresholds}}}}}")
    read = read_thresholds(site)["a"]
    assert read == {type(limits): limits for limits in shipped.values()}


def test_an_unreadable_site_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no such file; pass --site FILE"):
        read_thresholds(tmp_path / "none.yaml")
    site = tmp_path / "site.yaml"
    site.write_text("classes:\n  a: {slos: [], thresholds: [straggler]}\n")
    with pytest.raises(ConfigurationError, match="write detectors with thresholds, such as"):
        read_thresholds(site)
