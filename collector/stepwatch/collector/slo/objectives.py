"""SLOs: a target over a window of slices, or a limit for an SLI over a run; states and budgets."""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal
from typing import NamedTuple

import numpy as np

from stepwatch.collector.slo.asked.windows import Window as AskedWindow
from stepwatch.collector.slo.asked.windows import shortest_seconds
from stepwatch.collector.slo.burning import Burning
from stepwatch.collector.slo.over_run.sli import Reading
from stepwatch.collector.slo.slice_line import SliceLine, Window
from stepwatch.collector.slo.states import COVERAGE_FLOOR, SloState
from stepwatch.collector.state.holding.unread import Unread, unread_share
from stepwatch.signals.arrays import Vector

SHORT_WINDOW_SECONDS = 60
LEAST_SECONDS = 3600.0
"""Least job time in an SLO's window before its budget is evaluated.

Before that the run's start, or one save, is a large share. The shortest burn-alert window is as
long.
"""


class Limit(NamedTuple):
    """A limit for an SLI's value over a run: `op` is `lte`, `lt`, `gte` or `gt`."""

    op: str
    value: Decimal

    def holds(self, value: float) -> bool:
        """Return whether a value is within the limit."""
        return bool(_OPERATORS[self.op](value, float(self.value)))

    @property
    def words(self) -> str:
        """The limit in plain words."""
        return f"{_SIGNS[self.op]} {self.value}"


class TimeSlices(NamedTuple):
    """Time slices of `seconds`: a slice is good if `share` of its device-seconds are."""

    share: Decimal
    seconds: int

    @property
    def words(self) -> str:
        """The time slices in plain words."""
        length = f"{self.seconds // 60} min" if self.seconds % 3600 else f"{self.seconds // 3600} h"
        return f"slices of {length} with at least {percent_words(self.share)} good"


def percent_words(share: Decimal) -> str:
    """Return a share as an exact percentage: 0.995 is `99.5%`."""
    return f"{(share * 100).normalize():f}%"


_OPERATORS = {"lte": operator.le, "lt": operator.lt, "gte": operator.ge, "gt": operator.gt}
_SIGNS = {"lte": "at most", "lt": "below", "gte": "at least", "gt": "above"}


class Slo(NamedTuple):
    """An objective: a `target` share of good device-seconds in `sli` over a `window`.

    With `time_slices`, device-seconds are good or bad with their time slice. With a `limit` the
    objective is about an SLI's value over the run, and has no budget; `target` is then 1.
    `generation` counts its changes, 0 without a stored history; this one applies since `since_s`
    (Unix seconds).
    """

    name: str
    title: str
    sli: str
    target: Decimal
    window: AskedWindow
    limit: Limit | None = None
    generation: int = 0
    since_s: float = math.nan
    time_slices: TimeSlices | None = None

    @property
    def revision(self) -> str:
        """Eight digits that change with the objective's terms."""
        terms: tuple[object, ...] = (self.sli, self.target, self.window, self.limit)
        if self.time_slices is not None:  # left out if there are none: stores hold revisions
            terms += (self.time_slices,)
        return hashlib.sha256(repr(terms).encode()).hexdigest()[:8]

    @property
    def document(self) -> dict[str, str]:
        """The objective in words."""
        requirement = (
            self.limit.words if self.limit else f"at least {percent_words(self.target)} good"
        )
        if self.time_slices is not None:
            requirement = f"at least {percent_words(self.target)} in {self.time_slices.words}"
        return {"sli": self.sli, "asked": requirement, "window": self.window.words}


class SloStatus(NamedTuple):
    """An SLO at one moment; ratios are None without any counted time.

    `burn_rate` is over the short window: 1 spends the budget exactly within the SLO's window, if
    that is rolling. `lost_seconds` is the bad device-time in the window, `allowed_seconds` the bad
    time that the target allows. For a limit, `ratio` is the SLI's value, and `reason` tells why it
    is unknown or uncertain. `burning` are the firing burn alerts.
    """

    slo: Slo
    state: SloState
    ratio: Decimal | None = None
    budget_remaining: Decimal | None = None
    burn_rate: Decimal | None = None
    coverage: Decimal | None = None
    lost_seconds: Decimal | None = None
    allowed_seconds: Decimal | None = None
    reason: str = ""
    burning: tuple[Burning, ...] = ()

    @property
    def name(self) -> str:
        """The SLO's name."""
        return self.slo.name


