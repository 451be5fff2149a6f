"""SLO documents: OpenSLO v1 YAML, checked against a schema, with the line of what is wrong."""

from __future__ import annotations

import re
from collections.abc import Collection
from decimal import Decimal
from importlib import resources
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from stepwatch.collector.slo.objectives import SHORT_WINDOW_SECONDS, Slo
from stepwatch.collector.slo.registry import discover
from stepwatch.collector.slo.yaml_lines import Document, Place, YamlError, read_yaml
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.places import NAME_LIMIT, is_name

MAX_WINDOW_SECONDS = 366 * 86_400
MAX_ERRORS = 20
"""Lines of errors about one document."""
_DURATION = re.compile(r"(\d{1,9})([mhdw])")
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def _name(text: str) -> str:
    if not is_name(text):
        raise ValueError(f"{text[:80]!r} is no name")
    return text


def _duration(text: str) -> str:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:80]!r} is no duration")
    if not SHORT_WINDOW_SECONDS <= int(match[1]) * _SECONDS[match[2]] <= MAX_WINDOW_SECONDS:
        raise ValueError(f"{text} is not between 1m and 366d")
    return text


class _Metadata(BaseModel):
    name: Annotated[str, AfterValidator(_name)]
    displayName: str = ""


class _SourceSpec(BaseModel):
    sli: str


class _MetricSource(BaseModel):
    spec: _SourceSpec


class _Metric(BaseModel):
    metricSource: _MetricSource


class _RatioMetric(BaseModel):
    good: _Metric


class _IndicatorSpec(BaseModel):
    ratioMetric: _RatioMetric


class _Indicator(BaseModel):
    spec: _IndicatorSpec


class _Objective(BaseModel):
    target: Annotated[Decimal, Field(gt=0, lt=1, allow_inf_nan=False)]


class _TimeWindow(BaseModel):
    duration: Annotated[str, AfterValidator(_duration)]
    isRolling: Literal[True] = True


class _Spec(BaseModel):
    indicator: _Indicator
    timeWindow: Annotated[list[_TimeWindow], Field(min_length=1, max_length=1)]
    objectives: Annotated[list[_Objective], Field(min_length=1, max_length=1)]


class _Document(BaseModel):
    apiVersion: Literal["openslo/v1"]
    kind: Literal["SLO"]
    metadata: _Metadata
    spec: _Spec


_WHAT_TO_DO = {
    "apiVersion": "write openslo/v1",
    "kind": "write SLO",
    "metadata.name": f"write 1-{NAME_LIMIT} letters, digits, '.', '_' or '-'",
    "spec.timeWindow": "give exactly one window",
    "spec.timeWindow.duration": "write a duration between 1m and 366d, such as 1h, 28d or 4w",
    "spec.timeWindow.isRolling": "write true: only rolling windows are evaluated",
    "spec.objectives": "give exactly one objective; write a document for each",
    "spec.objectives.target": "write a share of good device-time between 0 and 1, such as 0.95",
}


def parse_slo(text: str, source: str, slis: Collection[str] | None = None) -> Slo:
    """Read one OpenSLO v1 document; `slis` are the names there are, those of the registry if None.

    Raises:
        ConfigurationError: it is not one, or asks for something that is not evaluated. One line
            for each problem: `source:line: what is wrong; what to do`.
    """
    known = sorted(discover() if slis is None else slis)
    try:
        document = read_yaml(text)
        found = _Document.model_validate(document.value)
    except YamlError as error:
        raise ConfigurationError(f"{source}:{error.line}: {error}") from error
    except ValidationError as error:
        lines = [_line(problem, document, source) for problem in error.errors()[:MAX_ERRORS]]
        raise ConfigurationError("\n".join(lines)) from error
    sli = found.spec.indicator.spec.ratioMetric.good.metricSource.spec.sli
    if sli not in known:
        place = ("spec", "indicator", "spec", "ratioMetric", "good", "metricSource", "spec", "sli")
        raise ConfigurationError(
            f"{source}:{document.line_of(place)}: {'.'.join(place)}: there is no SLI "
            f"{sli[:80]!r}; write one of {', '.join(known)}"
        )
    return Slo(
        name=found.metadata.name,
        title=found.metadata.displayName,
        sli=sli,
        target=found.spec.objectives[0].target,
        window_seconds=_window_seconds(found.spec.timeWindow[0].duration),
    )


def default_slos() -> list[Slo]:
    """The SLOs that come with stepwatch."""
    folder = resources.files(__package__) / "documents"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".yaml"))
    return [parse_slo((folder / name).read_text(encoding="utf-8"), name) for name in names]


def _line(problem: Any, document: Document, source: str) -> str:
    """One problem that pydantic found, in one line."""
    place: Place = problem["loc"]
    names = ".".join(str(part) for part in place if isinstance(part, str))
    what = "is missing" if problem["type"] == "missing" else problem["msg"]
    what = what.removeprefix("Value error, ").splitlines()[0]
    to_do = _WHAT_TO_DO.get(names, "see https://github.com/OpenSLO/OpenSLO#slo")
    return f"{source}:{document.line_of(place)}: {names or 'the document'}: {what}; {to_do}"


def _window_seconds(duration: str) -> int:
    return int(duration[:-1]) * _SECONDS[duration[-1]]
