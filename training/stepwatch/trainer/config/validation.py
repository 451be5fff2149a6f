"""Validates a configuration before any process starts; needs no torch."""

from __future__ import annotations

import math
from collections.abc import Iterable

from stepwatch.faults import Fault
from stepwatch.faults.specs import NanGradients, SkewedShard, StageImbalance, WrongOrder
from stepwatch.signals.errors import UsageError
from stepwatch.signals.phrases import closest_hint

from .options import Options
from .placement import STAGES_PER_RANK, ideal_bubble, stage_count
from .sizes import ModelSize, model_sizes
from .strategy import splits_backward, uses_ddp


def model_size(options: Options) -> ModelSize:
    """Return the configured model size.

    Raises:
        UsageError: no size has that name; the message names the nearest.
    """
    sizes, name = model_sizes(), options.model.model
    if name not in sizes:
        raise UsageError(f"no model size {name!r}; {closest_hint(name, sizes)}")
    return sizes[name]


def _range_errors(options: Options) -> list[str]:
    run, parallel, model = options.run, options.parallel, options.model
    least = {
        "--steps": (run.steps, 1),
        "--seed": (run.seed, 0),
        "--batch": (parallel.batch, 1),
        "--microbatches": (parallel.microbatches, 1),
        "--length": (model.length, 2),
        "--data-bytes": (options.data.data_bytes, 1024),
        "--ahead": (options.data.ahead, 0),
        "--warmup": (options.optimizer.warmup, 0),
        "--checkpoint-every": (options.checkpoint.checkpoint_every, 0),
        "--checkpoint-keep": (options.checkpoint.checkpoint_keep, 1),
        "--eval-every": (options.evaluation.eval_every, 0),
        "--eval-batches": (options.evaluation.eval_batches, 1),
        "--eval-unmarked-every": (options.evaluation.eval_unmarked_every, 0),
        "--restarts": (run.restarts, 0),
        "--grace-seconds": (run.grace_seconds, 0),
        "--timeout-seconds": (run.timeout_seconds, 1),
        "--lr": (options.optimizer.lr, 0),
        "--final-lr": (options.optimizer.final_lr, 0),
        "--weight-decay": (options.optimizer.weight_decay, 0),
        "--clip": (options.optimizer.clip, 0),
    }
    # `not value >= low` is also true for NaN.
    low_values = [
        f"{flag} must be at least {low}" for flag, (value, low) in least.items() if not value >= low
    ]
    return low_values + [
        f"{flag} must be finite" for flag, (value, _) in least.items() if math.isinf(value)
    ]


def _division_errors(options: Options) -> list[str]:
    size = model_size(options)
    parallel, mesh = options.parallel, options.parallel.mesh
    stages = stage_count(parallel.schedule, mesh.pp)
    pieces = mesh.data_ranks * parallel.microbatches
    errors = []
    if size.layers % stages:
        errors.append(
            f"{size.layers} layers of {size.name} cannot be divided into {stages} stages "
            f"(pp={mesh.pp}, {STAGES_PER_RANK[parallel.schedule]} per rank in {parallel.schedule})"
        )
    for part, count in (("heads", size.heads), ("key-value heads", size.kv_heads)):
        if count % mesh.tp:
            errors.append(f"{count} {part} of {size.name} cannot be divided by tp={mesh.tp}")
    if options.model.length % mesh.tp:
        errors.append(f"--length {options.model.length} cannot be divided by tp={mesh.tp}")
    if parallel.batch % pieces:
        nearest = pieces * max(1, parallel.batch // pieces)
        errors.append(
            f"--batch {parallel.batch} cannot be divided by {mesh.data_ranks} data ranks x "
            f"{parallel.microbatches} micro-batches; {nearest} can"
        )
    return errors


def _schedule_errors(options: Options) -> list[str]:
    parallel, pp = options.parallel, options.parallel.mesh.pp
    if pp == 1:
        return []
    count, name = parallel.microbatches, parallel.schedule
    errors = []
    if name == "1f1b" and count < pp:
        errors.append(
            f"--schedule 1f1b needs at least {pp} micro-batches for pp={pp}, not {count} (each "
            f"rank is then idle for {ideal_bubble(name, pp, pp):.0%} of the step, with {4 * pp} "
            f"for {ideal_bubble(name, pp, 4 * pp):.0%})"
        )
    if name in ("interleaved", "zero-bubble") and count % max(1, count // pp):
        errors.append(
            f"--schedule {name} runs micro-batches in {count // pp} equal rounds: make "
            f"--microbatches a multiple of it, such as {count // pp * pp}"
        )
    return errors


def _split_backward_errors(options: Options) -> list[str]:
    name, errors = options.parallel.schedule, list[str]()
    if not splits_backward(options):
        return errors
    if options.model.compile:
        errors.append(f"--schedule {name} splits backward, which torch.compile cannot do")
    if options.model.activations != "keep":
        errors.append(
            f"--schedule {name} splits backward, and each half would recompute the activations: "
            "use --activations keep"
        )
    return errors


def _compression_errors(options: Options) -> list[str]:
    kind = options.parallel.compression
    if kind != "none" and not (uses_ddp(options) and options.parallel.mesh.pp == 1):
        return [f"--compression {kind} needs DDP's buckets: only with a mesh of dp_replicate alone"]
    return []


def _compile_errors(options: Options) -> list[str]:
    if options.model.compile and options.parallel.mesh.tp > 1:
        return [
            "--compile with tp: torch.compile loses the distributed tensors of sequence-parallel "
            "norms (torch 2.13); leave one of the two out"
        ]
    return []


_CHECKS = (
    _range_errors,
    _schedule_errors,
    _split_backward_errors,
    _compression_errors,
    _compile_errors,
    _division_errors,
)


def validate(options: Options) -> None:
    """Check everything that can be checked before launch.

    Raises:
        UsageError: names the first combination that cannot work, with the reason.
    """
    model_size(options)
    for errors_of in _CHECKS:
        if errors := errors_of(options):
            raise UsageError(errors[0])


UNSUPPORTED_FAULTS: dict[type[Fault], str] = {
    WrongOrder: "this trainer issues one collective of its own per step, and has none to swap",
    SkewedShard: "every sequence of this trainer has the same length",
}
"""Faults that this trainer cannot inject, with the reason."""


def validate_faults(options: Options, faults: Iterable[Fault]) -> None:
    """Check that these faults can be injected into this run.

    Raises:
        UsageError: names the first fault that cannot, with the reason.
    """
    for fault in faults:
        reason = UNSUPPORTED_FAULTS.get(type(fault))
        if isinstance(fault, StageImbalance) and options.parallel.mesh.pp == 1:
            reason = "it needs a pipeline; give --mesh a pp of at least 2"
        if isinstance(fault, NanGradients) and options.model.compile:
            reason = "the gradients of compiled layers are out of reach; leave out --compile"
        if reason is not None:
            raise UsageError(f"fault {fault.name}: {reason}")


def warnings_for(options: Options) -> list[str]:
    """Warn about costly settings: too few micro-batches, with the idle time that follows."""
    parallel, pp = options.parallel, options.parallel.mesh.pp
    if pp > 1 and parallel.microbatches < pp:
        idle = ideal_bubble(parallel.schedule, pp, parallel.microbatches)
        return [
            f"with {parallel.microbatches} micro-batches on {pp} pipeline ranks each rank is idle "
            f"for {idle:.0%} of the step; with {4 * pp} for "
            f"{ideal_bubble(parallel.schedule, pp, 4 * pp):.0%}"
        ]
    return []
