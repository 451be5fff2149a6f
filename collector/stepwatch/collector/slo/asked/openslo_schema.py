"""The shape of an OpenSLO v1 document: https://github.com/OpenSLO/OpenSLO#slo."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from stepwatch.signals.places import is_name


def _name(text: str) -> str:
    if not is_name(text):
        raise ValueError(f"{text[:80]!r} is not a name")
    return text


def _duration(text: str) -> str:
    if re.fullmatch(r"\d{1,9}[mhdwMQY]|run", text) is None:
        raise ValueError(f"{text[:80]!r} is not a duration")
    return text


class Strict(BaseModel):
    """A base model that rejects unknown keys: a typo must not be ignored silently."""

    model_config = ConfigDict(extra="forbid")


class Metadata(Strict):
    """A document's name and labels."""

    name: Annotated[str, AfterValidator(_name)]
    displayName: str = ""
    labels: Any = None
    annotations: Any = None


class SourceSpec(Strict):
    """The name of a stepwatch SLI."""

    sli: str


class MetricSource(Strict):
    """The source of a metric's values."""

    type: Literal["stepwatch"] = "stepwatch"
    spec: SourceSpec


class Metric(Strict):
    """One metric."""

    metricSource: MetricSource


class RatioMetric(Strict):
    """Good over total device-seconds."""

    counter: Any = None
    good: Metric
    total: Metric | None = None


class IndicatorSpec(Strict):
    """A ratio, or an SLI over the run."""

    description: Any = None
    ratioMetric: RatioMetric | None = None
    thresholdMetric: Metric | None = None

    @model_validator(mode="after")
    def _require_one_metric(self) -> Self:
        if (self.ratioMetric is None) == (self.thresholdMetric is None):
            raise ValueError("give one of ratioMetric and thresholdMetric")
        return self


class Indicator(Strict):
    """The measured indicator."""

    metadata: Any = None
    spec: IndicatorSpec


_SHARE = Field(gt=0, allow_inf_nan=False, max_digits=12, decimal_places=12)
"""The digit limit only keeps documents short; 1e-99999 is also a number."""


class Objective(Strict):
    """The objective: a target, for device-seconds or slices of time, or a limit."""

    displayName: str = ""
    target: Annotated[Decimal, _SHARE, Field(lt=1)] | None = None
    op: Literal["lte", "lt", "gte", "gt"] | None = None
    value: Annotated[Decimal, Field(allow_inf_nan=False, max_digits=30)] | None = None
    timeSliceTarget: Annotated[Decimal, _SHARE, Field(le=1)] | None = None
    timeSliceWindow: Annotated[str, AfterValidator(_duration)] | None = None


class Calendar(Strict):
    """The start and time zone of calendar periods."""

    startTime: str
    timeZone: str


class TimeWindow(Strict):
    """The window of an SLO."""

    duration: Annotated[str, AfterValidator(_duration)]
    isRolling: bool = True
    calendar: Calendar | None = None


class Spec(Strict):
    """The complete content of an SLO."""

    description: Any = None
    service: Any = None
    indicator: Indicator
    timeWindow: Annotated[list[TimeWindow], Field(max_length=1)] = []
    budgetingMethod: Literal["Occurrences", "Timeslices"] = "Occurrences"
    objectives: Annotated[list[Objective], Field(min_length=1, max_length=1)]
    alertPolicies: Any = None


class Document(Strict):
    """An OpenSLO v1 document."""

    apiVersion: Literal["openslo/v1"]
    kind: Literal["SLO"]
    metadata: Metadata
    spec: Spec


_MODELS = (
    Metadata, MetricSource, SourceSpec, Metric, RatioMetric, IndicatorSpec, Indicator,
    Objective, Calendar, TimeWindow, Spec, Document,
)  # fmt: skip
KEYS = sorted({key for model in _MODELS for key in model.model_fields})
"""All keys that a document may contain."""
