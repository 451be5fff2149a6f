"""Parts that many answers have: the job's state, the date of an answer, and its age."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, NotRequired, Protocol, TypeVar, cast

from pydantic_core import core_schema
from typing_extensions import TypedDict

from stepwatch.collector.job_states import (
    CROWDED_OUT,
    ENDED,
    GOING_ON,
    QUARANTINED,
    RESTORING,
    STALE,
    UNKNOWN,
)
from stepwatch.collector.slo.states import SloState
from stepwatch.collector.state.step_facts import MIXED
from stepwatch.collector.step_clocks import DEVICE, HOST

T = TypeVar("T")


class Record(Protocol):
    """A named tuple."""

    def _asdict(self) -> dict[str, Any]: ...


def as_row(kind: type[T], record: Record) -> T:
    """Return a named tuple with the fields of a `TypedDict` as one."""
    return cast(T, record._asdict())


class OneOf(NamedTuple):
    """The values that a text may have, for the annotation of a field."""

    values: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        """Return the schema: an enumeration."""
        return core_schema.literal_schema([*self.values])


JobState = Annotated[
    str, OneOf((*GOING_ON, *ENDED, UNKNOWN, STALE, RESTORING, QUARANTINED, CROWDED_OUT))
]
"""A job's state."""
SloStateWord = Annotated[str, OneOf(tuple(state.value for state in SloState))]
"""The state of an SLO."""
Clock = Annotated[str, OneOf((DEVICE, HOST))]
"""The clock that timed steps: the device's, or the training process's."""
FigureClock = Annotated[str, OneOf((DEVICE, HOST, MIXED))]
"""The clock of a figure over steps, some of which the other clock may have timed."""


class Stale(TypedDict):
    """Why an answer is old."""

    seconds: float
    """Age of the answer."""
    state: JobState | None
    """The job's last known state."""
    reason: str


class Dated(TypedDict):
    """The date of an answer about a job."""

    as_of: float | None
    """The moment that the answer describes, Unix seconds; null for a job without evaluation."""
    stale: NotRequired[Stale]
    """Present if the answer is old; `state` is `stale` then, unless the job has ended."""


class Problem(TypedDict):
    """An answer with an error status."""

    error: str
    """What is wrong, and what to do, in one line."""


class Money(TypedDict):
    """The cost of a job's device time."""

    money: float | None
    """In `currency`."""
    currency: str
    without_rate: float | None
    """Device-seconds on days without a rate: their cost is unknown."""
    tokens: int
    """Tokens of the steps that were kept."""
