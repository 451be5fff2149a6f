"""Converts a job's `/metrics` families to points with OTLP's names; an unknown value gives none."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from prometheus_client.core import Metric

from stepwatch.collector.runtime.views import Published
from stepwatch.signals import names, traces
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.otlp.points import COUNTER, GAUGE, HISTOGRAM, Distribution, Group, Point

SLI_RATIO = "stepwatch.sli.ratio"
"""Good over counted device-seconds since the job began: the SLI's value, such as goodput."""
UNKNOWN = "unknown"
_TOTAL, _BUCKET, _SUM = "_total", "_bucket", "_sum"
_RESOURCE_LABELS = (names.JOB_CLASS, names.PROJECT, names.TEAM)


def _document() -> dict[str, Any]:
    file = resources.files(__package__) / "conventions.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


_DOCUMENT = _document()
CONVENTIONS: Mapping[str, tuple[str, str]] = {
    metric: (name, unit) for metric, (name, unit) in _DOCUMENT["metrics"].items()
}
"""OTLP's name and unit, by metric."""
_BY_FAMILY = {metric.removesuffix(_TOTAL): described for metric, described in CONVENTIONS.items()}


def attribute_of(label: str) -> str:
    """Return the attribute's name for a metric's label."""
    return str(_DOCUMENT["attributes"].get(label, f"stepwatch.{label}"))


def groups_of(answers: Iterable[Published]) -> Iterator[Group]:
    """Yield one group for each job's families; a job without a name gives none."""
    for answer in answers:
        families: Sequence[Metric] = answer.value
        resource = _resource_of(families)
        if resource:
            points = [point for family in families for point in _points_of(family)]
            points += _ratios_of(families)
            yield Group(resource, points, round(answer.as_of * NANOSECONDS))


def _resource_of(families: Iterable[Metric]) -> dict[str, str]:
    """Return the job's resource; empty without a job."""
    infos = (names.JOB_INFO.name, names.JOB_OWNER.name)
    labels: dict[str, str] = {}
    for family in families:
        if family.name in infos:
            for sample in family.samples:
                labels |= sample.labels
    if names.JOB not in labels:
        return {}
    job = labels[names.JOB]
    facts = {label: labels.get(label, UNKNOWN) for label in _RESOURCE_LABELS}
    return {
        "service.name": job,
        "service.namespace": traces.SERVICE_NAMESPACE,
        traces.JOB: job,
        **{attribute_of(label): fact for label, fact in facts.items() if fact != UNKNOWN},
    }


def _points_of(family: Metric) -> Iterator[Point]:
    name, unit = _BY_FAMILY.get(family.name, ("", ""))
    if not name:
        return
    if family.type == HISTOGRAM:
        yield from _histogram(family, name, unit)
        return
    instrument = COUNTER if family.type == COUNTER else GAUGE
    for sample in family.samples:
        yield Point(name, instrument, unit, _attributes(sample.labels), float(sample.value))


def _histogram(family: Metric, name: str, unit: str) -> Iterator[Point]:
    """Yield a job's histogram; none before its first value."""
    cumulative = [sample for sample in family.samples if sample.name.endswith(_BUCKET)]
    sums = [float(sample.value) for sample in family.samples if sample.name.endswith(_SUM)]
    totals = [int(sample.value) for sample in cumulative]
    if not sums or not totals or not totals[-1]:
        return
    counts = [total - below for below, total in zip([0, *totals], totals, strict=False)]
    bounds = [float(sample.labels["le"]) for sample in cumulative[:-1]]  # the last one is +Inf
    attributes = _attributes(
        {key: text for key, text in cumulative[0].labels.items() if key != "le"}
    )
    yield Point(name, HISTOGRAM, unit, attributes, Distribution(bounds, counts, sums[0]))


def _ratios_of(families: Iterable[Metric]) -> Iterator[Point]:
    """Yield each SLI's value, from its good and its counted device-seconds."""
    values = {
        metric.name: {sample.labels[names.SLI]: float(sample.value) for sample in family.samples}
        for metric in (names.SLI_GOOD, names.SLI_TOTAL)
        for family in families
        if family.name == metric.name
    }
    good = values.get(names.SLI_GOOD.name, {})
    for sli, total in values.get(names.SLI_TOTAL.name, {}).items():
        if total > 0.0 and sli in good:
            yield Point(SLI_RATIO, GAUGE, "1", {attribute_of(names.SLI): sli}, good[sli] / total)


def _attributes(labels: Mapping[str, str]) -> dict[str, str]:
    return {attribute_of(label): text for label, text in labels.items() if label != names.JOB}
