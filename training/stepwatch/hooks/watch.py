"""`Watch`: the one object a trainer holds."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from stepwatch.signals import places
from stepwatch.signals.blackbox import Identity, RingWriter
from stepwatch.signals.blackbox.layout import WORKER_SOCKET_SIZE
from stepwatch.signals.errors import StepwatchError
from stepwatch.signals.records import (
    PHASE_BY_NAME,
    UNKNOWN_FLOAT,
    Kind,
    LifecycleEvent,
    NumericsSource,
    Op,
    Phase,
    StepFlag,
    text_bytes,
)

from . import identity as who
from .checkpoints import CheckpointHandle, Fact
from .collectives.groups import GroupNumbers
from .context_managers import Batches, CollectiveContext, PhaseContext, StepContext
from .device_memory import DeviceMemory
from .guard import Guard, guarded, logger
from .numerics.deferred_scalars import Scalar, is_ready, read, scalar
from .numerics.digests import EVERY, LOOKS, Digests
from .numerics.non_finite import Numerics
from .pipeline.microbatches import MicrobatchSamples
from .pipeline.schedule_simulator import schedule_bubble, schedule_name
from .recorder.heartbeat import Heartbeat
from .recorder.timeline import OPS_BY_NAME, Timeline
from .recorder.training_thread import TrainingThread
from .recorder.worker_server import WorkerServer, enable_flight_recorder, socket_beside

T = TypeVar("T")

_HELD_STEPS = 8
_MAX_STEP = _MAX_TOKENS = 0xFFFFFFFF
_MAX_MICROBATCHES = 0xFFFF
_MAX_BYTES = 1 << 60
# Plain integers for the path of every step: operators of IntFlag cost a microsecond each.
_STEP, _CHECKPOINT, _EVAL = int(Kind.STEP), int(Phase.CHECKPOINT), int(Phase.EVAL)
_FIRST, _AFTER_PAUSE = int(StepFlag.FIRST), int(StepFlag.AFTER_PAUSE)
_active: weakref.ref[Watch] | None = None


class Watch:
    """Watches one rank: times its steps and writes what it saw to the rank's black box.

    Build it with `from_env`. Every method is safe to call at any time: misuse is counted in
    `guard.errors`, logged once with the fix, and changes nothing in the trainer.
    """

    def __init__(self, ring: RingWriter | None, guard: Guard) -> None:
        self.guard = guard
        self.ring = ring
        self.step_number = 0
        self.thread = TrainingThread()
        self.timeline = Timeline(ring, time.monotonic_ns, guard.misuse) if ring else None
        self.groups = GroupNumbers(self)
        self.numerics = Numerics(self)
        self.digests = Digests(self)
        self.memory = DeviceMemory(self)
        self.microbatches = MicrobatchSamples(self)
        self.settle: Callable[[], None] | None = None
        """Books collectives that have ended; called on the training thread around each step."""
        self._began = False
        self._closed = False
        self._preempted = False
        self._outcome: tuple[LifecycleEvent, str] | None = None
        self._facts: deque[Fact] = deque()
        self._held: deque[tuple[tuple[int, ...], Scalar, Scalar]] = deque()
        self._phases = self._phase_contexts()
        self._step = StepContext(self, self._phases)
        self._server = WorkerServer(self)
        if ring is not None:
            guard.publish = ring.set_hook_errors
            self._lifecycle(LifecycleEvent.START, ring.identity.world, ring.identity.node)
            Heartbeat(self).start()

    @classmethod
    def from_env(
        cls,
        job: str | None = None,
        *,
        mesh_index: Mapping[str, int] | None = None,
        mesh_size: Mapping[str, int] | None = None,
        device: int = -1,
    ) -> Watch:
        """Watch this process as the rank that torchrun's environment says it is.

        `job` names the job unless STEPWATCH_JOB does. `mesh_index` and `mesh_size` map the axes
        pp, dp_replicate, dp_shard and tp to this rank's coordinate and to the axis size. `device`
        is the index of the rank's device. Whatever is wrong, the result is a `Watch` that does
        nothing, with one log line that says why.
        """
        guard = Guard()
        if who.is_disabled(os.environ) or who.is_helper():
            return cls(None, guard)
        previous = _active() if _active is not None else None
        if previous is not None and not previous._closed:
            guard.misuse("this process has a Watch already: use that one, or close() it first")
            return cls(None, guard)
        disabled = cls(None, guard)
        ring = disabled._open_ring(job, mesh_index or {}, mesh_size or {}, device)
        return disabled if ring is None else cls._over(ring, guard)

    @guarded()
    def _open_ring(
        self, job: str | None, index: who.Mesh, size: who.Mesh, device: int
    ) -> RingWriter | None:
        if not who.under_launcher(os.environ):
            logger.info("stepwatch: not under torchrun: watching as rank 0 of 1")
        try:
            identity = who.read_identity(job, index, size, device, os.environ)
            folder = places.ring_dir() / identity.job / str(identity.attempt)
            path = folder / str(identity.rank)
            enable_flight_recorder(os.environ)
            return RingWriter(path, _listening(identity, path))
        except StepwatchError as error:
            self.guard.misuse(f"not watching: {error}")
            return None

    @classmethod
    def _over(cls, ring: RingWriter, guard: Guard) -> Watch:
        global _active
        watch = cls(ring, guard)
        _active = weakref.ref(watch)
        watch._server.start()
        atexit.register(_finish_at_exit, _active)
        os.register_at_fork(after_in_child=watch._disable)
        return watch

    @property
    def closed(self) -> bool:
        """Whether it recorded once and does so no more."""
        return self._closed

    @property
    def enabled(self) -> bool:
        """Whether anything is recorded."""
        return self.timeline is not None

    @guarded()
    def attach(self, *, model: Any = None, optimizer: Any = None, schedule: Any = None) -> None:
        """Watch collectives, gradients and parameters of `model`, and a pipeline `schedule`.

        `model` is a module or a list of them; FSDP2 and DistributedDataParallel are known. Call it
        after sharding and before the first step.
        `optimizer` is accepted for symmetry: its time is what `phase("optimizer")` covers.
        """
        if self.timeline is not None:
            from .attach import attach_all  # not needed, so not loaded, where nothing is watched

            self._server.start()
            self.thread.ident = threading.get_ident()
            attach_all(self, model, schedule)
            if schedule is not None:
                self._tell_schedule(schedule)

    def batches(self, loader: Iterable[T]) -> Iterator[T]:
        """Iterate over `loader`, counting the time inside its `next` as data wait."""
        return Batches(self, iter(loader))

    def step(self, tokens: int = 0) -> StepContext:
        """Context manager around one step; `tokens` is what this rank trains on in it."""
        self._step.tokens = tokens
        return self._step

    def phase(self, name: str) -> PhaseContext:
        """Context manager around a phase, inside or outside a step (an evaluation, say).

        On a thread other than the one that trains it counts nothing.
        """
        phase = self._phases.get(name) if isinstance(name, str) else None
        if phase is None:
            known = ", ".join(PHASE_BY_NAME)
            self.guard.misuse(f"phase {name!r:.80} is not one of {known}; counted as other")
            phase = self._phases["other"]
        return phase if self.thread.is_current() else contextlib.nullcontext()

    def collective(self, op: str, group: Any = None, nbytes: int = 0) -> CollectiveContext:
        """Context manager around a blocking collective that the trainer issues itself.

        `op` is a name of `records.Op`, `group` a process group (None: the world), `nbytes` its
        input size in bytes.
        """
        known = OPS_BY_NAME.get(op, Op.OTHER) if isinstance(op, str) else Op.OTHER
        usable = type(nbytes) is int and 0 <= nbytes <= _MAX_BYTES
        return CollectiveContext(self, int(known), group, nbytes if usable else 0)

    def checkpoint(self, step: int) -> CheckpointHandle:
        """Context manager around the part of a save that stalls the loop; keep it to verify."""
        return CheckpointHandle(self, step, self._facts, self._write_facts)

    @guarded()
    def start_at(self, step: int) -> None:
        """Number the next step `step`; call it after a resume, before the first step."""
        if not 0 <= step <= _MAX_STEP:
            raise ValueError(f"step {step} is not between 0 and {_MAX_STEP}")
        self.step_number = step
        if self.timeline is not None:
            self.timeline.step = step

    @guarded()
    def resumed(self, *, from_step: int, steps_lost: int) -> None:
        """The attempt goes on from the checkpoint of `from_step`; `steps_lost` must be redone."""
        self._lifecycle(LifecycleEvent.RESUME, from_step, f"steps_lost={steps_lost}")

    @guarded()
    def preempted(self) -> None:
        """Somebody asked the rank to stop (SIGTERM, a spot notice)."""
        self._preempted = True
        self._lifecycle(LifecycleEvent.PREEMPTION, self.step_number, "")

    @guarded()
    def finish(self) -> None:
        """The job reached its end; without this call `close` assumes so after a clean exit."""
        self._outcome = (LifecycleEvent.FINISH, "")

    @guarded()
    def close(self) -> None:
        """Write what is held back and end the record of this rank."""
        if self.timeline is None or self._closed or self.ring is None:
            return
        self._closed = True
        self._write_facts()
        self._write_held(everything=True)
        self.numerics.end_step(self.step_number, time.monotonic_ns())
        stopped = "preempted" if self._preempted else ""
        event, text = self._outcome or (LifecycleEvent.FINISH, stopped)
        self._lifecycle(event, self.step_number, text)
        self._server.close()
        self._disable()
        self.ring.close()

    def _phase_contexts(self) -> dict[str, PhaseContext]:
        if self.timeline is None:
            return dict.fromkeys(PHASE_BY_NAME, contextlib.nullcontext())
        return {name: self.timeline.buckets[phase] for name, phase in PHASE_BY_NAME.items()}

    @guarded()
    def _explain(self, failure: BaseException) -> None:
        # An exception's own __str__ may fail; its name is told already.
        self._outcome = (LifecycleEvent.FAILURE, f"{type(failure).__name__}: {failure}")

    def _disable(self) -> None:
        # Also what a forked child does first: the ring it inherited is its parent's.
        if self.timeline is not None:
            self.timeline.detach()
        self.timeline = self.guard.publish = None
        self._closed = True

    def begin(self) -> Timeline | None:
        """Start the clock of the first step, once; None while nothing is recorded."""
        if self.timeline is None:
            if self._closed and self.ring is not None and not self._is_child():
                self.guard.misuse("Watch used after close(): build a new one with from_env")
            return None
        if not self._began:
            self._began = True
            self._server.start()
            self.timeline.step = self.step_number
            self.timeline.begin()
        return self.timeline

    def _lifecycle(self, event: LifecycleEvent, value: int, text: str) -> None:
        if self.ring is not None and not self._is_child():
            self.ring.write(
                Kind.LIFECYCLE,
                self.step_number,
                time.monotonic_ns(),
                event,
                value,
                text_bytes(text, 56),
            )

    @guarded()
    def _tell_schedule(self, schedule: Any) -> None:
        ideal = schedule_bubble(schedule)
        millionths = -1 if ideal is None else round(ideal * 1e6)
        self._lifecycle(LifecycleEvent.SCHEDULE, millionths, schedule_name(schedule))

    def _is_child(self) -> bool:
        return self.ring is not None and self.ring.identity.pid != os.getpid()

    @guarded()
    def _write_facts(self) -> None:
        ring = self.ring
        while self._facts and ring is not None and self.timeline is not None:
            fact = self._facts.popleft()
            ring.write(Kind.CHECKPOINT, fact[0], time.monotonic_ns(), *fact[1:])

    @guarded()
    def end_step(self, tokens: int, loss: Scalar, grad_norm: Scalar, flags: int) -> None:
        """Write the record of the step that ends now; `flags` are bits of `StepFlag`."""
        timeline = self.timeline
        if timeline is None:
            return
        if self.settle is not None:
            self.settle()
        number = self.step_number
        numerics = self.numerics
        # A finite number minus itself is 0: only others, and the first one, need a call.
        told = loss is not UNKNOWN_FLOAT
        if told and type(loss) is float and (loss - loss or not numerics.knows_loss):
            numerics.note(number, NumericsSource.LOSS, loss)
        if grad_norm is not UNKNOWN_FLOAT and type(grad_norm) is float:
            numerics.note(number, NumericsSource.GRAD_NORM, grad_norm)
        if (number + 1) % EVERY < LOOKS or numerics.pending:
            self._sample(number)
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
        self.step_number = timeline.step = number + 1
        if type(tokens) is not int or not 0 <= tokens <= _MAX_TOKENS:
            tokens = min(max(int(tokens), 0), _MAX_TOKENS)
        if self._held or not (type(loss) is float and type(grad_norm) is float):
            record = (number, now, duration, *totals, tokens, microbatches, flags)
            self._held.append((record, loss, grad_norm))
            self._write_held(everything=False)
        elif self.ring is not None:
            self.ring.append(
                _STEP,
                (number, now, duration, *totals, tokens, microbatches, flags, loss, grad_norm),
            )
        if self._facts:
            self._write_facts()
        if flags & _FIRST:
            self._lifecycle(LifecycleEvent.FIRST_STEP, number, "")

    def _sample(self, step: int) -> None:
        """Look at the parameters and the device's memory, and write what came from devices."""
        now = time.monotonic_ns()
        self.numerics.end_step(step, now)
        self.digests.end_step(step, now)
        self.memory.end_step(step, now)

    @guarded(fallback=UNKNOWN_FLOAT)
    def take(self, value: Any) -> Scalar:
        """A recorded value as a scalar; NaN where it is not one."""
        return scalar(value)

    def _write_held(self, *, everything: bool) -> None:
        held, ring = self._held, self.ring
        while held and ring is not None:
            record, loss, grad_norm = held[0]
            late = not (is_ready(loss) and is_ready(grad_norm))
            if late and not everything and len(held) <= _HELD_STEPS:
                return
            held.popleft()
            ring.write(Kind.STEP, *record, read(loss), read(grad_norm))
            sources = ((NumericsSource.LOSS, loss), (NumericsSource.GRAD_NORM, grad_norm))
            for source, value in sources:
                if not isinstance(value, float) and value.ready():
                    self.numerics.note(record[0], source, value.value())


def _listening(identity: Identity, ring: Path) -> Identity:
    """`identity` with the socket of its worker server, unless the path is longer than its field."""
    path = str(socket_beside(ring.absolute()))
    fits = len(os.fsencode(path)) <= WORKER_SOCKET_SIZE
    return identity._replace(worker_socket=path if fits else "")


def _finish_at_exit(reference: weakref.ref[Watch]) -> None:
    watch = reference()
    if watch is None:
        return
    failure = getattr(sys, "last_value", None)
    if watch._outcome is None and failure is not None:
        watch._outcome = (LifecycleEvent.FAILURE, type(failure).__name__)
        watch._explain(failure)
    watch.close()
