"""Learning rates, read from an optimizer's parameter groups where the trainer records none."""

from __future__ import annotations

import weakref
from typing import Any

from stepwatch.hooks.guard import guarded

from .metrics import Metrics

NAME = "lr"
MOST_GROUPS = 8
REPEATED_EVERY = 64
"""Steps after which equal rates are recorded again: a schedule changes them in each step."""


class LearningRates:
    """Records `lr`, and `lr/1`, `lr/2` and so on for further groups with other rates.

    Only the first optimizer counts. A rate that is a tensor is not read: it may lie on a device.
    """

    def __init__(self, metrics: Metrics) -> None:
        self.guard = metrics.guard
        self._metrics = metrics
        self._optimizer: weakref.ref[Any] | None = None
        self._rates: list[Any] = []
        self._repeats = 0
        self._own = False

    @guarded()
    def note(self, optimizer: Any) -> None:
        """Note the rates with which `optimizer` makes its step now."""
        if self._optimizer is None or self._optimizer() is None:
            self._optimizer = weakref.ref(optimizer)
        rates = [group.get("lr") for group in getattr(optimizer, "param_groups", ())[:MOST_GROUPS]]
        self._repeats += 1
        if self._optimizer() is not optimizer or (
            rates == self._rates and self._repeats < REPEATED_EVERY
        ):
            return
        if not rates or not all(isinstance(rate, int | float) for rate in rates):
            return
        if not self._own and NAME in self._metrics.names:  # the trainer records it itself
            return
        self._rates, self._repeats, self._own = rates, 0, True
        others = enumerate(rates[1:], 1)
        further = {f"{NAME}/{place}": rate for place, rate in others if rate != rates[0]}
        self._metrics.record({NAME: rates[0], **further})
