"""Non-finite values, found in the rank that produced them before a reduction spreads them.

Host memory is read at once: a finite sum needs no closer check. On a device, each tensor's largest
magnitude is enqueued on the current stream and read late. Every step is checked, because
afterwards every rank holds NaN and only the first step shows which rank began.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from stepwatch.hooks.accelerators import is_capturing
from stepwatch.hooks.guard import guarded
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.records import (
    LOSS_SCALED,
    UNKNOWN_EXCHANGES,
    Kind,
    NumericsSource,
    text_bytes,
)

from .deferred_scalars import DeviceTensor
from .loss_scalers import LossScalers

LEAST_ELEMENTS = 256
"""A trainer's reduction with fewer elements carries losses and norms, which are mixed already."""
MOST_REDUCTIONS = 64
"""Checked reductions of device tensors in a step. If there are more, every second or fourth is
checked, in turn: each check is a few launches, and activations are reduced, too.
"""
HELD_CHECKS = 4096
"""Pending device checks; beyond this number the oldest are dropped, even if no step ends."""
WRITTEN_IN_A_ROW, THEN_EVERY = 64, 16
"""Consecutive bad steps that are written one by one, and the interval for later ones."""
_TEXT_BYTES = 40

NameOf = Callable[[int], str]


class Bad(NamedTuple):
    """Number of non-finite tensors from one source in one step, and the name of the first."""

    tensors: int
    name: str


class _Check(NamedTuple):
    step: int
    source: int
    magnitudes: DeviceTensor
    indices: tuple[int, ...]
    name_of: NameOf


