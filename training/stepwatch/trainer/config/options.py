"""Every trainer option with its type, default and help line.

An option is a flag (`--checkpoint-every 50`) and a TOML key under its section
(`[checkpoint]` / `checkpoint_every = 50`). Section names are the fields in `Options`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .mesh import MeshShape

SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble", "zbv")
PRECISIONS = ("fp32", "bf16")
ACTIVATIONS = ("keep", "selective", "full")
COMPRESSIONS = ("none", "bf16", "powersgd")


def option(default: Any, help_text: str, choices: tuple[str, ...] = ()) -> Any:
    """Declare one option with its default, its help line and, for a closed set, its values."""
    return field(default=default, metadata={"help": help_text, "choices": choices})


@dataclass(frozen=True)
class RunOptions:
    """The run: its length, its files and its restarts."""

    job: str = option("train", "name of the job")
    steps: int = option(60, "steps to train, counted from the start of the job")
    seed: int = option(1, "seed of weights and data order")
    device: str = option("auto", "type of device; auto: cuda where every rank has one, else cpu")
    run_dir: str = option("", "directory for shards, checkpoints and history (default: temporary)")
    json: str = option("", "write the result to this file")
    resume: str = option(
        "auto", "auto: from the newest valid checkpoint; never: start over", ("auto", "never")
    )
    nodes: str = option("1", "nodes of the job, or min:max for an elastic one (torchrun)")
    rendezvous: str = option("", "host:port of the rendezvous; needed where nodes is not 1")
    restarts: int = option(0, "restarts of all ranks after a failure (torchrun)")
    grace_seconds: float = option(25.0, "seconds for a last checkpoint after SIGTERM")
    timeout_seconds: float = option(300.0, "seconds after which a stalled collective is an error")


@dataclass(frozen=True)
class ModelOptions:
    """The model, its precision and its compilation."""

    model: str = option("tiny", "model size: the name of a table in sizes.toml")
    length: int = option(128, "tokens (bytes) per sequence")
    precision: str = option("fp32", "dtype of matrix products", PRECISIONS)
    activations: str = option(
        "keep", "keep activations, or recompute all (full) or some in backward", ACTIVATIONS
    )
    compile: bool = option(False, "compile every layer with torch.compile")


@dataclass(frozen=True)
class ParallelOptions:
    """Mesh, pipeline schedule and batch."""

    mesh: MeshShape = field(
        default=MeshShape(pp=2, dp_shard=2),
        metadata={"help": "ranks along the axes pp, dp_replicate, dp_shard, tp", "choices": ()},
    )
    schedule: str = option("1f1b", "pipeline schedule", SCHEDULES)
    batch: int = option(32, "sequences per step over all ranks")
    microbatches: int = option(
        4, "micro-batches per step: of the pipeline, or of gradient accumulation without one"
    )
    compression: str = option(
        "none", "gradient compression; only for a mesh of dp_replicate alone", COMPRESSIONS
    )


@dataclass(frozen=True)
class DataOptions:
    """The training text."""

    data: str = option("", "text file or directory (default: Python's own standard library)")
    data_bytes: int = option(8 << 20, "most bytes of text to use")
    bad_shard: str = option(
        "fail", "reaction to a damaged shard: stop, or train without it", ("fail", "quarantine")
    )
    ahead: int = option(2, "batches to read ahead")


@dataclass(frozen=True)
class OptimizerOptions:
    """AdamW and its learning rate."""

    lr: float = option(3e-3, "peak learning rate")
    warmup: int = option(10, "steps of linear warm-up")
    final_lr: float = option(0.1, "learning rate at the last step, as a share of the peak")
    weight_decay: float = option(0.1, "decoupled weight decay of matrices")
    clip: float = option(1.0, "largest global gradient norm; 0 turns clipping off")
    nonfinite: str = option(
        "skip", "reaction to a gradient that is not finite", ("skip", "stop", "apply")
    )


@dataclass(frozen=True)
class CheckpointOptions:
    """Checkpoint interval, retention and mode."""

    checkpoint_every: int = option(20, "steps between checkpoints; 0: only after the last step")
    checkpoint_keep: int = option(2, "newest checkpoints to keep, besides the newest verified one")
    checkpoint_mode: str = option(
        "async", "async: write on a thread while training continues", ("async", "sync")
    )


@dataclass(frozen=True)
class EvaluationOptions:
    """Evaluations on held-out text, between steps."""

    eval_every: int = option(0, "steps between evaluations on held-out text; 0: none")
    eval_batches: int = option(4, "batches of an evaluation")
    eval_unmarked_every: int = option(
        0, "leave each Nth evaluation without a phase for the hooks; 0: none, 1: all"
    )


@dataclass(frozen=True)
class Options:
    """One run's resolved configuration."""

    run: RunOptions = RunOptions()
    model: ModelOptions = ModelOptions()
    parallel: ParallelOptions = ParallelOptions()
    data: DataOptions = DataOptions()
    optimizer: OptimizerOptions = OptimizerOptions()
    checkpoint: CheckpointOptions = CheckpointOptions()
    evaluation: EvaluationOptions = EvaluationOptions()
