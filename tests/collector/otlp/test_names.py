"""The names of job metrics over OTLP: complete, stable, and in UCUM's units."""

from __future__ import annotations

import re
from pathlib import Path

from stepwatch.collector.web.otlp.points import CONVENTIONS, SLI_RATIO, attribute_of
from stepwatch.signals.names import MetricKind, jobs, labels
from stepwatch.signals.names.metric import Metric

PAGE = Path(__file__).parents[3] / "collector/docs/otlp.md"
JOB_METRICS = [value for value in vars(jobs).values() if isinstance(value, Metric)]
UNIT = re.compile(r"1|s|\{[a-z]+\}(/s)?")
"""A number, seconds, or a counted thing, which UCUM writes as an annotation."""


def test_every_job_metric_has_a_name_and_no_other_metric() -> None:
    assert sorted(CONVENTIONS) == sorted(metric.name for metric in JOB_METRICS)


def test_names_and_units_have_opentelemetrys_form() -> None:
    names = [name for name, _ in CONVENTIONS.values()]
    assert len({*names, SLI_RATIO}) == len(names) + 1
    assert [name for name in names if not re.fullmatch(r"stepwatch(\.[a-z_]+)+", name)] == []
    assert [unit for _, unit in CONVENTIONS.values() if not UNIT.fullmatch(unit)] == []


def test_seconds_are_seconds_and_counts_are_no_seconds() -> None:
    for metric in JOB_METRICS:
        in_seconds = "seconds" in metric.name and not metric.name.endswith("_per_second")
        assert (CONVENTIONS[metric.name][1] == "s") == in_seconds, metric.name


def test_the_page_lists_each_name_with_its_unit_and_attributes() -> None:
    rows = re.findall(r"^\| `(stepwatch\.[a-z_.]+)` \| (\S+) \| (\w+) \|.*\| ([^|]*) \|$",
                      PAGE.read_text(), re.MULTILINE)  # fmt: skip
    listed = {name: (unit, kind, attributes) for name, unit, kind, attributes in rows}
    for metric in JOB_METRICS:
        name, unit = CONVENTIONS[metric.name]
        attributes = [attribute_of(label) for label in metric.labels if label != labels.JOB]
        words = ", ".join(f"`{attribute}`" for attribute in attributes)
        kind = metric.kind.value if metric.kind is not MetricKind.GAUGE else "gauge"
        assert listed.pop(name) == (unit, kind, words), name
    assert [*listed] == [SLI_RATIO]
