"""Selects the traced steps: all anomalous ones, and a sample from the others.

Sampling uses the step number, so that all ranks select the same steps without communication.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from stepwatch.signals.arrays import Mask
from stepwatch.signals.records import DTYPES, Kind, StepFlag
from stepwatch.signals.wire import Rows

logger = logging.getLogger(__name__)

SLOW_RATIO = 2.0
"""A step with this multiple of the rank's median is traced. Low on purpose: a trace pages no
person."""
MEDIAN_STEPS = 64
FEWEST_STEPS = 8
"""Minimum number of steps for a median."""
HELD_ROWS = 4096
"""Rows kept per kind from earlier flushes: 64 steps for 8 ranks with 8 collectives each."""
MOST_STEPS = 64
"""Maximum rank-steps traced per flush: many anomalous steps must not flood the receiver."""
_UNUSUAL = int(StepFlag.FIRST | StepFlag.UNFINISHED)
_NON_FINITE = "non-finite"
SAMPLED = "sampled"
"""The reason for an ordinary sampled step."""

Key = tuple[int, int]
"""(rank, step)."""


class Chosen(NamedTuple):
    """A STEP row to trace, the reasons, and the COLLECTIVE rows for its rank and step."""

    step: np.void
    reasons: tuple[str, ...]
    collectives: Rows


class Sampler:
    """Select steps from one attempt on one node as they arrive.

    One step's records may arrive in several flushes: a loss that is read late from a device delays
    its STEP record. So the newest rows are kept.
    """

    def __init__(self, every: int) -> None:
        self._every = every
        self._durations: dict[int, deque[float]] = {}
        self._window = {
            kind: np.zeros(0, dtype=DTYPES[kind])
            for kind in (Kind.STEP, Kind.COLLECTIVE, Kind.NUMERICS)
        }
        self._sampled: set[Key] = set()
        self.left_out = 0
        """Rank-steps beyond the limit per flush."""

    def choose(self, tables: Mapping[Kind, Rows]) -> list[Chosen]:
        """Return the steps to trace now, each once, in row order."""
        window = {kind: _joined(rows, tables.get(kind)) for kind, rows in self._window.items()}
        self._window = {kind: _newest(rows) for kind, rows in window.items()}
        fresh = tables.get(Kind.STEP)
        reasons = {} if fresh is None else self._reasons(fresh)
        for key in _nonfinite_keys(window[Kind.NUMERICS]):
            names = reasons.get(key, ())
            reasons[key] = names if _NON_FINITE in names else (*names, _NON_FINITE)
        steps = window[Kind.STEP]
        keys = _keys(steps)
        wanted = reasons.keys() - self._sampled
        indices = [index for index, key in enumerate(keys) if key in wanted]
        if len(indices) > MOST_STEPS and not self.left_out:
            logger.warning("more than %d anomalous steps at once; some are not traced", MOST_STEPS)
        self.left_out += max(len(indices) - MOST_STEPS, 0)
        self._sampled = (self._sampled | {keys[index] for index in indices}) & set(keys)
        rows = window[Kind.COLLECTIVE]
        return [
            Chosen(steps[index], reasons[keys[index]], _rows_of(rows, keys[index]))
            for index in indices[:MOST_STEPS]
        ]

    def _reasons(self, steps: Rows) -> dict[Key, tuple[str, ...]]:
        flags = steps["flags"].astype(np.int64)
        masks = {
            "first": (flags & StepFlag.FIRST) != 0,
            "unfinished": (flags & StepFlag.UNFINISHED) != 0,
            "slow": self._slow(steps, (flags & _UNUSUAL) == 0),
            _NON_FINITE: np.isinf(steps["loss"]) | np.isinf(steps["grad_norm"]),
            SAMPLED: steps["step"] % self._every == 0,
        }
        keys = _keys(steps)
        return {
            keys[index]: tuple(name for name, mask in masks.items() if mask[index])
            for index in np.flatnonzero(np.logical_or.reduce(list(masks.values()))).tolist()
        }

    def _slow(self, steps: Rows, usual: Mask) -> Mask:
        # A checkpoint or an evaluation makes a step long, not slow.
        fields = ("duration_ns", "checkpoint_ns", "eval_ns")
        total, saving, evaluating = (steps[field].astype(np.float64) for field in fields)
        step_ns = total - saving - evaluating
        slow = np.zeros(len(steps), dtype=np.bool_)
        for rank in np.unique(steps["rank"]).tolist():
            of_rank = steps["rank"] == rank
            past = self._durations.setdefault(rank, deque(maxlen=MEDIAN_STEPS))
            fresh = step_ns[of_rank & usual][-MEDIAN_STEPS:].tolist()
            # An agent that starts late finds earlier steps in its first flush.
            durations = past if len(past) >= FEWEST_STEPS else fresh
            if len(durations) >= FEWEST_STEPS:
                slow |= of_rank & (step_ns > SLOW_RATIO * float(np.median(durations)))
            past.extend(fresh)
        return slow


def _joined(window: Rows, fresh: Rows | None) -> Rows:
    return window if fresh is None else np.concatenate([window, fresh])


def _newest(rows: Rows) -> Rows:
    if len(rows) <= HELD_ROWS:
        return rows
    return rows[np.sort(np.argsort(rows["time_ns"], kind="stable")[-HELD_ROWS:])]


def _keys(rows: Rows) -> list[Key]:
    return list(zip(rows["rank"].tolist(), rows["step"].tolist(), strict=True))


def _nonfinite_keys(numerics: Rows) -> list[Key]:
    return _keys(numerics[numerics["nonfinite"] > 0])


def _rows_of(rows: Rows, key: Key) -> Rows:
    selected: Rows = rows[(rows["rank"] == key[0]) & (rows["step"] == key[1])]
    return selected
