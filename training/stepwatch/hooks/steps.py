"""The end of each step: its record, and the readings and writes once a step."""

from __future__ import annotations

from typing import Any

from stepwatch.signals.records import (
    UNKNOWN_FLOAT,
    Kind,
    LifecycleEvent,
    NumericsSource,
    Phase,
    StepFlag,
)

from .core.sampling import EVERY, REPEATS
from .guard import guarded
from .instruments import Instruments
from .numerics.deferred_scalars import Scalar, as_float32, scalar
from .phases import Phases
from .recorder.whole_numbers import is_on_device

_MAX_TOKENS = 0xFFFFFFFF
_MAX_MICROBATCHES = 0xFFFF
# Plain integers for the path of every step: IntFlag's operators cost a microsecond each.
_STEP, _CHECKPOINT, _EVAL = int(Kind.STEP), int(Phase.CHECKPOINT), int(Phase.EVAL)
_FIRST, _AFTER_PAUSE = int(StepFlag.FIRST), int(StepFlag.AFTER_PAUSE)
_SOURCES = (NumericsSource.LOSS, NumericsSource.GRAD_NORM)
"""Sources of a STEP record's scalars."""


class Steps:
    """Ends one rank's steps and writes a STEP record for each."""

    def __init__(self, instruments: Instruments) -> None:
        self.guard = instruments.guard
        self.instruments = instruments
        self.recorder = instruments.recorder
        self.phases = Phases(self.recorder)
        self.instruments.device.changed = self.phases.renew
        self._append = None if self.recorder.ring is None else self.recorder.ring.append
        self._checkpoints = instruments.checkpoints
        self._late = instruments.late
        self._late.delivered = self._delivered
        self._metrics = instruments.metrics
        self._profiles = instruments.profiles

    @guarded(fallback=UNKNOWN_FLOAT)
    def scalar(self, value: Any) -> Scalar:
        """Return a recorded value as a float32 scalar; NaN if it is none."""
        recorded = scalar(value)
        return as_float32(recorded) if isinstance(recorded, float) else recorded

    @guarded()
    def end(self, tokens: int, loss: Scalar, grad_norm: Scalar, flags: int) -> None:
        """Write the record of the step that ends now; `flags` are bits from `StepFlag`.

        `core/native/step_end.c` does the same; it calls this for steps with anything rare.
        """
        recorder = self.recorder
        timeline = recorder.timeline
        if timeline is None:
            return
        if recorder.drain_completions is not None:
            recorder.drain_completions()
        number = recorder.step_number
        numerics = self.instruments.numerics
        # A finite number minus itself is 0: only others, and the first one, need a call.
        has_loss = loss is not UNKNOWN_FLOAT
        if has_loss and type(loss) is float and (loss - loss or not numerics.knows_loss):
            numerics.note(number, NumericsSource.LOSS, loss)
        has_norm = grad_norm is not UNKNOWN_FLOAT
        knows_norm = numerics.knows_grad_norm
        if has_norm and type(grad_norm) is float and (grad_norm - grad_norm or not knows_norm):
            numerics.note(number, NumericsSource.GRAD_NORM, grad_norm)
        if (number + 1) % EVERY < REPEATS or numerics.bad or numerics.checks:
            self.sample(number)
        now, duration, totals = timeline.end_step()
        if timeline.collectives:
            timeline.write_collectives(now)
        flags |= timeline.flags
        if totals[_CHECKPOINT] or totals[_EVAL]:
            flags |= _AFTER_PAUSE
        microbatches = timeline.microbatches
        if microbatches > _MAX_MICROBATCHES:
            microbatches = _MAX_MICROBATCHES
        # The next step begins even if this one cannot be written.
        timeline.flags = timeline.microbatches = 0
        recorder.step_number = timeline.step = number + 1
        if type(tokens) is not int or not 0 <= tokens <= _MAX_TOKENS:
            tokens = self.whole_tokens(tokens)
        if self._late.pending or not (type(loss) is float and type(grad_norm) is float):
            head = (number, now, duration, *totals, tokens, microbatches, flags)
            self._late.write(_STEP, head, (loss, grad_norm))
        elif self._append is not None:
            self._append(
                _STEP,
                (number, now, duration, *totals, tokens, microbatches, flags, loss, grad_norm),
            )
        metrics = self._metrics
        if metrics.calls or metrics.elsewhere:
            metrics.end_step(number, now)
        if self._checkpoints.facts:
            self._checkpoints.write()
        if flags & _FIRST:
            self.first_ended(number)
        if self._profiles.active:
            self._profiles.end_step(number)

    def first_ended(self, number: int) -> None:
        """Do what waits for the end of the first step."""
        recorder = self.recorder
        recorder.settle()
        recorder.has_stepped = True
        recorder.write_lifecycle(LifecycleEvent.FIRST_STEP, number, "")
        self.instruments.device.consider()
        if recorder.first_step_ended is not None:
            recorder.first_step_ended()
        self.instruments.pauses.start()

    @guarded(fallback=0)
    def whole_tokens(self, tokens: Any) -> int:
        """Return tokens as a record holds them; 0, which is unknown, if they are not a number."""
        if is_on_device(tokens):
            raise ValueError("tokens lie on a device and would be waited for: give an int")
        return min(max(int(tokens), 0), _MAX_TOKENS)

    def close(self) -> None:
        """Write the pending records; numbers that a device has not delivered yet stay unknown."""
        self._profiles.close()
        self._checkpoints.write()
        self._metrics.write_elsewhere()
        self._late.drain(everything=True)
        self.instruments.device.close()
        self.instruments.pauses.close()
        self.instruments.phases.close()
        self.instruments.numerics.end_step(self.recorder.step_number, self.recorder.clock())

    def sample(self, step: int) -> None:
        """Read parameters and the device's memory, and write the results from devices."""
        now = self.recorder.clock()
        instruments = self.instruments
        if instruments.numerics.bad or instruments.numerics.checks:
            instruments.numerics.end_step(step, now)
        instruments.digests.end_step(step, now)
        instruments.memory.end_step(step, now)

    def _delivered(self, step: int, place: int, value: float) -> None:
        """Check a loss or gradient norm that a device has delivered for `step`."""
        self.instruments.numerics.note(step, _SOURCES[place], value)
