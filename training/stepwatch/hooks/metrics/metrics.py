"""A trainer's own numbers: noted during a step, and written with the step's end.

The usual call, `record(lr=..., accuracy=...)` with the same names in each step and plain numbers,
is one lookup by the tuple of names; its values go into a record unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from stepwatch.hooks.guard import guarded
from stepwatch.hooks.numerics.deferred_scalars import Scalar, scalar
from stepwatch.hooks.numerics.late_records import LateRecords
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.records import METRICS_PER_ROW, Kind

from .names import MetricNames

ANNOUNCED_EVERY = 1024
"""Steps between two announcements of all names: a full ring forgets the first one."""
MOST_CALLS = 256
"""Calls noted in one step before they are merged: a name's last value counts."""
IN_STEPS = frozenset({"loss", "grad_norm"})
"""Metrics that STEP records hold: a framework's log of them is left out."""
_MOST_SHAPES = 64
_PLAIN = frozenset({float, int})
_METRIC = int(Kind.METRIC)
_PADDING = tuple((0,) * (METRICS_PER_ROW - count) for count in range(METRICS_PER_ROW + 1))

Call = tuple[tuple[int, ...], tuple[Any, ...]]
"""One record: `evaluated` and all its names, 0 for an unused place, and its scalars."""


class _Ended(NamedTuple):
    step: int
    time_ns: int
    calls: list[Call]


