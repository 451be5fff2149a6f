"""The stage that limits a pipeline is named, once, and stragglers are left to their detector."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.detect import straggler
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.pipeline_bubble import LIMITS, detect
from stepwatch.collector.detect.pipeline_bubble.inputs import with_node
from stepwatch.collector.state.evidence.step_window import WORK, Window

from .healthy import KINDS, healthy
from .windows import settle, unknown_facts, window

Baseline = dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]


def idle(step_window: Window) -> Window:
    """All waiting is for pipeline neighbours."""
    settle(step_window)
    step_window.planes["pipeline_wait"][:] = step_window.planes["collective"]
    step_window.planes["collective"][:] = 0.0
    return step_window


def baseline_of(step_window: Window, steps: int = 30) -> Baseline:
    return {
        name: np.median(step_window.planes[name][:steps], axis=0).astype(float) for name in WORK
    }


def slower(step_window: Window, stage: int, phase: str, seconds: float, since: int) -> Window:
    step_window.planes[phase][since:, step_window.stage == stage] += seconds
    return idle(step_window)


def findings_of(
    step_window: Window, baseline: Baseline, ideal: float | None = 0.1
) -> list[Finding]:
    return detect(step_window, baseline, ideal, LIMITS)


@pytest.mark.parametrize("phase", ["forward", "backward"])
@pytest.mark.parametrize(("ranks", "stages"), [(4, 2), (8, 4), (64, 4)])
def test_a_stage_all_of_whose_ranks_become_slow(ranks: int, stages: int, phase: str) -> None:
    for stage in range(stages):
        step_window = idle(window(64, ranks, stages, noise=0.1, seed=stage))
        baseline = baseline_of(step_window)
        slower(step_window, stage, phase, 0.7, since=40)
        [finding] = findings_of(step_window, baseline)
        assert (finding.kind.value, finding.cause) == ("pipeline-bubble", "stage-imbalance")
        assert (finding.subject, finding.rank) == (f"stage {stage}", -1)
        assert (finding.phase, finding.began_step) == (phase, 140)
        size = ranks // stages
        assert f"ranks {stage * size}-{(stage + 1) * size - 1}" in finding.summary
        facts = unknown_facts(ranks)
        assert straggler.detect(step_window, facts, straggler.LIMITS, baseline) == [], (
            "nobody's peers differ"
        )


def test_two_stages_of_one_slow_node_are_named_together_with_their_node() -> None:
    step_window = idle(window(64, 8, 4, noise=0.1))
    baseline = baseline_of(step_window)
    slower(step_window, 0, "forward", 0.7, since=40)
    slower(step_window, 1, "forward", 0.8, since=40)
    [finding] = findings_of(step_window, baseline)
    assert (finding.subject, finding.rank) == ("stages 0-1", -1)
    nodes = {rank: f"node-{rank // 4}" for rank in range(8)}
    named = with_node(finding, step_window.stage, nodes)
    assert named.node == "node-0" and named.summary.endswith("all of them run on node-0")
    nodes[2] = "node-1"
    assert with_node(finding, step_window.stage, nodes) == finding


@pytest.mark.parametrize(
    ("seconds", "steps", "names"),
    [(9.0, 1, False), (9.0, 2, True), (2.0, 2, False), (2.0, 3, True)],
)
def test_of_long_steps_two_or_three_are_enough_where_there_is_no_doubt(
    seconds: float, steps: int, *, names: bool
) -> None:
    step_window = idle(window(40 + steps, 8, 4, noise=0.1))
    baseline = baseline_of(step_window)
    assert (
        bool(findings_of(slower(step_window, 2, "backward", seconds, since=40), baseline)) is names
    )


@pytest.mark.parametrize(("ranks", "stages"), [(4, 2), (4, 4), (8, 2)])
def test_a_slow_rank_is_a_straggler_and_no_imbalance(ranks: int, stages: int) -> None:
    step_window = idle(window(64, ranks, stages, noise=0.1))
    baseline = baseline_of(step_window)
    step_window.planes["forward"][40:, 1] += 0.8
    idle(step_window)
    facts = unknown_facts(ranks)
    assert [
        item.rank for item in straggler.detect(step_window, facts, straggler.LIMITS, baseline)
    ] == [1]
    assert findings_of(step_window, baseline) == []


@pytest.mark.parametrize(("factor", "names"), [(1.5, False), (3.0, True)])
@pytest.mark.parametrize("ranks", [4, 8])
def test_an_imbalance_that_the_model_came_with_counts_when_large(
    ranks: int, factor: float, names: bool
) -> None:
    step_window = window(64, ranks, stages=4, noise=0.1)
    for phase in ("forward", "backward"):
        step_window.planes[phase][:, step_window.stage == 3] *= factor
    idle(step_window)
    findings = findings_of(step_window, baseline_of(step_window))
    assert [item.subject for item in findings] == (["stage 3"] if names else [])
    assert [item.rank for item in findings] == ([3 if ranks == 4 else -1] if names else [])


def test_a_stage_that_has_more_work_by_design_is_held_against_that() -> None:
    step_window = window(64, 8, stages=4, noise=0.1)
    step_window.planes["forward"][:, step_window.stage == 3] *= 1.6
    baseline = baseline_of(idle(step_window))
    assert findings_of(step_window, baseline) == []
    slower(step_window, 3, "forward", 0.9, since=45)
    [finding] = findings_of(step_window, baseline)
    assert (finding.subject, finding.began_step) == ("stage 3", 145)


def test_too_few_microbatches() -> None:
    step_window = idle(window(64, 8, stages=4, noise=0.05))
    step_window.planes["pipeline_wait"][:] = 0.5
    step_window.planes["duration"][:] = 1.4
    [finding] = findings_of(step_window, baseline_of(step_window), ideal=0.43)
    assert (finding.cause, finding.rank, finding.subject) == ("few-microbatches", -1, "schedule")
    assert "cannot do better than 43%" in finding.summary
    for ideal in (None, 0.2, 0.8):
        assert findings_of(step_window, baseline_of(step_window), ideal) == []


def test_nothing_is_said_without_a_past_or_a_pipeline() -> None:
    step_window = idle(window(64, 8, stages=2))
    baseline = baseline_of(step_window)
    slower(step_window, 1, "forward", 0.9, since=40)
    assert (
        len(findings_of(step_window, baseline))
        == len(findings_of(step_window, baseline, ideal=None))
        == 1
    )
    assert findings_of(step_window, {}) == []
    assert findings_of(step_window, {**baseline, "forward": np.full(8, np.nan)}) == []
    assert findings_of(step_window, baseline, ideal=0.9) == [], "the schedule explains the bubble"
    for stage in (0, -1):
        step_window.stage[:] = stage
        assert findings_of(step_window, baseline) == []


def test_a_stage_that_is_no_longer_slow_is_not_named() -> None:
    step_window = idle(window(64, 8, stages=2))
    baseline = baseline_of(step_window)
    step_window.planes["forward"][30:60, step_window.stage == 1] += 0.9
    assert findings_of(idle(step_window), baseline) == []


@pytest.mark.parametrize(("ranks", "stages"), [(2, 2), (4, 2), (4, 4), (8, 2), (64, 4)])
@pytest.mark.parametrize("kind", KINDS)
def test_healthy_runs_that_look_troubled_are_silent(kind: str, ranks: int, stages: int) -> None:
    for seed in range(100):
        step_window = idle(healthy(kind, ranks, stages, seed))
        assert findings_of(step_window, baseline_of(step_window)) == [], seed
        assert findings_of(step_window, baseline_of(step_window), ideal=None) == [], seed