class Numerics:
    """This rank's non-finite values, by step and source."""

    def __init__(self, recorder: Recorder) -> None:
        self.guard = recorder.guard
        self.at_source = False
        """Gradients are checked at their source: the trainer's own reductions hold mixed ones."""
        self._recorder = recorder
        self._out_of_memory = False
        self._reductions, self._reductions_of, self._stride = 0, -1, 1
        self.checks: deque[_Check] = deque(maxlen=HELD_CHECKS)
        """Results that a device has not delivered yet."""
        self.bad: dict[tuple[int, int], Bad] = {}
        """Findings that are not written yet, by (step, source)."""
        self._sources: set[NumericsSource] = set()
        self.knows_loss = False
        """Whether a finite loss was recorded: only then does a non-finite one mean anything."""
        self.knows_grad_norm = False
        """The same for the gradient norm."""
        self._scalers = LossScalers(recorder.guard)
        self._bad_steps = 0
        self._last_bad = -1

    @guarded()
    def check(self, tensors: Sequence[Any], name_of: NameOf, source: NumericsSource) -> None:
        """Check this rank's own tensors; `name_of` returns the name for an index.

        `name_of` is kept until a device has answered: it must hold no tensor.
        """
        by_device: dict[Any, dict[int, Any]] = {}
        for index, tensor in enumerate(map(_plain, tensors)):
            if tensor is not None and tensor.is_floating_point() and tensor.numel():
                by_device.setdefault(tensor.device, {})[index] = tensor
        for device, wanted in by_device.items():
            if device.type not in ("cpu", "meta"):
                self._enqueue(device.type, wanted, name_of, source)
            # Not math.fsum: it raises if infinities of both signs meet.
            elif device.type == "cpu" and not math.isfinite(sum(map(_sum, wanted.values()))):
                self._confirm(wanted, name_of, source)

    def check_reduction(self, tensors: Sequence[Any], name: str) -> None:
        """Check the input to a trainer's own reduction, unless it is mixed already."""
        if self.at_source or sum(tensor.numel() for tensor in tensors) < LEAST_ELEMENTS:
            return
        if tensors[0].device.type == "cpu" or self._has_its_turn():
            self.check(tensors, lambda _: name, NumericsSource.COLLECTIVE_INPUT)

    def _has_its_turn(self) -> bool:
        """Return whether this reduction in the step is checked."""
        step = self._recorder.step_number
        if step != self._reductions_of:
            self._stride = 1 << (max(self._reductions - 1, 0) // MOST_REDUCTIONS).bit_length()
            self._reductions, self._reductions_of = 0, step
        self._reductions += 1
        return (self._reductions + step) % self._stride == 0

    def note(self, step: int, source: NumericsSource, value: float) -> None:
        """Note a number that was recorded for `step`.

        Some trainers record a non-finite number for an unknown one.
        """
        if math.isfinite(value):
            self._sources.add(source)
            self.knows_loss |= source is NumericsSource.LOSS
            self.knows_grad_norm |= source is NumericsSource.GRAD_NORM
        elif source in self._sources:
            self._add(step, source, 1, "")

    @guarded()
    def end_step(self, step: int, now_ns: int) -> None:
        """Read results from devices and write the findings from `step` or before it."""
        while self.checks and self.checks[0].magnitudes.ready():
            self._read(self.checks.popleft())
        if self.bad:
            self._write(step, now_ns)

    def _enqueue(
        self, kind: str, wanted: dict[int, Any], name_of: NameOf, source: NumericsSource
    ) -> None:
        import torch

        # Pinning memory would break a capture. After one allocation failure, each further attempt
        # would empty the allocator's cache, which the trainer needs.
        if self._out_of_memory or is_capturing(kind):
            return
        try:
            norms = torch._foreach_norm(list(wanted.values()), math.inf)
            magnitudes = DeviceTensor(torch.stack(norms).float())
        except torch.OutOfMemoryError:
            self._out_of_memory = True
            self.guard.misuse("no device memory for the check of gradients: it is left out")
            return
        step = self._recorder.step_number
        self.checks.append(_Check(step, int(source), magnitudes, tuple(wanted), name_of))

    def _confirm(self, wanted: dict[int, Any], name_of: NameOf, source: NumericsSource) -> None:
        """Check each value: a sum may overflow although every value is finite."""
        bad = [index for index, tensor in wanted.items() if not bool(tensor.isfinite().all())]
        if bad:
            self._add(self._recorder.step_number, source, len(bad), name_of(bad[0]))

    def _read(self, check: _Check) -> None:
        values = zip(check.indices, check.magnitudes.host().tolist(), strict=True)
        bad = [index for index, value in values if not math.isfinite(value)]
        if bad:
            self._add(check.step, check.source, len(bad), check.name_of(bad[0]))

    def _add(self, step: int, source: int, count: int, name: str) -> None:
        previous = self.bad.get((step, int(source)))
        self.bad[step, int(source)] = (
            Bad(count, name)
            if previous is None
            else previous._replace(tensors=previous.tensors + count)
        )

    def _write(self, step: int, now_ns: int) -> None:
        self._bad_steps = self._bad_steps + 1 if self._last_bad >= step - 1 else 1
        self._last_bad = step
        ring = self._recorder.ring
        few = self._bad_steps > WRITTEN_IN_A_ROW and self._bad_steps % THEN_EVERY
        if ring is not None and not few:
            gradients = any(source != NumericsSource.LOSS for _, source in self.bad)
            scaled = LOSS_SCALED if gradients and self._scalers.in_use() else 0
            for (bad_step, source), bad in self.bad.items():
                text = text_bytes(bad.name, _TEXT_BYTES)
                source |= scaled if source != NumericsSource.LOSS else 0
                digest = (0, 0, 0, text, UNKNOWN_EXCHANGES, 0)
                ring.write(Kind.NUMERICS, bad_step, now_ns, source, bad.tensors, *digest)
        self.bad.clear()


def _plain(tensor: Any) -> Any:
    """Return this rank's values in `tensor`; None if they are unknown."""
    import torch

    local = getattr(tensor, "_local_tensor", tensor).detach()  # a DTensor would reduce over ranks
    if local.layout == torch.sparse_coo:
        return local._values()
    return local if local.layout == torch.strided else None


def _sum(tensor: Any) -> float:
    """Return the sum over a host tensor, in float32 at least: half precision would overflow."""
    import torch

    wide = torch.float32 if tensor.element_size() < 4 else None
    return float(tensor.sum(dtype=wide))