def evaluate_slo(
    slo: Slo,
    slices: SliceLine,
    now_s: float,
    unread: Sequence[Unread] = (),
    without: Sequence[tuple[float, float]] = (),
    *,
    stalled: bool = False,
) -> SloStatus:
    """Evaluate `slo` from its SLI's slices, at Unix time `now_s`.

    For a `stalled` job it is never too early to report a burning budget. `unread` parts of the log
    lower the coverage by their share of time. Planned time in `without` (Unix seconds, rising and
    disjoint spans) does not count.
    """
    seconds = now_s - slo.window.begins(now_s, slices.first_s)
    short_seconds: float = SHORT_WINDOW_SECONDS
    if slo.time_slices is not None:
        short_seconds = max(short_seconds, slo.time_slices.seconds)
    good, total, coverage = counted_in(slo, slices, now_s, seconds, without)
    if total == 0:
        return SloStatus(slo, SloState.UNKNOWN, reason="nothing was counted in its window")
    ratio = good / total
    allowed = (1 - slo.target) * total
    remaining = 1 - (total - good) / allowed
    short_good, short_total, short_coverage = counted_in(slo, slices, now_s, short_seconds, without)
    burn = None
    if short_total > 0:
        burn = (1 - short_good / short_total) / (1 - slo.target)
    if short_coverage is not None:
        coverage = short_coverage
    if coverage is not None and unread:
        coverage = min(coverage, _read(seconds, slices, now_s, unread))
        coverage = min(coverage, _read(short_seconds, slices, now_s, unread))
    reason = ""
    budget_remaining: Decimal | None = remaining
    nothing_good = short_total > 0 and short_good == 0 and (good > 0 or stalled)
    least = min(LEAST_SECONDS, shortest_seconds(slo.window))
    if coverage is None or coverage < COVERAGE_FLOOR:
        state = SloState.FROZEN
        reason = "too few of the records that should be there are"
    elif now_s - max(slices.first_s, now_s - seconds) < least:
        # A run without progress, or with a hang in its start, burns whatever its age.
        state = SloState.BURNING if nothing_good else SloState.TOO_EARLY
        reason = f"a budget is evaluated after {least / 60:.0f} min of a job"
        if nothing_good:
            reason = f"nothing was good in the last {short_seconds} s; {reason}"
        budget_remaining = None
    elif remaining <= 0:
        state = SloState.EXHAUSTED
    else:
        state = SloState.BURNING if burn is not None and burn > 1 else SloState.OK
    return SloStatus(
        slo=slo,
        state=state,
        ratio=ratio,
        budget_remaining=budget_remaining,
        burn_rate=burn,
        coverage=coverage,
        lost_seconds=total - good,
        allowed_seconds=allowed,
        reason=reason,
    )


def counted_in(
    slo: Slo,
    slices: SliceLine,
    now_s: float,
    seconds: float,
    without: Sequence[tuple[float, float]] = (),
) -> Window:
    """Return the counted time in the last `seconds` before Unix time `now_s`.

    Planned time (`without`) is left out.
    """
    if slo.time_slices is None:
        return slices.window(now_s, seconds, without)
    return in_time_slices(slices, slo.time_slices, now_s, seconds, without)


def in_time_slices(
    line: SliceLine,
    time_slices: TimeSlices,
    now_s: float,
    seconds: float,
    without: Sequence[tuple[float, float]] = (),
) -> Window:
    """Return the device-seconds in good time slices and in all, for the last `seconds`.

    Time slices end before Unix time `now_s`; the slice with the window's start counts whole. A
    slice with too few records counts as neither: it only lowers the coverage.
    """
    first = (now_s - seconds) // time_slices.seconds * time_slices.seconds
    last = now_s // time_slices.seconds * time_slices.seconds
    rows = line.rows_between(first, last, without)
    if not len(rows):
        return Window(Decimal(0), Decimal(0), None)
    places = rows["start_s"] // time_slices.seconds
    begins = np.flatnonzero(np.append(True, places[1:] != places[:-1]))
    good, total, observed, expected = (
        np.add.reduceat(rows[name], begins) for name in ("good", "total", "observed", "expected")
    )
    is_known = observed >= float(COVERAGE_FLOOR) * expected
    is_good = is_known & (good >= float(time_slices.share) * total - _MICROSECOND_S)
    return Window(
        _summed(total[is_good]),
        _summed(total[is_known]),
        Decimal(int(observed.sum())) / int(expected.sum()) if expected.any() else None,
    )


_MICROSECOND_S = 1e-6
_MOST_TIMES = 100
"""Limit for the number of spent budgets that is shown; beyond it the budget is simply gone."""


def _summed(seconds: Vector) -> Decimal:
    """Return the sum, exact to the microsecond."""
    return Decimal(int(np.rint(seconds * 1e6).astype(np.int64).sum())).scaleb(-6)


def evaluate_limit(slo: Slo, reading: Reading) -> SloStatus:
    """Evaluate an SLO with a limit: missed if the SLI's whole interval is outside it.

    With few events the interval is wide: 1 failure in 1 checkpoint does not disprove 0.9.
    """
    assert slo.limit is not None
    if reading.unknown:
        return SloStatus(slo, SloState.UNKNOWN, reason=reading.unknown)
    value = Decimal(str(round(reading.value, 9)))
    if slo.limit.holds(reading.value):
        return SloStatus(slo, SloState.OK, value)
    best = reading.high if slo.limit.op in ("gte", "gt") else reading.low
    if not math.isnan(best) and slo.limit.holds(best):
        words = f"too few events: 90 % interval {reading.low:.3g} to {reading.high:.3g}"
        return SloStatus(slo, SloState.TOO_EARLY, value, reason=words)
    return SloStatus(slo, SloState.EXHAUSTED, value)


def _read(seconds: float, slices: SliceLine, now_s: float, unread: Sequence[Unread]) -> Decimal:
    """Return the readable share of a window's log, from the job's start on."""
    began = min(slices.first_s, min(part.from_s for part in unread))
    share = unread_share(unread, max(began, now_s - seconds), now_s)
    return Decimal(str(round(1.0 - share, 9)))


def budget_words(remaining: Decimal | None) -> str:
    """Return a budget in plain words: `40% left`, `all spent`, `spent 16x`, `unknown`.

    `remaining` is the unspent share of the target's allowance, below 0 if the budget is overspent.
    """
    if remaining is None:
        return "unknown"
    spent = 1 - remaining
    if remaining <= 0:
        return "all spent" if spent < Decimal("1.05") else f"spent {_times(spent)}"
    if remaining < Decimal("0.01"):
        return "less than 1% left"
    return f"{remaining.quantize(Decimal('0.01'), ROUND_FLOOR):.0%} left"


def _times(spent: Decimal) -> str:
    if spent >= _MOST_TIMES:
        return f"over {_MOST_TIMES}x"
    return f"{spent:.1f}x" if spent < 10 else f"{spent:.0f}x"
