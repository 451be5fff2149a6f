"""The dashboards' PromQL."""

from __future__ import annotations

import pytest

from stepwatch.cli import promql
from stepwatch.dashboards import queries
from stepwatch.signals.names import METRICS

QUERIES = {
    name: value
    for name, value in vars(queries).items()
    if name.isupper() and isinstance(value, str) and not name.startswith("_")
}
NOT_QUERIES = {"JOB_VARIABLE", "LE"} | {
    name for name in QUERIES if "stepwatch_" not in QUERIES[name]
}


@pytest.mark.parametrize("name", sorted(QUERIES.keys() - NOT_QUERIES))
def test_every_query_reads_exported_metrics_and_their_labels(name: str) -> None:
    reading = promql.read(QUERIES[name], promql.exported(METRICS))
    assert reading.problems == []


@pytest.mark.parametrize("name", sorted(QUERIES.keys() - NOT_QUERIES))
def test_no_query_fills_a_gap(name: str) -> None:
    assert "or vector" not in QUERIES[name]
    assert "absent" not in QUERIES[name]


def test_quantiles_come_from_the_buckets() -> None:
    query = queries.step_quantile(0.95)
    assert query.startswith("histogram_quantile(0.95, ")
    assert promql.read(query, promql.exported(METRICS)).labels == {"job_name"}
