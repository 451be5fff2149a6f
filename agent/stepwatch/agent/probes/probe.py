"""What every probe offers, and what it is given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

from stepwatch.agent.rings.tail import WatchedRank
from stepwatch.signals.clock import Clock
from stepwatch.signals.names import Metric
from stepwatch.signals.records import Kind
from stepwatch.signals.wire import Rows


@dataclass(frozen=True)
class ProbeContext:
    """What a probe may use: the clock, the ranks that this node runs now, where `/proc` lies."""

    clock: Clock
    ranks: Callable[[], Sequence[WatchedRank]] = tuple
    proc: Path = Path("/proc")
    sys: Path = Path("/sys")


class Gauge(NamedTuple):
    """One sample for `/metrics`; `labels` are the values after the node. NaN is left out."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


class Probe(ABC):
    """Reads one source on the node, once a flush.

    `name` is a metric label, `kind` the record kind of the rows. `expendable` says whether a full
    spool may drop the rows.
    """

    name: ClassVar[str]
    kind: ClassVar[Kind]
    expendable: ClassVar[bool] = True

    @classmethod
    @abstractmethod
    def build(cls, context: ProbeContext) -> Self:
        """Make the probe of this node; opens nothing yet."""

    @abstractmethod
    def supported(self) -> bool:
        """Whether this node has the source at all."""

    @abstractmethod
    def read(self) -> Rows:
        """Read the source once.

        Raises:
            OSError: the source is there but cannot be read now; that is unknown, not healthy.
            ValueError: the source holds what it cannot mean.
        """

    def rows_of(self, rows: Rows, ranks: Sequence[WatchedRank]) -> Rows:
        """The part of a reading that goes into the segment of an attempt with these ranks."""
        return rows

    def gauges(self, rows: Rows) -> Iterable[Gauge]:
        """Samples for `/metrics` from the newest reading."""
        return ()

    def close(self) -> None:
        """Release the source."""
        return
