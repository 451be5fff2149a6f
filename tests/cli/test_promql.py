"""Holding queries against the exported metrics."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.cli import promql
from stepwatch.signals.names import METRICS, Metric

SERIES = promql.exported(METRICS)


@pytest.mark.parametrize(
    "query",
    [
        "stepwatch_job_running",
        'max by (job_name) (stepwatch_job_running{job_name="x", instance="y"})',
        "rate(stepwatch_step_duration_seconds_count[$__rate_interval])",
        "histogram_quantile(0.9, sum by (le) (rate(stepwatch_step_duration_seconds_bucket[5m])))",
        "stepwatch_job_step * on (job_name) group_left (job_class) stepwatch_job_info",
        "stepwatch_job_step - on (job_name) stepwatch_checkpoint_verified_step",
        "sum without (instance) (stepwatch_job_running) or stepwatch_job_step",
        "label_values(stepwatch_job_info, job_name)",
        "max_over_time(stepwatch_job_running[10m:1m] offset 5m)",
        "absent(stepwatch_collector_jobs)",
    ],
)
def test_a_query_that_fits(query: str) -> None:
    assert promql.read(query, SERIES).problems == []


def test_a_recording_rule_may_read_itself() -> None:
    name = "job_name:stepwatch_job_running:last"
    expr = f"max by (job_name) (stepwatch_job_running) or ({name} > time() - 60)"
    series, problems = promql.recorded(name, expr, SERIES)
    assert problems == []
    assert series[name] == {"job_name"}
    assert promql.read(f"max by (rank) ({name})", series).problems != []
    _, problems = promql.recorded(name, expr.replace("(job_name)", "(rank)"), SERIES)
    assert problems


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("stepwatch_job_runing", "nothing exports stepwatch_job_runing; did you mean"),
        ("max(stepwatch_step_duration_seconds)", "nothing exports stepwatch_step_duration_sec"),
        ('stepwatch_job_running{rank="1"}', "stepwatch_job_running uses label 'rank'"),
        ("sum by (rank) (stepwatch_job_running)", "by (rank) uses label 'rank'"),
        ("sum by (slo) (sum by (job_name) (stepwatch_slo_state))", "by (slo) uses label 'slo'"),
        ("stepwatch_job_step - on (rank) stepwatch_job_step", "on (rank) uses label 'rank'"),
        (
            "stepwatch_job_step * on (job_name) group_left (rank) stepwatch_job_info",
            "group (rank) uses label 'rank'",
        ),
        ("label_values(stepwatch_job_info, rank)", "label_values uses label 'rank'"),
        ("label_values(stepwatch_info, rank)", "nothing exports stepwatch_info"),
        ('{job_name="x"}', "without a metric name"),
        ("sum((", "is not PromQL"),
        (
            "histogram_quantile(0.9, sum(rate(stepwatch_step_duration_seconds_bucket[5m])))",
            "histogram_quantile uses label 'le'",
        ),
        ("max_over_time(stepwatch_gone[10m:1m])", "nothing exports stepwatch_gone"),
        ("-stepwatch_gone", "nothing exports stepwatch_gone"),
    ],
)
def test_a_query_that_does_not_fit(query: str, complaint: str) -> None:
    problems = promql.read(query, SERIES).problems
    assert any(complaint in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("query", "labels"),
    [
        ("sum(stepwatch_job_running)", set()),
        ("max by (job_name) (stepwatch_slo_state) == 1", {"job_name"}),
        (
            "max by (job_name) (stepwatch_job_running) or absent(stepwatch_collector_jobs)",
            {"job_name"},
        ),
        ("time() - max by (job_name) (stepwatch_job_step)", {"job_name"}),
        ("stepwatch_slo_state - on (job_name) stepwatch_job_step", {"job_name"}),
    ],
)
def test_labels_of_the_result(query: str, labels: set[str]) -> None:
    reading = promql.read(query, SERIES)
    assert reading.problems == []
    assert reading.labels == labels


@settings(deadline=None)
@given(st.sampled_from(METRICS), st.data())
def test_any_exported_series_with_its_own_labels_fits(metric: Metric, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(metric.series_names))
    chosen = data.draw(st.sets(st.sampled_from((*metric.labels, "instance"))))
    query = f"sum by ({', '.join(sorted(chosen))}) ({name})"
    assert promql.read(query, SERIES).problems == []
    broken = promql.read(query.replace(name, f"{name}x"), SERIES).problems
    assert any(f"nothing exports {name}x" in problem for problem in broken)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_read_without_a_crash(text: str) -> None:
    assert all("\n" not in problem for problem in promql.read(text, SERIES).problems)
    unclosed = promql.read(f"{text}\n(", SERIES).problems
    assert [problem.startswith("is not PromQL: ") for problem in unclosed] == [True]
