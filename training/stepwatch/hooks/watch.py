"""`Watch`: the one object that a trainer holds."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, ParamSpec, TypeVar

from .checkpoints import CheckpointHandle
from .context_managers import Batches, CollectiveContext, StepContext
from .guard import Guard, guarded
from .identity import IdentityRequest
from .instruments import Instruments
from .lifecycle import Lifecycle, at_exit
from .links import logs
from .links.announcement import Announcement
from .links.linking import Linking
from .opening.launchers import RankInWorld, allocated_since_s, known_rank
from .opening.opener import Opener, is_wanted
from .opening.placement import Placement
from .phases import PhaseContext
from .recorder.recorder import Recorder
from .run_facts.describing import Describing
from .step_calls import StepCalls, around_each_call
from .steps import Steps

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_active: weakref.ref[Watch] | None = None


class Watch:
    """Watches one rank: times its steps and writes its records to the rank's black box.

    Build it with `from_env`. Every method is safe to call at any time: misuse is counted in
    `guard.errors`, logged once with the fix, and changes nothing in the trainer.

    A step is marked in one of three ways: `with watch.step():` around the loop's body; the
    calls `begin_step` and `end_step` at its two ends; `@watch.step_function` on a function that is
    called once a step.

    Phases, for `phase` here and on a step:

    - `data`: waiting for the next batch. `batches` counts it.
    - `forward`, `backward`, `optimizer`: the three parts of a step. `attach` counts `optimizer`.
    - `checkpoint`: saving, as far as the loop waits for it. `checkpoint` counts it and more.
    - `eval`: evaluation and generation, inside or between steps.
    - `other`: everything else; also time without a phase.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.guard = recorder.guard
        self.instruments = Instruments(recorder)
        self._lifecycle = Lifecycle(recorder)
        self._announcement = Announcement(recorder)
        self._describing = Describing(recorder)
        self.steps = Steps(self.instruments)
        self._step = StepContext(self.steps)
        self._step_calls = StepCalls(self._step, self.guard)

    @classmethod
    def from_env(
        cls,
        job: str | None = None,
        *,
        mesh_index: Mapping[str, int] | None = None,
        mesh_size: Mapping[str, int] | None = None,
        device: int = -1,
        rank: int | None = None,
        world: int | None = None,
    ) -> Watch:
        """Watch this process as the rank that torch, a framework or its launcher reports.

        `job` names the job unless STEPWATCH_JOB does. `mesh_index` and `mesh_size` map the axes
        pp, dp_replicate, dp_shard and tp to this rank's coordinate and to the axis size. `device`
        is the index of the rank's device. `rank` and `world` are for frameworks that know them
        before torch.distributed does; without any source, the first step decides. If anything is
        wrong, the result is a `Watch` that does nothing, with one log line that states the reason.
        """
        guard = Guard()
        if not is_wanted():
            return cls(Recorder(None, guard))
        previous = _active() if _active is not None else None
        if previous is not None and not previous.closed:
            guard.misuse("this process has a Watch already: use that one, or close() it first")
            return cls(Recorder(None, guard))
        declared = None if rank is None or world is None else RankInWorld(rank, world)
        request = IdentityRequest(job, mesh_index or {}, mesh_size or {}, device, declared)
        placement = Opener(guard).placement(request)
        watch = cls(Recorder(None if placement is None else placement.ring, guard))
        if placement is not None:
            watch._activate(placement)
        return watch

    @property
    def enabled(self) -> bool:
        """Return whether a ring is open for recording."""
        return self.recorder.timeline is not None

    @property
    def closed(self) -> bool:
        """Return whether it has recorded and stopped."""
        return self.recorder.closed

    @property
    def step_number(self) -> int:
        """Number of the current step, or of the next one."""
        return self.recorder.step_number

    @guarded()
    def attach(self, *, model: Any = None, optimizer: Any = None, schedule: Any = None) -> None:
        """Watch a `model`, its `optimizer` and a pipeline `schedule`.

        `model` is a module or a list of modules; FSDP2 and DistributedDataParallel are supported:
        their collectives, gradients and parameters are watched. `optimizer` is a torch optimizer or
        a list of optimizers; time in `step` counts as the phase `optimizer`, whether or not the
        trainer marks it. Call it after sharding, before the first step, on the training thread.
        """
        if self.enabled:
            from .attach import attach_all  # not loaded unless something is watched

            attach_all(self.instruments, model, optimizer, schedule)

    def describe(self, **parts: Any) -> None:
        """Record the run's configuration, so that it can be compared with other runs.

        `config`, `model`, `data`, `code` and `environment` are each a mapping, a dataclass or a
        namespace, nested or not, and so is `owner`: the `project`, `team` and `cost_centre` for
        reports. Call it before the first step, on any rank. Versions, library settings and the
        commit are recorded without it. Values under names such as `hub_token` or `api_key` are
        withheld. MFU is known if `model` has `flops_per_token`, forward and backward, and
        `environment` has `device_peak_flops_per_second`.
        """
        self._describing.describe(parts)

    def batches(self, loader: Iterable[T]) -> Iterator[T]:
        """Iterate over `loader`, counting the time inside its `next` as data wait."""
        return Batches(self.steps, iter(loader))

    def step(self, tokens: int = 0, *, number: int | None = None) -> StepContext:
        """Return a context manager around one step; `tokens` is this rank's token count in it.

        `number` is the trainer's own number for the step; None counts on from the last.
        """
        if number is not None:
            self.recorder.number(number)
        self._step.tokens = tokens
        return self._step

    def begin_step(self, tokens: int = 0, *, number: int | None = None) -> None:
        """Begin a step that `end_step` ends; `tokens` and `number` are as for `step`.

        A step that is still active, as after a `continue`, is recorded as unfinished.
        """
        self._step_calls.begin(tokens, number)

    def end_step(self, *, tokens: int | None = None, **metrics: Any) -> None:
        """End the step that `begin_step` began; the `metrics` are as for `record`.

        `tokens` None keeps the number from `begin_step`. Without `begin_step` nothing is recorded.
        """
        self._step_calls.end(tokens, metrics)

    def step_function(self, function: Callable[P, R], tokens: int = 0) -> Callable[P, R]:
        """Decorate a function that is called once a step: each call is a step.

        `tokens` is this rank's token count in each call. An exception passes through; its step is
        recorded as unfinished.
        """
        return around_each_call(self.step, function, tokens)

    def record(
        self, *unnamed: Any, loss: Any = None, grad_norm: Any = None, **metrics: Any
    ) -> None:
        """Note numbers for the current step: numbers or one-element tensors, never synchronised.

        `metrics` have any names, at most 64 in a job; a mapping has one for each of its parts:
        `loss={"image": 0.5, "text": 0.7}` records `loss/image` and `loss/text`. A name's last value
        in a step counts. A number without a name is counted, logged once and left out.
        """
        self._step.record(*unnamed, loss=loss, grad_norm=grad_norm, **metrics)

    def record_evaluation(self, values: Mapping[str, Any], name: str = "validation") -> None:
        """Record an evaluation's values, such as `{"val_loss": 2.1}`, after the newest step.

        The values are as for `record`; `name` tells evaluations apart. Call it from any thread.
        """
        self.instruments.metrics.record_evaluation(values, name)

    @guarded()
    def declare_metric(self, name: str, unit: str = "", better: str = "") -> None:
        """Declare a metric's `unit`, and whether "lower" or "higher" is `better`."""
        self.instruments.metrics.names.declare(name, unit, better)

    def phase(self, name: str) -> PhaseContext:
        """Return a context manager around a phase, inside or outside a step (an evaluation, say).

        The class lists the phases. On a thread other than the training thread it counts nothing.
        """
        return self.steps.phases.named(name)

    def collective(self, op: str, group: Any = None, nbytes: int = 0) -> CollectiveContext:
        """Return a context manager around a blocking collective that the trainer issues itself.

        `op` is a name in `records.Op`, `group` a process group (None: the world), `nbytes` its
        input size in bytes. On a thread other than the training thread it counts nothing.
        """
        return CollectiveContext.from_call(self.instruments, op, group, nbytes)

    def checkpoint(self, step: int, path: str | os.PathLike[str] = "") -> CheckpointHandle:
        """Return a context manager around the part of a checkpoint that stalls the loop.

        Keep it to report later, from any thread, that the checkpoint was written and verified. The
        agent verifies the file or folder at rank 0's `path`; without it, the files that torch or a
        library saves inside the block.
        """
        return CheckpointHandle(self.instruments.checkpoints, step, path)

    def start_at(self, step: int) -> None:
        """Number the next step `step`; call it after a resume, before the first step.

        A first step beyond 1 is a resume, with or without `resumed`.
        """
        self.recorder.start_at(step)

    def resumed(self, *, from_step: int, checkpoint: str = "") -> None:
        """The attempt continues with step `from_step`; call it before `start_at`.

        Needed only to name the `checkpoint`, or if the attempt continues from step 0 or 1.
        """
        self._lifecycle.resumed(from_step, checkpoint)

    def preempted(self) -> None:
        """The rank was asked to stop (SIGTERM, a spot notice)."""
        self._lifecycle.preempted()

    def finish(self) -> None:
        """The job reached its end; without this call `close` assumes so after a clean exit."""
        self._lifecycle.finished()

    def failed(self, failure: BaseException) -> None:
        """The rank ends with `failure`; needed if the error is caught before Python ends.

        A KeyboardInterrupt is not a failure: the rank was interrupted.
        """
        self._lifecycle.failed(failure)

    @guarded()
    def close(self) -> None:
        """Write the pending records and end this rank's record."""
        recorder = self.recorder
        if not self.enabled or recorder.closed or recorder.ring is None:
            return
        self._last(self._step_calls.close)
        self._last(partial(recorder.settle, assume_single=True))
        recorder.closed = True
        for end in (
            self.steps.close,
            self._announcement.end,
            self._lifecycle.end,
            recorder.server.close,
            recorder.disable,
            recorder.attachments.remove_all,
            recorder.ring.close,
        ):
            self._last(end)

    @guarded()
    def _last(self, end: Callable[[], object]) -> None:
        """Run one closing action, which keeps no other from running."""
        end()

    def _activate(self, placement: Placement) -> None:
        """Start recording; from now on this is the process's Watch until it is closed."""
        global _active
        _active = weakref.ref(self)
        self.recorder.place = placement.settle
        self.recorder.allocated_s = allocated_since_s(os.environ)
        if self.recorder.heartbeat is not None:
            self.recorder.heartbeat.wait = placement.wait
        self.recorder.start()
        self.recorder.server.start()
        self.recorder.first_step = self._announcement.begin
        self.recorder.first_step_ended = self._first_step_ended
        logs.follow(self.recorder)
        if known_rank(os.environ) is not None:  # else it is known when the first step begins
            self._announcement.start()
        at_exit(_finish_at_exit, _active)
        os.register_at_fork(after_in_child=self._leave_to_parent)

    def _first_step_ended(self) -> None:
        Linking(self.recorder).link()
        self._describing.first_step_ended()

    def _leave_to_parent(self) -> None:
        # Bound to this Watch, so that an unreferenced Watch is still closed at exit.
        self.recorder.disable()


def _finish_at_exit(reference: weakref.ref[Watch]) -> None:
    watch = reference()
    if watch is None:
        return
    # multiprocessing ends its children while the error still propagates, other parents after that.
    failure = sys.exc_info()[1] or getattr(sys, "last_value", None)
    if failure is not None:
        watch.failed(failure)
    watch.close()