class Metrics:
    """This rank's metrics: values for the current step, and evaluations."""

    def __init__(self, recorder: Recorder, late: LateRecords) -> None:
        self.guard = recorder.guard
        self._recorder = recorder
        self._append = None if recorder.ring is None else recorder.ring.append
        self._late = late
        self.names = MetricNames(recorder)
        self.calls: list[Call] = []
        """What was noted for the current step."""
        self.elsewhere: list[_Ended] = []
        """Values for ended steps, from any thread: a ring's writer is the training thread."""
        self._logged: _Ended | None = None
        """The one of them that `note_logged` adds to."""
        self._plain: dict[str, float] = {}
        """Its plain numbers, which need no conversion before they are written."""
        self._shapes: dict[tuple[str, ...], tuple[int, ...]] = {}
        """A record's names by the names in one call."""
        self._on_device = False
        self._announced_step = 0

    def record(self, named: Mapping[str, Any]) -> None:
        """Note values for the current step: numbers, one-element tensors, or mappings of these."""
        # Not guarded: nothing here raises, and a guard would add a third to the time.
        names, values, calls = self._shapes.get(tuple(named)), tuple(named.values()), self.calls
        if names is None or len(calls) > MOST_CALLS or not _PLAIN.issuperset(map(type, values)):
            self._record_any(named)
        else:
            calls.append((names, values))

    @guarded()
    def _record_any(self, named: Mapping[str, Any]) -> None:
        self.calls += self._noted(named, "")
        if len(self.calls) > MOST_CALLS:
            self.calls = _latest(self.calls)

    @guarded()
    def record_evaluation(self, named: Mapping[str, Any], evaluation: str) -> None:
        """Write an evaluation's values, for the step that runs or ended last."""
        recorder = self._recorder
        if not isinstance(named, Mapping):
            self.guard.misuse("record_evaluation takes a mapping from names to numbers")
            return
        if recorder.timeline is None or not self.names.is_evaluation(evaluation):
            return
        self._write_now(self._noted(named, evaluation))

    @guarded()
    def record_ended(self, named: Mapping[str, Any]) -> None:
        """Write values for the step that ended last, where a framework logs after its step."""
        if self._recorder.timeline is not None:
            self._write_now(self._noted(named, ""))

    @guarded()
    def note_logged(self, named: Mapping[str, Any]) -> None:
        """Note values for the step that ended last, one call for each value.

        The next step's end writes them; a name's last value counts. On the training thread only.
        """
        step = max(self._recorder.step_number - 1, 0)
        if self._logged is None or self._logged.step != step:
            self._finish_logged()
            self._logged = _Ended(step, self._recorder.clock(), [])
            self.elsewhere.append(self._logged)
        if _PLAIN.issuperset(map(type, named.values())):
            self._plain.update(named)
            return
        for name in named:
            self._plain.pop(name, None)
        self._logged.calls.extend(self._noted(named, ""))
        if len(self._logged.calls) > MOST_CALLS:
            self._logged.calls[:] = _latest(self._logged.calls)

    def _finish_logged(self) -> None:
        """Convert what `note_logged` noted: each name once, with its last value."""
        if self._logged is not None:
            calls, plain, self._plain = self._logged.calls, self._plain, {}
            calls[:] = _latest([*calls, *self._noted(plain, "")])
            self._logged = None

    def _write_now(self, calls: list[Call]) -> None:
        recorder = self._recorder
        step = max(recorder.step_number - 1, 0)
        self.elsewhere.append(_Ended(step, recorder.clock(), calls))
        if recorder.thread.is_current():
            self.write_elsewhere()

    @guarded()
    def write_elsewhere(self) -> None:
        """Write what was recorded for ended steps; on the training thread only."""
        self._finish_logged()
        ended, self.elsewhere = self.elsewhere, []
        for step, time_ns, calls in ended:
            self._write(step, time_ns, calls)

    def end_step(self, step: int, now_ns: int) -> None:
        """Write the values noted for `step`, which ended at `now_ns`."""
        if step // ANNOUNCED_EVERY != self._announced_step:
            self._announced_step = step // ANNOUNCED_EVERY
            self.names.announce()
        calls = self.calls
        if len(calls) == 1 and not self._on_device and self._append is not None:
            names, values = calls.pop()
            try:
                self._append(_METRIC, (step, now_ns, *names, *values, *_PADDING[len(values)]))
            except OverflowError:
                self.guard.misuse("a metric is a whole number beyond any float: it is left out")
        elif calls:
            self._write_merged(step, now_ns)
        if self.elsewhere:
            self.write_elsewhere()

    @guarded()
    def _write_merged(self, step: int, now_ns: int) -> None:
        calls, self.calls, self._on_device = self.calls, [], False
        self._write(step, now_ns, _latest(calls))

    def _write(self, step: int, now_ns: int, calls: list[Call]) -> None:
        for names, values in calls:
            padded = (*values, *_PADDING[len(values)])
            self._late.write(_METRIC, (step, now_ns, *names), padded)

    def _noted(self, named: Mapping[str, Any], evaluation: str) -> list[Call]:
        """Return any values as records; one that is no number is counted and left out."""
        numbers: list[int] = []
        values: list[Scalar] = []
        for name, value in _flat(named):
            if not evaluation and name in IN_STEPS:
                continue
            number = self.names.number(name, evaluation)
            read = self._scalar(value) if number else None
            if read is not None:
                numbers.append(number)
                values.append(read)
                self._on_device |= not isinstance(read, float)
        calls = _records(numbers, values, evaluated=bool(evaluation))
        is_flat = len(numbers) == len(named) and _PLAIN.issuperset(map(type, named.values()))
        if is_flat and len(calls) == 1 and not evaluation and len(self._shapes) < _MOST_SHAPES:
            self._shapes[tuple(named)] = calls[0][0]
        return calls

    @guarded()
    def _scalar(self, value: Any) -> Scalar:
        return scalar(value)


def _flat(named: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Return names and values; {"loss": {"image": 1}, "lr": 2} -> ("loss/image", 1), ("lr", 2)."""
    pairs: list[tuple[Any, Any]] = []
    for name, value in named.items():
        if isinstance(value, Mapping):
            pairs += [(f"{name}/{part}", inner) for part, inner in value.items()]
        elif value is not None:
            pairs.append((name, value))
    return pairs


def _records(numbers: list[int], values: list[Scalar], *, evaluated: bool) -> list[Call]:
    """Return names and values in records, each with as many as it holds."""
    calls = []
    for begin in range(0, len(numbers), METRICS_PER_ROW):
        names = numbers[begin : begin + METRICS_PER_ROW]
        part = tuple(values[begin : begin + METRICS_PER_ROW])
        calls.append(((int(evaluated), *names, *_PADDING[len(names)]), part))
    return calls


def _latest(calls: list[Call]) -> list[Call]:
    """Return each name in a step's calls once, with its last value."""
    newest: dict[int, Scalar] = {}
    for names, values in calls:
        newest |= zip(names[1:], values, strict=False)
    return _records([*newest], [*newest.values()], evaluated=False)
